"""Laws of deletions: over any ledger, any mappings and any disk, nothing goes that was not allowed to.

The layout, the planner and the guard are the product's own; only the disk is a value.
"""

from __future__ import annotations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from stoker.domain.git_objects import CommitTree, FileVersion, blob_of
from stoker.domain.intent.files import DeletionPolicy, FileMapping, FilesIntent, OrphanPolicy
from stoker.domain.intent.template_values import TemplateValues
from stoker.engine.layout.layout import Layout
from stoker.engine.layout.protected_paths import PROTECTED_PATHS
from stoker.engine.plan.guards import plan_objection
from stoker.engine.plan.ledger import Ledger, encode_record
from stoker.engine.plan.live import LiveDifferences, LiveEntry, LiveKind
from stoker.engine.plan.planner import make_plan

VERSION = FileVersion(blob_of(b"1"))
PLACES = ("projects", "projects/P", "config", "config/resources/core", "fonts")
OWN = ("config/ignition/keys/k", "config/ignition/tags/valueStore.idb", "config/local/x")

names = st.integers(0, 70).map(str)
places = st.sampled_from(PLACES)
files = st.builds("{}/{}".format, places, names)
many = st.sets(files, max_size=90)
mappings = st.lists(places, min_size=1, max_size=3, unique=True)
limits = st.tuples(st.integers(0, 60), st.integers(0, 100))


@given(
    written=many,
    theirs=many,
    mirrored=st.sets(places),
    mapped=mappings,
    desired=st.sets(names, min_size=1, max_size=40),
    orphans=st.sampled_from(OrphanPolicy),
    limit=limits,
)
@settings(max_examples=400, deadline=None)
def test_no_deletion_of_an_unmapped_destination_or_above_a_limit_without_the_approval(
    written: set[str],
    theirs: set[str],
    mirrored: set[str],
    mapped: list[str],
    desired: set[str],
    orphans: OrphanPolicy,
    limit: tuple[int, int],
) -> None:
    policy = DeletionPolicy(orphans, *limit)
    tree = CommitTree({f"s/{place}/{name}": VERSION for place in mapped for name in desired})
    intent = FilesIntent(tuple(FileMapping(f"s/{place}", place) for place in mapped), deletion=policy)
    wanted = Layout(intent, TemplateValues()).map(tree)
    ledger = Ledger(
        dict.fromkeys(sorted(written), encode_record(VERSION)),
        folders=frozenset(PLACES),
        mirrored=frozenset(mirrored),
    )
    strangers = {path: LiveEntry(LiveKind.FILE, VERSION) for path in theirs.union(OWN) - written}
    made = make_plan(wanted, LiveDifferences(strangers, walked=True), ledger, policy)
    deleted = {str(delete.path) for delete in made.removals}
    approved = {str(delete.path) for delete in made.with_orphans().removals}

    assert not any(PROTECTED_PATHS.matches(path) for path in approved), "not even an approval deletes these"
    if orphans is OrphanPolicy.OWNED:
        assert approved <= written, "only what we wrote"

    given_up = set(PLACES) - set(mapped)
    # Every place was a destination before; a wider one that is still mapped does not replace it.
    unmapped = {path for path in deleted if any(path.startswith(f"{place}/") for place in given_up)}
    above_files = len(deleted) > limit[0]
    above_share = len(deleted) > 10 and len(deleted) * 100 > limit[1] * len(written)
    held = plan_objection(made, wanted, ledger, policy)
    event(f"unmapped {bool(unmapped)}, above {above_files or above_share}")
    assert (held is not None) == bool(unmapped or above_files or above_share)
    if held is not None:
        assert made.digest in held.message
        assert plan_objection(made, wanted, ledger, policy, {"0" * 64}) is not None
    assert plan_objection(made, wanted, ledger, policy, {made.digest}) is None
