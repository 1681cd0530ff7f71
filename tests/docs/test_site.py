"""The site: every page is in its navigation, and the check of the built site finds problems."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from stoker_testkit.docs_checks.built_site_check import trouble
from stoker_testkit.docs_checks.markdown_page import Page
from stoker_testkit.docs_checks.site_sources import as_built, configuration, sources, staged


def test_the_navigation_of_the_site_has_every_page_once(pages: list[Page]) -> None:
    project = tomllib.loads(configuration(pages))["project"]
    first, *sections = project["nav"]
    assert first == {"Stoker": "index.md"}
    listed = [
        path
        for section in sections
        for entries in section.values()
        for one in entries
        for path in one.values()
    ]
    wanted = {staged(page.name) for page in pages if page.name.startswith("docs/")} - {"index.md"}
    assert sorted(listed) == sorted(set(listed))
    assert wanted <= set(listed)
    assert project["theme"]["font"] is False


def test_what_a_page_links_is_brought_along(pages: list[Page]) -> None:
    made = sources(pages)
    assert "repository/README.md" in made
    assert b"](cli.md" in made["standalone.md"]
    assert b"](repository/deploy/compose/compose.yaml.md)" in made["standalone.md"]
    assert made["repository/deploy/compose/compose.yaml.md"].startswith(
        b"# deploy/compose/compose.yaml\n\n````yaml\n"
    )
    assert b"](../quick-start/gateway.md" in made["repository/README.md"]


LISTS = """Text:
- one
  more
  - two

    ```sh
    three
    ```
10. four
    five

       code
"""


def test_lists_are_indented_as_the_builder_wants_them_and_stay_the_same() -> None:
    built = as_built(LISTS)
    assert built.splitlines()[:8] == [
        "Text:",
        "",
        "- one",
        "    more",
        "    - two",
        "",
        "        ```sh",
        "        three",
    ]
    html = MarkdownIt("commonmark").render
    assert html(as_built(built)).count("<li>") == html(LISTS).count("<li>")


@pytest.mark.parametrize(
    ("html", "message"),
    [
        ("<h1 id=a>A</h1>", None),
        (
            "<h1 id=a>A</h1><a href='#a'></a><a href='other.html#b'></a><a href='https://example.net'></a>",
            None,
        ),
        ("<h1>A</h1><a href='gone.html'></a>", "page.html: gone.html leads to nothing"),
        ("<h1>A</h1><a href='#gone'></a>", "page.html: #gone names no heading"),
        ("<h1>A</h1><script src='//cdn.example.net/a.js'></script>", "fetches //cdn.example.net/a.js"),
        ("<h1>A</h1><link rel=stylesheet href='https://fonts.example.net/a.css'>", "page.html fetches"),
        ("<h1>A</h1><ul><li>one</li></ul>", "page.md: 0 <li> are 1 in the site"),
    ],
)
def test_what_is_wrong_with_a_site_is_found(tmp_path: Path, html: str, message: str | None) -> None:
    (tmp_path / "page.html").write_text(f"<article>{html}</article>")
    (tmp_path / "other.html").write_text("<article><h2 id=b>B</h2></article>")
    found = list(trouble(tmp_path, {"page.md": b"# A\n", "other.md": b"## B\n"}))
    assert found == [] if message is None else (len(found) == 1 and message in found[0]), found


def test_a_page_that_was_not_built_is_found(tmp_path: Path) -> None:
    assert list(trouble(tmp_path, {"folder/README.md": b"# A\n"})) == ["folder/README.md is not in the site"]
