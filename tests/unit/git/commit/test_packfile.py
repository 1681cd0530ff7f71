"""Git reads the packs that we write, for both kinds of id."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.git.commit.packfile import PackBuilder
from stoker.git.errors import GitFailed
from stoker_testkit.repositories.bare_repository import Repository

# Sizes at which the head of an object grows by a byte, and one that takes several.
CONTENTS = [b"x" * size for size in (0, 1, 15, 16, 2047, 2048, 262143, 262144)] + [bytes(range(256)) * 4000]


@pytest.mark.parametrize(("object_format", "digits"), [("sha1", 40), ("sha256", 64)])
@pytest.mark.parametrize("level", [0, -1])
def test_git_reads_what_was_packed(tmp_path: Path, object_format: str, digits: int, level: int) -> None:
    repository = Repository.create(tmp_path / "r.git", object_format=object_format)
    pack = PackBuilder(repository.path, digits)
    ids = [pack.add("blob", content, level).hex() for content in CONTENTS]
    assert pack.add("blob", CONTENTS[0]).hex() == ids[0]
    size = pack.write()
    (place,) = (repository.path / "objects/pack").glob("*.pack")
    assert place.stat().st_size == size
    repository.git("verify-pack", str(place.with_suffix(".idx")))
    repository.git("fsck", "--full")
    for id_, content in zip(ids, CONTENTS, strict=True):
        assert repository.git("cat-file", "blob", id_) == content
    # The name and the index are those that git would have given it.
    index = place.with_suffix(".idx").read_bytes()
    again = tmp_path / "again.idx"
    repository.git("index-pack", "-o", str(again), str(place))
    assert again.read_bytes() == index


def test_a_pack_of_many_objects_is_found_by_each_id(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "r.git")
    pack = PackBuilder(repository.path, 40)
    ids = [pack.add("blob", b"%d" % number).hex() for number in range(1000)]
    pack.write()
    text = repository.git("cat-file", "--batch-check=%(objectname)", stdin="\n".join(ids).encode())
    assert text.decode().split() == ids


def test_a_folder_that_cannot_be_written_is_named_and_left_clean(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "r.git")
    packs = repository.path / "objects/pack"
    packs.rmdir()
    pack = PackBuilder(repository.path, 40)
    pack.add("blob", b"1")
    with pytest.raises(GitFailed, match="objects/pack cannot be written: No such file"):
        pack.write()
    packs.mkdir()
    pack.write()
    assert {path.suffix for path in packs.iterdir()} == {".pack", ".idx"}
