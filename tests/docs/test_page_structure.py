"""Every page reads as it should: fences say what they are, links lead somewhere, navigation has all."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath

import pytest

from stoker_testkit.docs_checks.links import broken_links, navigation, unreached
from stoker_testkit.docs_checks.markdown_page import ROOT, Page, Span, all_pages, read_page

PAGES = all_pages()
LANGUAGES = {"sh", "yaml", "json", "text", "ini", "toml", "hcl"}
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def test_all_pages_are_read() -> None:
    names = {page.name for page in PAGES}
    assert {"README.md", "docs/index.md", "docs/spec/stoker.md", "charts/stoker/README.md"} <= names


def test_every_fence_says_what_it_is() -> None:
    wrong = [
        f"{fence.place}: {fence.language or 'no language'}"
        for page in PAGES
        for fence in page.fences
        if fence.language not in LANGUAGES
    ]
    assert not wrong, "\n".join(wrong)


def test_a_command_is_shown_without_a_prompt() -> None:
    shown = [fence for page in PAGES for fence in page.fences if fence.language == "sh"]
    prompts = [
        fence.place for fence in shown if re.search(r"^\s*[$#>] \S", fence.text.replace("# ", ""), re.M)
    ]
    assert prompts == []


def test_json_is_json() -> None:
    wrong = []
    for fence in (fence for page in PAGES for fence in page.fences if fence.language == "json"):
        try:
            json.loads(re.sub(r",?\s*…", "", fence.text))
        except ValueError as error:
            wrong.append(f"{fence.place}: {error}")
    assert not wrong, "\n".join(wrong)


def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading() -> None:
    broken = [str(one) for one in broken_links(PAGES)]
    assert not broken, "\n".join(broken)


def test_every_page_is_reached_from_the_first_one() -> None:
    assert not unreached(PAGES), "\n".join(unreached(PAGES))


def test_the_navigation_has_titles_and_no_page_twice() -> None:
    entries = [entry for _, entries in navigation(PAGES) for entry in entries]
    assert all(PurePosixPath(name).suffix == ".md" and title for title, name in entries)
    names = [name for _, name in entries]
    assert sorted(names) == sorted(set(names))


def test_every_module_that_a_page_names_is_there() -> None:
    wrong = [f"{page.name}:{span.line}: {span.text}" for page in PAGES for span in gone(page)]
    assert not wrong, "\n".join(wrong)


def gone(page: Page) -> list[Span]:
    """Paths of modules and of tests in a sentence that lead nowhere, from the top or from `src/stoker`."""
    return [
        span
        for span in page.spans
        if re.fullmatch(r"[\w-]+(?:/[\w-]+)*/[\w-]+\.py", span.text)
        and not any((folder / span.text).is_file() for folder in (ROOT, ROOT / "src" / "stoker"))
    ]


def test_a_module_that_is_gone_is_found() -> None:
    page = page_of("# Page\n\n`domain/errors.py`, `tests/docs/conftest.py` and `domain/gone.py`.\n")
    assert [span.text for span in gone(page)] == ["domain/gone.py"]


def page_of(text: str, name: str = "docs/page.md") -> Page:
    return read_page(text, name)


def test_a_broken_link_and_a_broken_anchor_are_found() -> None:
    other = page_of("# Other\n\n## Two words, and `code`\n", "docs/other.md")
    text = (
        "[a](other.md) [b](other.md#two-words-and-code) [c](gone.md) [d](other.md#gone) [e](#page) [f](#gone)"
    )
    page = page_of(f"# Page\n\n{text} [g](../README.md) [h](https://example.net) [i](../src)\n")
    found = [one.target for one in broken_links([page, other], shown={"docs/other.md", "docs/page.md"})]
    assert found == ["gone.md", "other.md#gone", "#gone"]


def test_a_page_without_links_to_it_is_found() -> None:
    index = page_of("# Index\n\n## Use\n\n- [A](a.md)\n", "docs/index.md")
    pages = [index, page_of("# A\n\n[B](b.md)\n", "docs/a.md"), page_of("# C\n", "docs/c.md")]
    assert unreached(pages) == ["docs/c.md"]
    assert navigation(pages) == [("Use", [("A", "docs/a.md")])]


def test_the_files_of_the_repository_are_where_the_pages_think() -> None:
    assert (ROOT / "Makefile").is_file()
