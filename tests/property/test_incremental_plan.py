"""Laws of the engine over whole histories: the short way ends where the long one does.

A random repository with random mappings goes through random commits. At each commit
the changes alone are mapped, as far as the engine says that they suffice, and all of
the commit is mapped as well; both must lead to the same plan, the same ledger and the
same folder. Strangers come and go in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from stoker.domain.errors import Stalled
from stoker.domain.git_objects import CommitTree, FileVersion, TreeChange, blob_of
from stoker.domain.intent.files import (
    DeletionPolicy,
    ExcludePolicy,
    FileMapping,
    FilesIntent,
    MappingKind,
    MissingSourcePolicy,
    OrphanPolicy,
)
from stoker.domain.intent.template_values import TemplateValues
from stoker.engine.layout.desired_files import DesiredFiles
from stoker.engine.layout.layout import Layout
from stoker.engine.plan.guards import plan_objection
from stoker.engine.plan.ledger import Ledger, recorded_version
from stoker.engine.plan.plan import RESOURCE_MANIFEST, SyncPlan
from stoker.engine.plan.planner import make_plan
from stoker_testkit.in_memory_data_folder import ModelFolder

laws = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])

names = st.sampled_from(["a", "b", "B", "c.bak", "resource.json", "config-mode.json"])
versions = st.builds(
    FileVersion, st.sampled_from([blob_of(b"1"), blob_of(b"2"), blob_of(b"3")]), st.booleans()
)
tails = st.lists(names, min_size=1, max_size=3).map("/".join)
Files = dict[str, FileVersion]


def possible(files: Files) -> Files:
    """Without the files that would be below another file."""
    return {p: what for p, what in files.items() if not any(p.startswith(f"{other}/") for other in files)}


sources = st.tuples(st.sampled_from(["s/", "t/", "s/a/", ""]), tails).map("".join)
# In most histories no source is ever empty: then every commit is one that a guard lets pass.
ALWAYS = {path: FileVersion(blob_of(b"1")) for path in ("s/z", "t/z", "s/a/z", "t/b/z", "z")}
# In some only one source always has something, so that the others come, go and are stood in for.
ONE = {"s/z": FileVersion(blob_of(b"1"))}
trees = st.dictionaries(sources, versions, max_size=9).map(possible)
edits = st.dictionaries(sources, st.none() | versions, max_size=4)


@st.composite
def histories(draw: st.DrawFn) -> list[Files]:
    """Commits that each change a few files of the one before."""
    base = draw(st.sampled_from([ALWAYS, ALWAYS, ONE, {}]))
    found = [possible({**draw(trees), **base})]
    for edit in draw(st.lists(edits, min_size=1, max_size=4)):
        mixed = {**found[-1], **edit, **base}
        found.append(possible({path: version for path, version in mixed.items() if version is not None}))
    return found


# Of a named tuple hypothesis would also make up the fields that have a default.
def a_folder(
    source: str,
    destination: str,
    missing: MissingSourcePolicy,
    orphans: OrphanPolicy | None,
    gives_way: tuple[str, ...],
) -> FileMapping:
    return FileMapping(source, destination, when_missing=missing, orphans=orphans, gives_way=gives_way)


def a_file(source: str, destination: str) -> FileMapping:
    return FileMapping(source, destination, MappingKind.FILE)


def an_intent(
    mappings: tuple[FileMapping, ...], excludes: ExcludePolicy, deletion: DeletionPolicy
) -> FilesIntent:
    return FilesIntent(mappings, excludes=excludes, deletion=deletion)


mappings = st.lists(
    st.one_of(
        st.builds(
            a_folder,
            st.sampled_from(["s", "t", "s/a", "."]),
            st.sampled_from(["d", "d/a", "e", "."]),
            st.sampled_from(
                [MissingSourcePolicy.SKIP, MissingSourcePolicy.SKIP, MissingSourcePolicy.CONFIG_MODE]
            ),
            st.sampled_from([None, None, OrphanPolicy.OWNED, OrphanPolicy.MIRROR]),
            st.sampled_from([(), (), ("a", "config-mode.json")]),
        ),
        st.builds(a_file, st.sampled_from(["s/a", "t/b", "a"]), st.sampled_from(["d/a", "f", "e/b"])),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
intents = st.builds(
    an_intent,
    mappings,
    st.sampled_from([ExcludePolicy(), ExcludePolicy(("**/*.bak",)), ExcludePolicy(("e/**",), ("**/c.bak",))]),
    st.sampled_from([DeletionPolicy(), DeletionPolicy(orphans=OrphanPolicy.OWNED)]),
)
strangers = st.dictionaries(
    st.tuples(st.sampled_from(["d/", "e/", "g/", ""]), tails).map("".join), versions, max_size=4
).map(possible)


def between(old: Files, new: Files) -> list[TreeChange]:
    paths = [path for path in sorted(old.keys() | new.keys()) if old.get(path) != new.get(path)]
    return [TreeChange(path, old.get(path), new.get(path)) for path in paths]


def outcome(folder: ModelFolder, made: SyncPlan, ledger: Ledger) -> object:
    """Everything about a plan that lasts, and the folder after it."""
    folder = folder.copy()
    after = folder.carry_out(made, ledger)
    written = {path: recorded_version(kept) for path, kept in after.files.items()}
    return made.actions, made.digest, made.orphans_kept, made.facts, made.delivers_all, written, folder.files


def lay(folder: ModelFolder, files: Files) -> None:
    """Foreign files, where there is room for them."""
    for path, version in files.items():
        with suppress(OSError):
            folder.put(path, version)


class Engine:
    """One data folder that is brought from commit to commit."""

    def __init__(self, intent: FilesIntent, before: Files) -> None:
        self.intent = intent
        self.layout = Layout(intent, TemplateValues())
        self.folder = ModelFolder(before)
        self.ledger: Ledger | None = None
        self.at: Files = {}

    def whole(self, files: Files, commit: str) -> tuple[DesiredFiles, SyncPlan] | None:
        """The long way; None where a guard stops it."""
        try:
            desired = self.layout.map(CommitTree(files))
        except Stalled:
            return None
        live = self.folder.walk(self.ledger, desired.managed, desired.files)
        made = make_plan(desired, live, self.ledger, self.intent.deletion, commit=commit)
        stalled = plan_objection(made, desired, self.ledger, self.intent.deletion)
        return None if stalled is not None else (desired, made)

    def short(self, files: Files) -> DesiredFiles | None:
        """The short way, as far as it goes."""
        if self.ledger is None:
            return None
        changes = between(self.at, files)
        answers = {path: files[path] for path in self.layout.questions(changes) if path in files}
        return self.layout.map_changes(changes, answers, self.ledger)

    def go(self, made: SyncPlan, files: Files) -> None:
        self.ledger = self.folder.carry_out(made, self.ledger)
        self.at = files


@laws
@given(intents, histories(), st.lists(strangers, min_size=5, max_size=5))
def test_changes_alone_lead_where_the_whole_commit_does(
    intent: FilesIntent, history: Sequence[Files], meddling: Sequence[Files]
) -> None:
    engine = Engine(intent, {})
    for number, files in enumerate(history):
        lay(engine.folder, meddling[number])
        part, found = engine.short(files), engine.whole(files, str(number))
        event(f"mapped by changes alone: {part is not None}")
        if found is None:
            assert part is None
            return
        desired, made = found
        if part is not None:
            assert engine.ledger is not None
            assert (part.managed, part.given, part.delivered) == (
                desired.managed,
                desired.given,
                desired.delivered,
            )
            live = engine.folder.walk(engine.ledger, part.managed, part.paths)
            short = make_plan(part, live, engine.ledger, intent.deletion, commit=str(number))
            assert outcome(engine.folder, short, engine.ledger) == outcome(engine.folder, made, engine.ledger)
            made = short
        engine.go(made, files)


@laws
@given(intents, histories())
def test_without_other_writers_no_walk_is_needed(intent: FilesIntent, history: Sequence[Files]) -> None:
    engine = Engine(intent, {})
    for number, files in enumerate(history):
        part, found = engine.short(files), engine.whole(files, str(number))
        if found is None:
            return
        made = found[1]
        if part is not None:
            assert engine.ledger is not None
            live = engine.folder.look(engine.ledger, part.paths)
            made = make_plan(part, live, engine.ledger, intent.deletion, commit=str(number))
            event(f"actions: {bool(made.actions)}")
            assert outcome(engine.folder, made, engine.ledger) == outcome(
                engine.folder, found[1], engine.ledger
            )
        engine.go(made, files)


@laws
@given(intents, histories(), st.data())
def test_two_engines_agree_whatever_commits_they_saw_on_the_way(
    intent: FilesIntent, history: Sequence[Files], data: st.DataObject
) -> None:
    """Unless something could not be delivered: then what lay there before stays."""
    ends = []
    for _ in range(2):
        seen = data.draw(st.lists(st.sampled_from(history), max_size=3))
        engine = Engine(intent, {})
        for number, files in enumerate((*seen, history[-1])):
            found = engine.whole(files, str(number))
            if found is None:
                return
            part = engine.short(files)
            if part is not None and engine.ledger is not None:
                live = engine.folder.look(engine.ledger, part.paths)
                engine.go(make_plan(part, live, engine.ledger, intent.deletion, commit=str(number)), files)
            else:
                engine.go(found[1], files)
        assert engine.ledger is not None
        ends.append((engine.ledger.complete, engine.folder.files))
    complete = all(complete for complete, _ in ends)
    event(f"complete: {complete}")
    if complete:
        assert ends[0] == ends[1]


@laws
@given(intents, histories(), st.lists(strangers, min_size=5, max_size=5))
def test_laws_of_every_sync(intent: FilesIntent, history: Sequence[Files], meddling: Sequence[Files]) -> None:
    engine = Engine(intent, {})
    for number, files in enumerate(history):
        lay(engine.folder, meddling[number])
        found = engine.whole(files, str(number))
        if found is None:
            return
        desired, made = found
        lying, ledger = dict(engine.folder.files), engine.ledger
        engine.go(made, files)
        after = engine.folder.files

        refused = {note.path for note in made.conflicts}
        wanted = {path: version for path, version in desired.files.items() if path not in refused}
        assert {path: after[path] for path in wanted} == wanted

        ours = ledger.files.keys() if ledger is not None else set()
        gone = lying.keys() - after.keys()
        assert gone == {delete.path for delete in made.removals} - after.keys()
        assert all(path in ours or desired.managed.hold(path) for path in gone)
        assert not gone or ledger is not None, "deleted on first contact"
        if intent.deletion.orphans is OrphanPolicy.OWNED and not desired.orphans:
            assert gone <= ours
        untouched = lying.keys() - wanted.keys() - gone
        assert {path: after[path] for path in untouched} == {path: lying[path] for path in untouched}
        assert after.keys() - lying.keys() <= wanted.keys()

        manifests = [write.path.name == RESOURCE_MANIFEST for write in made.writes]
        assert manifests == sorted(manifests), "a resource.json was planned before data"
        again = engine.whole(files, str(number))
        assert again is not None
        assert not again[1].actions
        assert not again[1].remembered


@laws
@given(intents, strangers, histories(), st.randoms())
def test_a_digest_does_not_depend_on_the_order_in_which_anything_was_found(
    intent: FilesIntent, before: Files, history: Sequence[Files], random: Random
) -> None:
    def shuffled(files: Files) -> Files:
        items = list(files.items())
        random.shuffle(items)
        return dict(items)

    def digests(mixed: bool) -> list[str]:
        mix = shuffled if mixed else dict
        engine, found = Engine(intent, mix(before)), []
        for files in history:
            made = engine.whole(mix(files), "")
            if made is None:
                break
            engine.go(made[1], files)
            found.append(made[1].digest)
        return found

    assert digests(mixed=True) == digests(mixed=False)
