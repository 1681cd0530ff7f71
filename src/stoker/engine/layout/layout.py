"""The rendered mappings of one gateway, applied to a commit: the first decision of a sync.

`Layout.map` lays out a whole commit (`stoker.engine.layout.overlay`). `Layout.map_changes`
(`stoker.engine.layout.incremental`) computes the same result from the changes between two commits, with work
in proportion to the change, or returns None where it cannot be certain. `settings` is a digest of
everything that shapes the files besides the commit: same commit and same settings mean same files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.git_objects import CommitTree, FileVersion, TreeChange
from stoker.domain.intent.files import FilesIntent, MappingKind, OrphanPolicy, TransformPolicy
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.engine.layout import incremental, overlay
from stoker.engine.layout.desired_files import DesiredFiles, ManagedPaths, MappingRoute, TransformProvider
from stoker.engine.layout.protected_paths import ProtectedPaths
from stoker.engine.plan.ledger import Ledger
from stoker.engine.transform.template_language import render_path, template

# Increase it whenever the same intent would be laid out differently: every data folder is then laid out
# again once.
_FINGERPRINT_VERSION = 2
_COMMIT_FIELDS = frozenset({"ref", "commit", "timestamp"})
_FIELDS_OF_THE_COMMIT = frozenset({".Ref", ".Commit", ".Timestamp"})
_MARK = "\0"
_EXPRESSION = r"\{\{\s*(\.[^{}]*?)\s*\}\}"


class Layout:
    """The routes of one intent with its values; built once per settings, used for each commit."""

    __slots__ = (
        "destinations",
        "excludes",
        "orphans",
        "protection",
        "routes",
        "settings",
        "transforming",
        "volatile",
    )

    def __init__(
        self, intent: FilesIntent, values: TemplateValues, transforming: TransformProvider | None = None
    ) -> None:
        if not intent.mappings:
            raise Stalled("no mapping says which files go where", reason=Reason.NO_MAPPINGS)
        self.routes = tuple(MappingRoute.of(mapping, values) for mapping in intent.mappings)
        self.destinations = ManagedPaths(
            frozenset(route.destination for route in self.routes if route.kind is not MappingKind.FILE),
            frozenset(route.destination for route in self.routes if route.kind is MappingKind.FILE),
        )
        self.protection = ProtectedPaths(intent.excludes)
        self.excludes = frozenset((*intent.excludes.patterns, *intent.excludes.mandatory))
        shaped = intent.transforms != TransformPolicy() or any(route.template for route in self.routes)
        self.transforming = transforming if shaped else None
        self.orphans = _orphan_rules(self.routes)
        shape = json.dumps(list(_layout_inputs(intent, _with_commit_placeholders(values))))
        self.settings = hashlib.sha256(shape.encode()).hexdigest()
        """A digest of everything that shapes the files, except values that come with the commit."""
        self.volatile = json.dumps(_MARK)[1:-1] in shape or any(r.template for r in self.routes)
        """Whether a new commit may change any file, so that the commit's changes do not show which."""

    def map(self, tree: CommitTree) -> DesiredFiles:
        """Return the desired files of this commit."""
        return overlay.build_desired(self, tree)

    def questions(self, changes: Sequence[TreeChange], drifted: Collection[str] = ()) -> frozenset[str]:
        """Return the paths of the new commit that must be looked up before `map_changes`."""
        return incremental.paths_to_look_up(self, changes, drifted)

    def map_changes(
        self,
        changes: Sequence[TreeChange],
        answers: Mapping[str, FileVersion],
        ledger: Ledger,
        *,
        drifted: Collection[str] = (),
    ) -> DesiredFiles | None:
        """Return the desired changes since `ledger.commit`; None if the whole new commit is needed.

        `answers` are the versions of those `questions` that are files of the new commit. `drifted` are
        destinations to include although the commit did not change them: their content has to be made again.
        """
        if self.volatile or not ledger.complete or ledger.settings != self.settings:
            return None
        return incremental.desired_changes(self, changes, answers, ledger, drifted)

    def derives(self, destination: str) -> bool:
        """Whether the content at a destination is made from another one, so the source lacks its blob id."""
        if any(route.stand_in == destination for route in self.routes):
            return True
        return self.transforming is not None and any(
            route.origin(destination) is not None
            and self.transforming.recipe(destination, template=route.template) is not None
            for route in self.routes
        )


def _orphan_rules(routes: Sequence[MappingRoute]) -> dict[str, OrphanPolicy]:
    """Return the orphan rule of each destination.

    If two mappings disagree, the rule that deletes less wins.
    """
    rules: dict[str, OrphanPolicy] = {}
    for route in routes:
        if route.orphans is not None and rules.get(route.destination) is not OrphanPolicy.OWNED:
            rules[route.destination] = route.orphans
    return rules


def _with_commit_placeholders(values: TemplateValues) -> TemplateValues:
    """Return the values with a marker in place of those that come with the commit."""
    given = {name for name, value in values._asdict().items() if value is not None}
    marks: dict[str, Any] = {name: _MARK + name for name in given & _COMMIT_FIELDS}
    return values._replace(**marks)


def _layout_inputs(intent: FilesIntent, values: TemplateValues) -> Iterator[object]:
    yield _FINGERPRINT_VERSION
    for mapping in intent.mappings:
        yield [
            mapping.source,
            mapping.destination,
            render_path(mapping.source, values),
            render_path(mapping.destination, values),
            mapping.kind,
            mapping.when_missing,
            mapping.template,
            mapping.orphans,
            mapping.gives_way,
            mapping.service_path,
        ]
    yield [sorted(set(intent.excludes.patterns)), sorted(set(intent.excludes.mandatory))]
    yield intent.deletion.orphans
    for text in _transform_texts(intent.transforms):
        yield [text, *(_template_value(expression, values) for expression in re.findall(_EXPRESSION, text))]
    if any(mapping.template for mapping in intent.mappings):  # a file's content can refer to any value
        yield [[name, _as_sequence(value)] for name, value in values._asdict().items()]


def _transform_texts(transforms: TransformPolicy) -> Iterator[str]:
    """Iterate over every text that the user wrote about contents, each after a word for its field."""
    if transforms.system_name is not None:
        yield from ("systemName", transforms.system_name)
    for one in transforms.fields:
        yield from ("field", one.json_path, one.value_template)
    if transforms.tag_provider is not None:
        yield from ("tagProvider", transforms.tag_provider.repository, transforms.tag_provider.gateway)
    if transforms.inherited_types is not None:
        inherited = transforms.inherited_types
        yield from ("inherited", inherited.folder, *sorted(inherited.names))
    for patch in transforms.patches:
        yield from ("patch", patch.file)
        for path, value in patch.values:
            yield from (path, value)


def _template_value(expression: str, values: TemplateValues) -> str | None:
    """Return the value that a transform refers to; None if missing, which the transform itself reports."""
    if expression in _FIELDS_OF_THE_COMMIT:
        return _MARK
    try:
        # Not rendered as a path, because it may be empty.
        return template(f"{{{{{expression}}}}}").render(values)
    except InvalidValue:
        return None


def _as_sequence(value: object) -> object:
    return sorted(value.items()) if isinstance(value, Mapping) else value
