"""Archives: what they may contain, and what is refused."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.artifacts.errors import ArtifactRefused, ArtifactTooLarge
from stoker.artifacts.limits import ArtifactLimits, ArtifactReadBudget, UncheckedFile, bounded_files
from stoker.artifacts.tar import archive_files
from stoker.domain.errors import Retry, Stalled
from stoker_testkit.services.oci_artifacts import special, tar

TITLE = "artifact oci://plant/site"


def unpacked(tmp_path: Path, content: bytes, limits: ArtifactLimits | None = None) -> dict[str, bytes]:
    limits = limits if limits is not None else ArtifactLimits()
    path = tmp_path / "archive"
    path.write_bytes(content)
    files = bounded_files(archive_files(path, TITLE, ArtifactReadBudget(TITLE, limits)), TITLE, limits)
    return {file.path: b"".join(file.chunks) for file in files}


def test_regular_files_come_out_whatever_way_they_are_packed(tmp_path: Path) -> None:
    files = {"a/b.json": b"1", "empty": b"", "big": b"x" * 200_000, "d" * 140 + "/" + "n" * 90: b"long"}
    for compressed in (True, False):
        assert unpacked(tmp_path, tar(files, compressed=compressed)) == files
    for kind in (tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
            for name, content in files.items():
                info = tarfile.TarInfo(f"./{name}" if kind == tarfile.USTAR_FORMAT else name)
                info.size = len(content)
                archive.addfile(special("folder/", tarfile.DIRTYPE))
                archive.addfile(info, io.BytesIO(content))
        assert unpacked(tmp_path, gzip.compress(out.getvalue())) == files


def test_files_that_are_not_read_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(tar({"a": b"1" * 1000, "b": b"2" * 1000}))
    assert [
        file.name for file in archive_files(path, TITLE, ArtifactReadBudget(TITLE, ArtifactLimits()))
    ] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (special("etc", tarfile.SYMTYPE, "/etc"), "symbolic link"),
        (special("shadow", tarfile.LNKTYPE, "/etc/shadow"), "hard link"),
        (special("null", tarfile.CHRTYPE), "device"),
        (special("disk", tarfile.BLKTYPE), "device"),
        (special("pipe", tarfile.FIFOTYPE), "named pipe"),
        (special("other", b"Z"), "kind"),
    ],
)
def test_whatever_is_no_file_is_refused_by_its_name(
    tmp_path: Path, entry: tarfile.TarInfo, what: str
) -> None:
    with pytest.raises(ArtifactRefused, match=what) as refused:
        unpacked(tmp_path, tar({"good": b"1"}, entry))
    assert repr(entry.name) in refused.value.message


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "a/../../outside",
        "/etc/passwd",
        "a//b",
        "a\\b",
        "C:/x",
        ".git/config",
        "a/.GIT/hooks/x",
        "n\nl",
    ],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArtifactRefused) as refused:
        unpacked(tmp_path, tar({name: b"1"}))
    assert TITLE in refused.value.message
    assert "\n" not in refused.value.message


def test_two_files_never_share_a_place(tmp_path: Path) -> None:
    twice = gzip.compress(gzip.decompress(tar({"a": b"1"}))[:1024] + gzip.decompress(tar({"a": b"2"})))
    for content in (twice, tar({"a": b"1", "a/b": b"2"}), tar({"a/b": b"1", "a": b"2"})):
        with pytest.raises(ArtifactRefused, match="'a'"):
            unpacked(tmp_path, content)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    bomb = tar({"zeros": b"\0" * (20 << 20)})
    assert len(bomb) < 100_000
    with pytest.raises(ArtifactTooLarge, match="1048576 bytes"):
        unpacked(tmp_path, bomb, ArtifactLimits(unpacked=1 << 20))
    with pytest.raises(ArtifactTooLarge, match="more than 3 files"):
        unpacked(tmp_path, tar({str(number): b"" for number in range(5)}), ArtifactLimits(files=3))


def test_folders_and_headers_are_counted_too(tmp_path: Path) -> None:
    folders = [special(f"{number}/", tarfile.DIRTYPE) for number in range(20)]
    assert unpacked(tmp_path, tar({"a": b"1"}, *folders), ArtifactLimits(files=6)) == {"a": b"1"}
    with pytest.raises(ArtifactTooLarge, match="more than 20 entries"):
        unpacked(tmp_path, tar({"a": b"1"}, *folders), ArtifactLimits(files=5))


def test_folders_that_files_need_are_counted_and_cost_little(tmp_path: Path) -> None:
    def deep() -> Iterator[UncheckedFile]:
        for number in range(2000):
            name = "/".join([f"{number}", *("d" * 30 for _ in range(120)), "f"])
            yield UncheckedFile(name, 0, iter(()))

    with pytest.raises(ArtifactTooLarge, match="more than 4000 files and folders"):
        list(bounded_files(deep(), TITLE, ArtifactLimits(files=2000)))
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactTooLarge):
            for _ in bounded_files(deep(), TITLE, ArtifactLimits(files=10_000)):
                pass
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_reading_ends_when_it_is_stopped_or_takes_too_long(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(tar({"a": b"1"}, *(special(f"{number}/", tarfile.DIRTYPE) for number in range(20))))
    reading = ArtifactReadBudget(TITLE, ArtifactLimits())
    files = archive_files(path, TITLE, reading)
    next(files)
    reading.stop()
    with pytest.raises(Retry, match="was cancelled"):
        next(files)
    with pytest.raises(Retry, match="within 0 s"):
        next(archive_files(path, TITLE, ArtifactReadBudget(TITLE, ArtifactLimits(seconds=0.0))))


def test_a_file_that_claims_to_be_endless_costs_no_memory(tmp_path: Path) -> None:
    info = tarfile.TarInfo("huge")
    info.size = 1 << 40
    with pytest.raises(ArtifactTooLarge):
        unpacked(tmp_path, info.tobuf(tarfile.GNU_FORMAT) + b"\0" * 1024)


def test_long_headers_are_bounded_before_they_are_read(tmp_path: Path) -> None:
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XGLTYPE):
        header = special("x", kind)
        header.size = 64 << 20
        content = gzip.compress(header.tobuf() + b"7" * (64 << 20), compresslevel=1)
        tracemalloc.start()
        try:
            with pytest.raises(ArtifactTooLarge, match="header"):
                unpacked(tmp_path, content)
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    "content",
    [
        b"no archive at all, only some text that is longer than a header of five hundred and twelve bytes"
        * 9,
        tar({"a": b"1" * 5000})[:-60],
        tar({"a": b"1" * 5000}, compressed=False)[:2000],
        b"\x1f\x8b" + b"\xff" * 600,
        b"\x28\xb5\x2f\xfd" + b"\0" * 600,
        special("x", tarfile.XHDTYPE).tobuf()[:0] + b"x",
    ],
)
def test_what_is_damaged_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(Stalled) as refused:
        unpacked(tmp_path, content)
    assert TITLE in refused.value.message


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("sparse")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "sparse"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info)
    with pytest.raises(ArtifactRefused, match="sparse"):
        unpacked(tmp_path, out.getvalue())


def test_what_git_archive_writes_is_taken(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(
        fileobj=out, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "0" * 40}
    ) as archive:
        info = tarfile.TarInfo("a")
        info.size = 1
        archive.addfile(info, io.BytesIO(b"1"))
    assert unpacked(tmp_path, out.getvalue()) == {"a": b"1"}
