"""Merges a spec with everything that it inherits.

The order is resource, base, the installation's defaults, built-in values. The result is a
spec of the same kind that inherits nothing any more, equal to a complete file on disk. The
controller works with it and sends it to the agents. Only the result shows whether a required
field is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from stoker.api.defaults import UNMERGED_PATHS, with_defaults
from stoker.api.field_docs import Block
from stoker.api.kinds.ignitionsync import ALLOWED_NAMESPACES, IgnitionSyncBase, IgnitionSyncBaseSpec
from stoker.api.kinds.resource import CustomResource
from stoker.api.kinds.sync import SyncSpec
from stoker.api.manifests.codec import encode, from_wire, to_wire
from stoker.api.manifests.validate import broken_rules, unknown_fields
from stoker.api.meta import NamespacedRef
from stoker.api.schema import fields_of
from stoker.api.to_intent.field_aliases import resolve_aliases
from stoker.api.to_intent.tree_merge import SpecTree, inherit
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.intent.intent import Notice
from stoker.domain.reasons import Reason

S = TypeVar("S", bound=SyncSpec)

_UNMERGED_PATH_SET = frozenset(UNMERGED_PATHS)

# The chart's defaults set size and class for all resources; only a resource or a base requests a volume.
_ENABLED_BY_PRESENCE = "storage"

_SHOWN_PROBLEMS = 5


def merge_and_check_spec(kind: str, spec: S, base: Block | None, defaults: Block) -> S:
    """Return the spec after the merge, complete and checked."""
    tree = _block_as_tree(spec)
    if base is not None:
        tree = _merge_trees(tree, _block_as_tree(base))
    offered = _block_as_tree(defaults)
    if _ENABLED_BY_PRESENCE not in tree:
        offered.pop(_ENABLED_BY_PRESENCE, None)
    known = {one.encode_name for one in fields_of(type(spec))}
    tree = _merge_trees(tree, {name: value for name, value in offered.items() if name in known})
    tree.pop("inheritsFrom", None)
    complete = from_wire(with_defaults(kind, tree), type(spec))
    _refuse_broken_rules(kind, complete)
    return complete


def written_spec(resource: CustomResource, base: Block | None = None) -> SpecTree:
    """Return the spec as users wrote it, in the resource and in the base, without any default."""
    own = resolve_aliases(msgspec.convert(to_wire(resource)["spec"], dict[str, object]))
    return own if base is None else _merge_trees(own, _block_as_tree(base))


def installation_defaults(values: Mapping[str, object]) -> IgnitionSyncBaseSpec:
    """Parse the chart's `defaults`, once when a process starts; a misspelt name stops the process."""
    unknown = sorted(unknown_fields(IgnitionSyncBaseSpec, values))
    if unknown:
        raise InvalidValue(f"defaults: unknown field {', '.join(unknown)}", reason=Reason.MISCONFIGURED)
    defaults = from_wire(values, IgnitionSyncBaseSpec)
    _refuse_broken_rules("defaults", defaults)
    return defaults


def base_allows(home: str, namespace: str, annotations: Mapping[str, str] | None) -> bool:
    """Return whether a base in namespace `home`, with these annotations, may be used from `namespace`."""
    listed = (annotations or {}).get(ALLOWED_NAMESPACES, "")
    return home == namespace or not {namespace, "*"}.isdisjoint(name.strip() for name in listed.split(","))


def check_base(namespace: str, wanted: NamespacedRef, base: IgnitionSyncBase | None) -> tuple[Notice, ...]:
    """Raise unless a resource of this namespace may use the base that it names.

    A missing base of another namespace gets the same answer as a base that does not allow the namespace:
    otherwise any tenant could find out which bases another namespace has.
    """
    home = wanted.namespace or namespace
    named = f"IgnitionSyncBase {home}/{wanted.name}"
    if base is None and home == namespace:
        raise Stalled(f"{named} does not exist", reason=Reason.BASE_NOT_FOUND)
    if base is None or not base_allows(home, namespace, base.metadata.annotations):
        raise Stalled(
            f"{named} does not exist, or does not list namespace {namespace} in its annotation "
            f"{ALLOWED_NAMESPACES}",
            reason=Reason.BASE_NOT_ALLOWED,
        )
    return ()


def _block_as_tree(block: Block) -> SpecTree:
    tree: SpecTree = msgspec.json.decode(encode(block), type=dict[str, object])
    return resolve_aliases(tree)


def _merge_trees(own: SpecTree, base: SpecTree) -> SpecTree:
    merged = inherit(own, base, _UNMERGED_PATH_SET)
    assert isinstance(merged, dict)  # noqa: S101 - two maps give a map
    return merged


def _refuse_broken_rules(kind: str, block: Block) -> None:
    problems = [str(problem) for problem in broken_rules(block, "spec")]
    if problems:
        more = len(problems) - _SHOWN_PROBLEMS
        said = "; ".join(problems[:_SHOWN_PROBLEMS] + ([f"and {more} more"] if more > 0 else []))
        raise InvalidValue(f"{kind}: {said}", reason=Reason.INVALID_SPEC)
