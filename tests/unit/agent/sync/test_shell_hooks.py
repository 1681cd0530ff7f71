"""Scripts around a change: run if they are there, refused if another user could have written them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.sync.hooks import SyncChange
from stoker.agent.sync.shell_hooks import ShellHooks
from stoker.domain.errors import Retry, Stalled
from stoker.domain.git_objects import FileVersion, PathNote, blob_of
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.plan.plan import DeleteFile, SyncPlan, WriteFile
from stoker.fs.apply_plan import ApplyResult
from stoker_testkit.wait_until import eventually

PLAN = SyncPlan(
    writes=(WriteFile(RelPath("projects/a.txt"), FileVersion(blob_of(b"a")), replaces=False),),
    deletions=(DeleteFile(RelPath("projects/b.txt")),),
)
CHANGE = SyncChange(CommitId("1" * 40), GitRef("main"), PLAN, initial=True)
APPLIED = ApplyResult(added=(RelPath("projects/a.txt"),), deleted=(RelPath("projects/b.txt"),))


class Scripts:
    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "hooks"
        self.folder.mkdir()
        self.data = tmp_path / "data"
        self.data.mkdir()
        self.out = tmp_path / "out"
        self.hooks = ShellHooks((tmp_path / "nowhere", self.folder), self.data, timeout=30)

    def write(self, name: str, body: str, mode: int = 0o755) -> Path:
        script = self.folder / name
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(mode)
        return script

    async def before(self) -> None:
        async with self.hooks.around(CHANGE):
            pass


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


async def test_without_scripts_nothing_happens(scripts: Scripts) -> None:
    await scripts.before()
    assert await scripts.hooks.after(CHANGE, APPLIED) == ()


async def test_both_scripts_get_the_facts_of_the_sync(scripts: Scripts) -> None:
    scripts.write("pre-sync.sh", f'{{ echo "$STOKER_COMMIT $STOKER_INITIAL"; pwd; cat; }} > {scripts.out}')
    await scripts.before()
    assert scripts.out.read_text().splitlines() == [
        f"{'1' * 40} true",
        str(scripts.data),
        "add projects/a.txt",
        "delete projects/b.txt",
    ]
    scripts.write("post-sync.sh", f'echo "$STOKER_ADDED $STOKER_MODIFIED $STOKER_DELETED" > {scripts.out}')
    assert await scripts.hooks.after(CHANGE, APPLIED) == ()
    assert scripts.out.read_text() == "1 0 1\n"


async def test_nothing_of_our_environment_reaches_a_script(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_GIT_PASSWORD", "canary")
    monkeypatch.setenv("SOME_TOKEN", "canary")
    scripts.write("pre-sync.sh", f"env > {scripts.out}")
    await scripts.before()
    assert "canary" not in scripts.out.read_text()


async def test_a_failing_script_keeps_everything_as_it_is(scripts: Scripts) -> None:
    scripts.write("pre-sync.sh", "echo the line is running >&2; exit 3")
    with pytest.raises(Retry, match=r"pre-sync.sh ended with 3: the line is running; nothing was changed"):
        await scripts.before()


async def test_a_script_that_fails_afterwards_is_reported_and_undoes_nothing(scripts: Scripts) -> None:
    scripts.write("post-sync.sh", "exit 4")
    notes = await scripts.hooks.after(CHANGE, APPLIED)
    assert [(note.path, note.why) for note in notes] == [("post-sync.sh", "ended with 4: it printed nothing")]


@pytest.mark.parametrize("body", ["echo hello\n", "#!/no/such/shell\n", "#!/bin/sh\r\n"])
async def test_a_script_that_cannot_be_run_is_named_with_the_reason(scripts: Scripts, body: str) -> None:
    scripts.write("post-sync.sh", "").write_text(body)
    [note] = await scripts.hooks.after(CHANGE, APPLIED)
    assert note.path == "post-sync.sh"
    assert "cannot be run" in note.why
    scripts.write("pre-sync.sh", "").write_text(body)
    with pytest.raises(Retry, match=r"pre-sync.sh cannot be run: .* nothing was changed") as refusal:
        await scripts.before()
    assert refusal.value.reason is Reason.HOOK_FAILED


async def test_a_script_for_afterwards_is_refused_before_anything_is_changed(scripts: Scripts) -> None:
    scripts.write("pre-sync.sh", f"touch {scripts.out}")
    script = scripts.write("post-sync.sh", "exit 0", mode=0o644)
    with pytest.raises(Stalled, match="is not executable"):
        await scripts.before()
    assert not scripts.out.exists()
    [note] = await scripts.hooks.after(CHANGE, APPLIED)
    assert note == PathNote("post-sync.sh", f"hook {script} is not executable, so it is not run")


async def test_a_script_gets_the_whole_path_of_the_data_folder(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scripts.data.parent)
    hooks = ShellHooks((scripts.folder,), Path(scripts.data.name))
    scripts.write("pre-sync.sh", 'touch "$STOKER_DATA_DIR/here"')
    async with hooks.around(CHANGE):
        assert (scripts.data / "here").exists()


async def test_a_script_that_hangs_is_ended_with_its_children(tmp_path: Path, scripts: Scripts) -> None:
    hooks = ShellHooks((scripts.folder,), scripts.data, timeout=3.0)
    scripts.write("post-sync.sh", f"sleep 600 & echo $! > {scripts.out}; sleep 600")
    notes = await hooks.after(CHANGE, APPLIED)
    assert notes[0].why == "did not end within 3 s"
    child = int(scripts.out.read_text())
    eventually(lambda: not _runs(child))  # it was killed, which takes effect when it next has its turn


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"  # ended, and not yet waited for
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("mode", "why"),
    [(0o777, "can be written by others"), (0o775, "can be written by others"), (0o644, "is not executable")],
)
async def test_a_script_that_others_could_have_written_is_refused(
    scripts: Scripts, mode: int, why: str
) -> None:
    scripts.write("pre-sync.sh", f"touch {scripts.out}", mode)
    with pytest.raises(Stalled, match=why) as refused:
        await scripts.before()
    assert refused.value.reason is Reason.HOOK_FAILED
    assert not scripts.out.exists()


async def test_a_folder_of_that_name_is_no_script(scripts: Scripts) -> None:
    (scripts.folder / "pre-sync.sh").mkdir()
    with pytest.raises(Stalled, match="is not a file"):
        await scripts.before()


async def test_a_mounted_script_is_a_symlink_and_runs(scripts: Scripts) -> None:
    (scripts.folder / "..data").mkdir()
    script = scripts.write("..data/pre-sync.sh", f"touch {scripts.out}")
    (scripts.folder / "pre-sync.sh").symlink_to(script)
    await scripts.before()
    assert scripts.out.exists()
