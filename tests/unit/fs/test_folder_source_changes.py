"""Between two states of a working copy: files that came, went and changed, and no others."""

from __future__ import annotations

from pathlib import Path

from stoker.domain.git_objects import FileVersion, TreeChange, blob_of
from stoker.domain.paths import RelPath
from stoker.domain.refs import GitRef
from stoker.fs.folder_source import FolderSource

HEAD = GitRef("HEAD")


async def test_a_file_that_came_and_one_that_went_are_changes_like_one_that_was_edited(
    tmp_path: Path,
) -> None:
    for name in ("edited", "goes", "stays"):
        (tmp_path / name).write_text("1")
    source = FolderSource(tmp_path)
    before = await source.resolve(HEAD)
    (tmp_path / "edited").write_text("22")
    (tmp_path / "goes").unlink()
    (tmp_path / "comes").write_text("3")
    after = await source.resolve(HEAD)

    first, second, third = (FileVersion(blob_of(content)) for content in (b"1", b"22", b"3"))
    assert await source.changes(before, after) == (
        TreeChange(RelPath("comes"), None, third),
        TreeChange(RelPath("edited"), first, second),
        TreeChange(RelPath("goes"), first, None),
    )
