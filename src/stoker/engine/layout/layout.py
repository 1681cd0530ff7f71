"""One gateway's mappings, rendered, and what they make of a commit.

The first decision of a pass. All of a commit is laid out by `Layout.map`
(`stoker.engine.layout.overlay`); where only what changed between two commits has to be
known, `Layout.map_changes` (`stoker.engine.layout.incremental`) says the same with work that
follows the change, or says that it cannot be sure. `settings` names everything that
shapes the files besides the commit: as long as commit and settings are the same, so
are the files.
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

# Raised whenever the same intent would be laid out differently: every data folder is then mapped anew once.
_FINGERPRINT_VERSION = 2
_COMMIT_FIELDS = frozenset({"ref", "commit", "timestamp"})
_FIELDS_OF_THE_COMMIT = frozenset({".Ref", ".Commit", ".Timestamp"})
_MARK = "\0"
_EXPRESSION = r"\{\{\s*(\.[^{}]*?)\s*\}\}"


class Layout:
    """The routes of one intent with its values; made once per settings, asked for each commit."""

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
        """A digest of all that shapes the files; a value that comes with the commit does not count."""
        self.volatile = json.dumps(_MARK)[1:-1] in shape or any(r.template for r in self.routes)
        """Whether a new commit may change any file, so that its changes alone do not tell which."""

    def map(self, tree: CommitTree) -> DesiredFiles:
        """The files that the gateway shall have, of this commit."""
        return overlay.build_desired(self, tree)

    def questions(self, changes: Sequence[TreeChange], drifted: Collection[str] = ()) -> frozenset[str]:
        """Which paths of the new commit must be looked up before the changes can be mapped."""
        return incremental.paths_to_look_up(self, changes, drifted)

    def map_changes(
        self,
        changes: Sequence[TreeChange],
        answers: Mapping[str, FileVersion],
        ledger: Ledger,
        *,
        drifted: Collection[str] = (),
    ) -> DesiredFiles | None:
        """What the changes since `ledger.commit` mean; None if only all of the new commit can tell.

        `answers` are the versions of those `questions` that are files of the new commit.
        `drifted` are destinations to be named although nothing
        changed them: their content has to be made again.
        """
        if self.volatile or not ledger.complete or ledger.settings != self.settings:
            return None
        return incremental.desired_changes(self, changes, answers, ledger, drifted)

    def derives(self, destination: str) -> bool:
        """Whether a content there is made from another one, so that the source does not have it by its id."""
        if any(route.stand_in == destination for route in self.routes):
            return True
        return self.transforming is not None and any(
            route.origin(destination) is not None
            and self.transforming.recipe(destination, template=route.template) is not None
            for route in self.routes
        )


def _orphan_rules(routes: Sequence[MappingRoute]) -> dict[str, OrphanPolicy]:
    """By destination; where two mappings disagree, the one that deletes less is heard."""
    rules: dict[str, OrphanPolicy] = {}
    for route in routes:
        if route.orphans is not None and rules.get(route.destination) is not OrphanPolicy.OWNED:
            rules[route.destination] = route.orphans
    return rules


def _with_commit_placeholders(values: TemplateValues) -> TemplateValues:
    """The values with a mark in the place of those that come with the commit."""
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
    if any(mapping.template for mapping in intent.mappings):  # a content can name any value
        yield [[name, _as_sequence(value)] for name, value in values._asdict().items()]


def _transform_texts(transforms: TransformPolicy) -> Iterator[str]:
    """Everything that a person wrote about contents, each with its place before it."""
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
    """The value that a transform names. One that does not exist is its own business to refuse."""
    if expression in _FIELDS_OF_THE_COMMIT:
        return _MARK
    try:
        return template(f"{{{{{expression}}}}}").render(values)  # no path: it may be empty
    except InvalidValue:
        return None


def _as_sequence(value: object) -> object:
    return sorted(value.items()) if isinstance(value, Mapping) else value
