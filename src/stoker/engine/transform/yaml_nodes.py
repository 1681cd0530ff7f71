"""Parses a YAML file into values and their positions in the text.

It builds nodes from the parser's events with its own stack. It constructs no objects, so a tag cannot call
code. An alias stays an alias, so an alias bomb costs only its own length. Nesting, number of values and size
are bounded. `stoker.engine.transform.yaml_edit` parses the text again after an edit and compares both
`shape`s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

import yaml

from stoker.domain.errors import InvalidValue

MAX_BYTES = 4 << 20
MAX_DEPTH = 64
MAX_NODES = 100_000
MAX_DIRECTIVES = 16


class YamlNodeKind(Enum):
    SCALAR = auto()
    MAP = auto()
    LIST = auto()
    ALIAS = auto()


YamlMark = tuple[str, str, str, bool]
"""One event: its type with its anchor, its tag, its value, and whether it is unquoted."""


@dataclass(slots=True)
class YamlNode:
    """A value and its span; a list or mapping has its children, in a mapping keys and values alternate."""

    kind: YamlNodeKind
    start: int
    end: int
    column: int
    place: int
    """The index of its first event in the shape."""
    value: str = ""
    style: str = ""
    anchor: str = ""
    tag: str = ""
    flow: bool = False
    children: list[YamlNode] = field(default_factory=list)
    last_place: int = 0

    @property
    def plain(self) -> bool:
        return not self.style and not self.tag


@dataclass(slots=True)
class YamlDocuments:
    """All documents of a file."""

    roots: list[YamlNode]
    shape: list[YamlMark]


def parse_documents(text: str) -> YamlDocuments:
    """Parse all documents of a text without byte order mark."""
    # The parser compares each tag directive with all earlier ones, which is quadratic.
    if text.count("\n%") + text.startswith("%") > MAX_DIRECTIVES:
        raise InvalidValue(f"is not YAML that can be edited: it has more than {MAX_DIRECTIVES} directives")
    reader = _YamlNodeReader()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            reader.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "it cannot be read"
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise InvalidValue(f"is not YAML: {where}{problem}") from None
    return YamlDocuments(reader.roots, reader.shape)


class _YamlNodeReader:
    """Builds nodes from events."""

    def __init__(self) -> None:
        self.roots: list[YamlNode] = []
        self.shape: list[YamlMark] = []
        self._open: list[YamlNode] = []

    def take(self, event: yaml.Event) -> None:
        anchor, tag = getattr(event, "anchor", None) or "", getattr(event, "tag", None) or ""
        value = getattr(event, "value", "")
        plain = isinstance(event, yaml.ScalarEvent) and bool(event.implicit[0])
        self.shape.append((f"{type(event).__name__} {anchor}", tag, value, plain))
        match event:
            case yaml.ScalarEvent():
                self._add(self._node(event, YamlNodeKind.SCALAR, value=value, style=event.style or ""))
            case yaml.AliasEvent():
                self._add(self._node(event, YamlNodeKind.ALIAS))
            case yaml.CollectionStartEvent():
                kind = YamlNodeKind.MAP if isinstance(event, yaml.MappingStartEvent) else YamlNodeKind.LIST
                node = self._node(event, kind, flow=bool(event.flow_style))
                self._add(node)
                self._open.append(node)
                if len(self._open) > MAX_DEPTH:
                    raise InvalidValue(
                        f"is not YAML that can be edited: it is nested deeper than {MAX_DEPTH} levels"
                    )
            case yaml.CollectionEndEvent():
                done = self._open.pop()
                done.end = _mark_position(event.end_mark)[0]
                done.last_place = len(self.shape) - 1

    def _node(
        self,
        event: yaml.NodeEvent,
        kind: YamlNodeKind,
        *,
        value: str = "",
        style: str = "",
        flow: bool = False,
    ) -> YamlNode:
        if len(self.shape) > MAX_NODES:
            raise InvalidValue(f"is not YAML that can be edited: it holds more than {MAX_NODES} values")
        start, column = _mark_position(event.start_mark)
        end, _ = _mark_position(event.end_mark)
        return YamlNode(
            kind,
            start,
            end,
            column,
            len(self.shape) - 1,
            value=value,
            style=style,
            anchor=event.anchor or "",
            tag=getattr(event, "tag", None) or "",
            flow=flow,
        )

    def _add(self, node: YamlNode) -> None:
        (self._open[-1].children if self._open else self.roots).append(node)


def _mark_position(mark: object) -> tuple[int, int]:
    """Return index and column in characters; every event of this parser has them."""
    return getattr(mark, "index", 0), getattr(mark, "column", 0)
