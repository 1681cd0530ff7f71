"""Repositories made to harm, and volumes with traps, against a whole pass.

Trees are written object by object, so they hold what no git command would put
there. Around the data folder there is a sentinel; after every sync it is as it was.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.domain.errors import InvalidValue, Retry, Stalled, StokerError
from stoker.domain.git_objects import FileVersion, blob_of
from stoker.domain.intent.files import FileMapping, FilesIntent
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef
from stoker.engine.plan.ledger import encode_record
from stoker.fs import journal
from stoker.fs.ledger_store import JOURNAL, MANIFEST
from stoker.fs.stat_stamp import unseen_stamp
from stoker_testkit.repositories.bare_repository import submodule, symlink
from stoker_testkit.repositories.malicious_repository import FOLDER, LFS_POINTER, LINK, REGULAR, Attack


@pytest.fixture
def attack(tmp_path: Path) -> Attack:
    return Attack(tmp_path)


TARGETS = ["/etc/passwd", "../../../sentinel", "../../../", "dangling", ".", "/", "good", "a/" * 2000]


@pytest.mark.parametrize("target", TARGETS)
async def test_a_symlink_is_named_and_not_followed(attack: Attack, target: str) -> None:
    attack.source((LINK, b"link", attack.blob(target.encode())))
    report = await attack.sync()
    assert attack.delivered() == {"good": b"good"}
    assert {note.path for note in report.plan.skipped} == {"s/link"}
    assert not report.partial


async def test_a_chain_of_symlinks_is_named_link_by_link(attack: Attack) -> None:
    files = {f"s/l{n}": symlink(f"l{n + 1}") for n in range(40)}
    attack.repository.commit({**files, "s/good": "good"})
    report = await attack.sync()
    assert len(report.plan.skipped) == 40
    assert attack.delivered() == {"good": b"good"}


async def test_the_content_behind_a_symlink_is_in_no_report(attack: Attack) -> None:
    attack.source((LINK, b"link", attack.blob(b"/etc/secret-canary")))
    report = await attack.sync()
    assert "secret-canary" not in str(report.as_json()) + "".join(report.lines())


async def test_a_file_below_a_symlink_of_the_same_tree_is_refused(attack: Attack) -> None:
    inside = attack.tree((REGULAR, b"sentinel", attack.blob(b"evil")))
    attack.source((LINK, b"link", attack.blob(b"../../..")), (FOLDER, b"link", inside))
    report = await attack.sync()
    assert attack.delivered() == {"good": b"good"}
    assert {note.path for note in report.plan.conflicts} == {"projects/P/link/sentinel"}


async def test_a_folder_that_becomes_a_symlink_keeps_what_was_delivered(attack: Attack) -> None:
    attack.repository.commit({"s/dir/file": "1", "s/good": "good"})
    await attack.sync()
    attack.repository.commit({"s/dir/file": None, "s/dir": symlink("/etc")})
    report = await attack.sync()
    assert attack.delivered() == {"dir/file": b"1", "good": b"good"}
    assert {note.path for note in report.plan.skipped} == {"s/dir"}


NAMES = [
    b"..",
    b".",
    b".git",
    b".GIT",
    b"git~1",
    b".gi\xe2\x80\x8ct",
    b"a\\b",
    b"new\nline",
    b"\x1b[31mred",
    b"\xff\xfe",
    b"dot.",
    b"space ",
    b"x" * 300,
]


@pytest.mark.parametrize("name", NAMES, ids=repr)
@pytest.mark.parametrize("as_folder", [False, True], ids=["file", "folder"])
async def test_a_name_that_is_not_canonical_is_refused_and_shown_harmlessly(
    attack: Attack, name: bytes, as_folder: bool
) -> None:
    evil = attack.blob(b"evil")
    entry = (FOLDER, name, attack.tree((REGULAR, b"sentinel", evil))) if as_folder else (REGULAR, name, evil)
    attack.source(entry)
    report = await attack.sync()
    assert attack.delivered() == {"good": b"good"}
    (note,) = report.errors
    assert note.path.startswith("s/")
    assert note.path.isprintable()
    assert note.why.isprintable()
    assert report.partial


@pytest.mark.parametrize("name", [b"a/b", b"../../../sentinel", b"/etc/passwd", b"a//b"], ids=repr)
async def test_a_name_with_a_separator_in_it_stays_inside_or_is_refused(attack: Attack, name: bytes) -> None:
    attack.source((REGULAR, name, attack.blob(b"evil")))
    await attack.sync()
    assert attack.delivered().keys() <= {"good", "a/b"}


async def test_nothing_is_deleted_in_a_folder_in_which_a_name_was_refused(attack: Attack) -> None:
    attack.repository.commit({"s/dir/view": "1", "s/gone": "1", "s/good": "good"})
    await attack.sync()
    dir_ = attack.tree((REGULAR, b"view ", attack.blob(b"1")))
    attack.source((FOLDER, b"dir", dir_))
    await attack.sync()
    assert attack.delivered() == {"dir/view": b"1", "good": b"good"}


async def test_a_path_of_thousands_of_folders_is_refused(attack: Attack) -> None:
    tree = attack.tree((REGULAR, b"f", attack.blob(b"evil")))
    for _ in range(600):
        tree = attack.tree((FOLDER, b"d" * 50, tree))
    attack.source((FOLDER, b"deep", tree))
    report = await attack.sync()
    assert attack.delivered() == {"good": b"good"}
    assert len(report.errors) == 1
    assert len(report.errors[0].path) <= 200


async def test_one_name_twice_in_a_tree_is_refused_twice(attack: Attack) -> None:
    attack.source((REGULAR, b"a", attack.blob(b"1")), (REGULAR, b"a", attack.blob(b"2")))
    report = await attack.sync()
    assert attack.delivered() == {"good": b"good"}
    assert [note.path for note in report.errors] == ["s/a"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("View", "view"), ("caf\u00e9", "cafe\u0301"), ("A/x", "a/y")],
    ids=["case", "unicode", "folder"],
)
async def test_names_that_some_filesystem_confuses_are_all_refused(
    attack: Attack, one: str, other: str
) -> None:
    attack.repository.commit({f"s/{one}": "1", f"s/{other}": "2", "s/good": "good"})
    report = await attack.sync()
    assert attack.delivered() == {"good": b"good"}
    assert len(report.plan.conflicts) == 2
    assert report.partial


@pytest.mark.parametrize("mode", ["104755", "102755", "100777", "100600", "100000", "100644"])
async def test_of_a_mode_only_the_executable_bit_reaches_the_disk(attack: Attack, mode: str) -> None:
    attack.source((mode, b"f", attack.blob(b"1")))
    await attack.sync()
    found = stat.S_IMODE((attack.data / "projects/P/f").stat().st_mode)
    assert found == (0o755 if int(mode, 8) & 0o100 else 0o644)


@pytest.mark.parametrize("mode", ["60644", "20644", "10644", "0", "7777777"])
async def test_a_mode_that_git_does_not_know_is_refused(attack: Attack, mode: str) -> None:
    attack.source((mode, b"device", attack.blob(b"1")))
    report = await attack.sync()
    assert attack.delivered() == {"good": b"good"}
    assert {note.path for note in report.plan.skipped} == {"s/device"}


async def test_a_submodule_is_named_and_never_fetched(attack: Attack) -> None:
    canary = attack.outside / "fetched"
    modules = f'[submodule "../../x"]\n\tpath = s/mod\n\turl = ext::sh -c "touch {canary}"\n'
    attack.repository.commit({".gitmodules": modules, "s/mod": submodule("1" * 40), "s/good": "good"})
    report = await attack.sync()
    assert {note.path for note in report.plan.skipped} == {"s/mod"}
    assert not canary.exists()


async def test_a_source_of_nothing_but_a_submodule_stalls(attack: Attack) -> None:
    attack.repository.commit({"s": submodule("1" * 40), "t/good": "good"})
    with pytest.raises(Stalled, match="submodule") as stalled:
        await attack.sync()
    assert stalled.value.reason is Reason.SOURCE_EMPTY


@pytest.mark.parametrize("source", ["typo", "s/typo"])
async def test_a_misspelt_source_in_a_mapping_deletes_nothing(attack: Attack, source: str) -> None:
    attack.repository.commit({"s/f": "1", "t/g": "2"})
    other = FileMapping("t", "projects/P/t")
    await attack.sync(FilesIntent((FileMapping("s", "projects/P"), other)))
    with pytest.raises(Stalled, match=f"{source} -> projects/P gives no file") as stalled:
        await attack.sync(FilesIntent((FileMapping(source, "projects/P"), other)))
    assert stalled.value.reason is Reason.SOURCE_EMPTY
    assert attack.delivered() == {"f": b"1", "t/g": b"2"}


async def test_a_resource_stays_whole_when_a_file_of_its_successor_cannot_be_delivered(
    attack: Attack,
) -> None:
    whole = {"r/resource.json": b'"old"', "r/old.bin": b"1"}
    attack.repository.commit({f"s/{path}": content for path, content in whole.items()})
    await attack.sync()
    attack.repository.commit({"s/r/resource.json": '"new"', "s/r/old.bin": None, "s/r/new.bin": LFS_POINTER})
    assert (await attack.sync()).partial
    assert attack.delivered() == whole


async def test_filters_attributes_and_line_endings_of_the_repository_mean_nothing(attack: Attack) -> None:
    canary = attack.outside / "smudged"
    attack.repository.commit(
        {
            ".gitattributes": "* text=auto eol=crlf filter=evil ident\n",
            "s/.gitattributes": "* filter=evil\n",
            "s/good": b"$Id$\nline\n",
        }
    )
    attack.repository.git("config", "filter.evil.smudge", f"touch {canary}")
    await attack.sync()
    assert attack.delivered() == {".gitattributes": b"* filter=evil\n", "good": b"$Id$\nline\n"}
    assert not canary.exists()


async def test_hooks_and_commands_of_a_local_source_do_not_run(attack: Attack) -> None:
    canary = attack.outside / "hooked"
    attack.source()
    hooks = attack.repository.path / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-upload-pack", "pre-auto-gc", "command"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {canary}\n")
        (hooks / name).chmod(0o755)
    for setting in ("uploadpack.packObjectsHook", "core.fsmonitor", "core.alternateRefsCommand"):
        attack.repository.git("config", setting, str(hooks / "command"))
    await attack.sync()
    assert attack.delivered() == {"good": b"good"}
    assert not canary.exists()


async def test_a_bomb_of_trees_is_cut_off(attack: Attack) -> None:
    """Ten trees of ten trees … name ten thousand million files in a kilobyte."""
    attack.source((FOLDER, b"bomb", attack.bomb(width=10, depth=10)))
    with pytest.raises(Stalled, match="names more than 1000000 files") as stalled:
        await attack.sync()
    assert stalled.value.reason is Reason.SOURCE_TOO_LARGE
    assert not (attack.data / "projects/P").exists()


@pytest.mark.parametrize(
    "ref", ["--upload-pack=touch x", "-x", "a b", "a..b", "@{0}", "a\nb", "refs/heads/*"]
)
def test_a_ref_that_git_would_read_as_something_else_cannot_be_built(ref: str) -> None:
    with pytest.raises(InvalidValue):
        GitRef(ref)


# The data volume as the attacker's accomplice.


@pytest.mark.parametrize("place", ["projects/P", "projects/P/sub", "projects/P/sub/f"])
async def test_a_symlink_planted_on_the_volume_is_never_written_through(attack: Attack, place: str) -> None:
    elsewhere = attack.outside / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "sub").mkdir()
    (elsewhere / "f").write_text("theirs")
    link = attack.data / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere / "f" if place.endswith("f") else elsewhere)
    attack.repository.commit({"s/sub/f": "evil", "s/sub/g": "evil"})
    report = await attack.sync()
    assert report.partial
    assert all("symlink" in note.why for note in report.plan.conflicts)
    assert link.is_symlink()


async def test_a_symlink_planted_above_the_destination_is_never_written_through(attack: Attack) -> None:
    elsewhere = attack.outside / "elsewhere"
    (elsewhere / "P").mkdir(parents=True)
    (attack.data / "linked").symlink_to(elsewhere)
    attack.repository.commit({"s/f": "evil"})
    report = await attack.sync(FilesIntent((FileMapping("s", "linked/P"),)))
    assert [note.path for note in report.plan.conflicts] == ["linked/P/f"]
    assert list((elsewhere / "P").iterdir()) == []


async def test_a_delivered_file_that_became_a_symlink_is_not_deleted_through_it(attack: Attack) -> None:
    attack.repository.commit({"s/f": "1", "s/good": "good"})
    await attack.sync()
    (attack.data / "projects/P/f").unlink()
    (attack.data / "projects/P/f").symlink_to(attack.outside / "sentinel")
    attack.repository.commit({"s/f": None})
    await attack.sync()
    assert (attack.data / "projects/P/f").is_symlink()


@pytest.mark.parametrize("own", [".sync-state", ".sync-staging"])
async def test_a_symlink_in_the_place_of_our_own_folders_stops_the_sync(attack: Attack, own: str) -> None:
    elsewhere = attack.outside / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "keep").write_text("theirs")
    (attack.data / own).symlink_to(elsewhere)
    attack.source()
    with pytest.raises(Retry) as failed:
        await attack.sync()
    assert failed.value.reason is Reason.DATA_VOLUME_FAILED
    assert [path.name for path in elsewhere.iterdir()] == ["keep"]


RECORD = encode_record(FileVersion(blob_of(b"theirs"), executable=False), unseen_stamp(False))


def forge_manifest(attack: Attack, path: str) -> None:
    """Let the ledger say that this file is ours, with a good checksum."""
    manifest = attack.data / MANIFEST
    generation, manifest_data = journal.decode_base(manifest.read_bytes())
    forged = manifest_data._replace(files={**manifest_data.files, path: RECORD})
    manifest.write_bytes(b"".join(journal.encode_base(generation, forged)))


def forge_journal(attack: Attack, path: str) -> None:
    """The same as a step that was made since."""
    generation, _ = journal.decode_base((attack.data / MANIFEST).read_bytes())
    frames, place = journal.JournalFrames(generation), attack.data / JOURNAL
    frames.read(place.read_bytes())
    with place.open("ab") as file:
        file.write(frames.next(journal.LedgerChange(files={path: RECORD}, complete=True)))


FORGERS = pytest.mark.parametrize("forge", [forge_manifest, forge_journal])
Forger = Callable[[Attack, str], None]


@FORGERS
@pytest.mark.parametrize("path", ["../sentinel", "/etc/passwd", "projects/P/../../.uuid", ""])
async def test_a_ledger_that_names_foreign_files_deletes_none_of_them(
    attack: Attack, forge: Forger, path: str
) -> None:
    attack.source()
    await attack.sync()
    forge(attack, path)
    report = await attack.sync()
    assert not report.plan.actions
    assert [note.path for note in report.errors] == [".sync-state/manifest"]
    assert (await attack.sync()).errors == ()


@FORGERS
@pytest.mark.parametrize("path", [".uuid", "db/x", ".sync-state/lock", "projects/P/.resources/x"])
async def test_a_ledger_that_names_the_gateways_own_files_deletes_none_of_them(
    attack: Attack, forge: Forger, path: str
) -> None:
    attack.source()
    place = attack.data / path
    await attack.sync()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    forge(attack, path)
    report = await attack.sync()
    assert not report.plan.actions
    assert place.exists()


async def test_the_gateways_own_places_are_never_a_destination(attack: Attack) -> None:
    attack.repository.commit(
        {".uuid": "evil", "db/x": "evil", ".sync-state/manifest": "{}", "projects/P/f": "1"}
    )
    report = await attack.sync(FilesIntent((FileMapping(".", "."),)))
    assert {note.path for note in report.plan.skipped} == {".uuid", "db/x", ".sync-state/manifest"}
    assert (attack.data / ".uuid").read_text() == "gateway"
    with pytest.raises(InvalidValue):
        await attack.sync(FilesIntent((FileMapping("projects", "db"),)))


@pytest.mark.parametrize("what", ["no tree", "missing tree", "missing blob", "empty name", "truncated tree"])
async def test_whatever_the_repository_is_a_sync_fails_with_a_reason(attack: Attack, what: str) -> None:
    truncated = attack.repository.git(
        "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=b"100644 a\0short"
    )
    roots = {
        "no tree": attack.blob(b"x"),
        "missing tree": "1" * 40,
        "missing blob": attack.tree((REGULAR, b"s", "1" * 40)),
        "empty name": attack.tree((REGULAR, b"", attack.blob(b"x"))),
        "truncated tree": truncated.decode().strip(),
    }
    attack.commit(roots[what])
    with pytest.raises(StokerError) as failed:
        await attack.sync()
    assert failed.value.reason in (Reason.SOURCE_UNREACHABLE, Reason.GIT_FAILED)
    assert not (attack.data / "projects/P").exists()
