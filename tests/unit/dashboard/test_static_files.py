"""The page's own files: all in the package, none from elsewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from stoker.dashboard.static_files import StaticFiles, etag_matches
from stoker.domain.errors import Misconfigured

ROOT = Path(__file__).parents[3]


def test_every_file_that_the_page_names_is_served() -> None:
    files = StaticFiles()
    page = files.get("/")
    assert page is not None
    named = re.findall(r'(?:src|href)="([^"#]+)"', page.content.decode())
    assert named
    assert [name for name in named if files.get(f"/{name}") is None] == []


def test_nothing_asks_another_server_and_nothing_is_inline() -> None:
    files = StaticFiles()
    for path in files.paths():
        file = files.get(path)
        assert file is not None
        if file.kind.startswith("image/png"):
            continue
        text = file.content.decode()
        foreign = set(re.findall(r"https?://[^\s\"'`)<]+", text)) - {"http://www.w3.org/2000/svg"}
        assert foreign == set(), path
        assert "innerHTML" not in text, path
        if path.endswith(".html"):
            assert re.findall(r"\s(?:on\w+|style)=", text) == [], path
            assert re.findall(r"<script(?![^>]*\ssrc=)", text) == [], path
            assert "<style" not in text, path


def test_the_wheel_takes_them_along() -> None:
    """The package is built whole, whatever its files are; nothing is listed one by one or left out."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["src/stoker"]
    assert not {"exclude", "only-include", "include"} & set(wheel)


def test_an_etag_is_found_among_others() -> None:
    assert etag_matches('"a"', '"b", W/"a"')
    assert not etag_matches('"a"', '"b"')
    assert not etag_matches('"a"', "")


def test_an_installation_without_a_page_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no page"):
        StaticFiles(tmp_path)


def test_only_files_of_a_page_are_served(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("index.html", "deep/a.js", "b.py", ".env", "c.js.map"):
        (tmp_path / name).write_text("x")
    assert StaticFiles(tmp_path).paths() == ("/", "/static/deep/a.js", "/static/index.html")
