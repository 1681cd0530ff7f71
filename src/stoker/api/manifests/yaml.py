"""Parses untrusted YAML from disk into plain values.

The document is built from the parser's events with an explicit stack. So no tag can call
a constructor, nesting cannot exhaust the recursion limit, and each alias counts with the size
of the content that it repeats: an alias bomb of nine lines is refused while it is read.
Duplicate keys are refused, because this parser and the cluster might keep different ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from stoker.api.manifests.yaml_scalars import YamlScalar, key_as_text, parse_plain_scalar
from stoker.domain.errors import InvalidValue

MAX_BYTES = 3 << 20
MAX_DEPTH = 64
MAX_NODES = 100_000
MAX_DOCUMENTS = 500

YamlValue = YamlScalar | list["YamlValue"] | dict[str, "YamlValue"]

_TEXT_TAGS = ("tag:yaml.org,2002:str", "!")


@dataclass(slots=True)
class _OpenCollection:
    """A list or map that is not finished yet."""

    value: list[YamlValue] | dict[str, YamlValue]
    anchor: str | None
    line: int
    first_node: int
    key: str | None = None
    merging: bool = False
    merged: list[dict[str, YamlValue]] = field(default_factory=list)


def load_documents(data: bytes) -> Iterator[YamlValue]:
    """Yield each document of a file, without empty ones."""
    if len(data) > MAX_BYTES:
        raise InvalidValue(f"the file is larger than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidValue(f"the file is not UTF-8 at byte {error.start}") from None
    reader = _YamlReader()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            yield from reader.take(event)
    except yaml.YAMLError as error:
        raise InvalidValue(_explain_yaml_error(error)) from None


class _YamlReader:
    """Builds documents from parser events."""

    def __init__(self) -> None:
        self._open: list[_OpenCollection] = []
        self._anchors: dict[str, tuple[YamlValue, int]] = {}
        self._nodes = 0
        self._documents = 0
        self._root: YamlValue = None

    def take(self, event: yaml.Event) -> Iterator[YamlValue]:
        match event:
            case yaml.DocumentStartEvent():
                self._anchors.clear()
                self._root = None
                self._documents += 1
                if self._documents > MAX_DOCUMENTS:
                    raise InvalidValue(f"the file has more than {MAX_DOCUMENTS} documents")
            case yaml.DocumentEndEvent():
                if self._root is not None:
                    yield self._root
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.CollectionStartEvent():
                self._begin(event)
            case yaml.CollectionEndEvent():
                self._end()

    def _count(self, nodes: int, event: yaml.Event) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise InvalidValue(
                f"line {_line(event)}: the file holds more than {MAX_NODES} values, aliases included"
            )

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._count(1, event)
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            raise InvalidValue(f"line {_line(event)}: the tag {event.tag[:80]} is not allowed")
        plain = event.implicit[0]
        try:
            value = parse_plain_scalar(event.value) if plain else event.value
        except InvalidValue as error:
            raise InvalidValue(f"line {_line(event)}: {error.message}") from None
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._add(value, _line(event), merges=plain and event.value == "<<")

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            raise InvalidValue(
                f"line {_line(event)}: the alias *{event.anchor} is before or inside its anchor"
            )
        value, size = self._anchors[event.anchor]
        self._count(size, event)
        self._add(value, _line(event))

    def _begin(self, event: yaml.CollectionStartEvent) -> None:
        self._count(1, event)
        if event.tag is not None:
            raise InvalidValue(f"line {_line(event)}: the tag {event.tag[:80]} is not allowed")
        if len(self._open) >= MAX_DEPTH:
            raise InvalidValue(f"line {_line(event)}: nested deeper than {MAX_DEPTH} levels")
        value: list[YamlValue] | dict[str, YamlValue] = (
            {} if isinstance(event, yaml.MappingStartEvent) else []
        )
        self._open.append(_OpenCollection(value, event.anchor, _line(event), self._nodes))

    def _end(self) -> None:
        done = self._open.pop()
        if isinstance(done.value, dict):
            for source in done.merged:
                for name, value in source.items():
                    done.value.setdefault(name, value)
        if done.anchor:
            self._anchors[done.anchor] = (done.value, self._nodes - done.first_node + 1)
        self._add(done.value, done.line)

    def _add(self, value: YamlValue, line: int, *, merges: bool = False) -> None:
        """Add a finished value to its parent; in a map, keys and values alternate."""
        if not self._open:
            self._root = value
            return
        parent = self._open[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None and not parent.merging:
            parent.merging = merges
            parent.key = None if merges else _key_text(parent.value, value, line)
        elif parent.key is None:
            parent.merged += _merge_sources(value, line)
            parent.merging = False
        else:
            parent.value[parent.key] = value
            parent.key = None


def _key_text(parent: dict[str, YamlValue], value: YamlValue, line: int) -> str:
    if isinstance(value, (list, dict)):
        raise InvalidValue(f"line {line}: a list or map cannot be the name of a field")
    name = key_as_text(value)
    if name in parent:
        raise InvalidValue(f"line {line}: the field {name[:80]!r} occurs twice")
    return name


def _merge_sources(value: YamlValue, line: int) -> list[dict[str, YamlValue]]:
    sources = value if isinstance(value, list) else [value]
    maps = [one for one in sources if isinstance(one, dict)]
    if len(maps) != len(sources):
        raise InvalidValue(f"line {line}: << takes a map or a list of maps")
    return maps


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0


def _explain_yaml_error(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "cannot be read as YAML"
    return f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)
