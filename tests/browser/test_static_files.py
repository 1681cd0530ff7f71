"""The page's own files: no way from text to markup, nothing from elsewhere, nothing the policy forbids."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest

STATIC = Path(str(resources.files("stoker.dashboard") / "static"))
FILES = sorted(one for one in STATIC.rglob("*") if one.is_file())
SCRIPTS = [one for one in FILES if one.suffix == ".js"]
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|"
    r"\beval\(|new Function|setAttribute\(\s*[\"'](?:style|on\w+)[\"']|srcdoc|javascript:"
)
ELSEWHERE = re.compile(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", re.IGNORECASE)
NAMESPACE = "http://www.w3.org/2000/svg"
LONGEST = 120


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: str(one.relative_to(STATIC)))
def test_a_script_makes_no_markup_of_text_and_is_short(script: Path) -> None:
    text = script.read_text()
    assert MARKUP.findall(text) == []
    assert [line for line in text.splitlines() if len(line) > LONGEST] == []
    assert len(text.splitlines()) <= 200
    assert text.startswith("//"), "a module says what it is"


def test_nothing_comes_from_elsewhere() -> None:
    found = {str(one): ELSEWHERE.findall(one.read_text().replace(NAMESPACE, "")) for one in FILES}
    assert {name: places for name, places in found.items() if places} == {}


def test_the_page_holds_no_style_and_no_script_of_its_own() -> None:
    page = _Page()
    page.feed((STATIC / "index.html").read_text())
    assert page.wrong == []
    assert page.files <= {f"static/{one.relative_to(STATIC)}" for one in FILES}


def test_every_module_is_used() -> None:
    imported = {
        (one.parent / name).resolve()
        for one in SCRIPTS
        for name in re.findall(r'from "(\.[\w./]+\.js)"', one.read_text())
    }
    entries = {STATIC / "main.js", STATIC / "page" / "theme_before_paint.js"}
    assert imported | {one.resolve() for one in entries} == {one.resolve() for one in SCRIPTS}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.files: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        inline = [name for name in given if name == "style" or name.startswith("on")]
        if inline or tag == "style" or (tag == "script" and "src" not in given):
            self.wrong.append(f"{tag} {inline}")
        if tag in ("script", "link"):
            self.files.add(given.get("src") or given.get("href") or "")
