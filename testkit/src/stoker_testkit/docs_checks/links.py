"""Links of pages, and the navigation of the site, which is the list of links of docs/index.md.

A link is relative, as in the repository, or leads into the wide world, which is not looked at.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from stoker_testkit.docs_checks.markdown_page import ROOT, Page

INDEX = "docs/index.md"
_OUTSIDE = ("http://", "https://", "mailto:")


class BrokenLink(NamedTuple):
    page: str
    line: int
    target: str
    problem: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.target} {self.problem}"


def is_outside(target: str) -> bool:
    return target.startswith(_OUTSIDE)


def resolved(page: str, target: str) -> tuple[str, str]:
    """The path in the repository that a link leads to, and its anchor."""
    path, _, anchor = unquote(target).partition("#")
    if not path:
        return page, anchor
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path)), anchor


def broken_links(pages: Sequence[Page], shown: Collection[str] | None = None) -> Iterator[BrokenLink]:
    """Links to what is not there; files that exist are looked for on disk unless `shown` names them."""
    by_name = {page.name: page for page in pages}
    for page in pages:
        for link in page.links:
            if is_outside(link.target):
                continue
            path, anchor = resolved(page.name, link.target)
            there = (
                path in shown if shown is not None and path.startswith("docs/") else (ROOT / path).exists()
            )
            if path.startswith("..") or not there:
                yield BrokenLink(page.name, link.line, link.target, "leads to nothing")
            elif anchor and path in by_name and anchor not in by_name[path].anchors:
                yield BrokenLink(page.name, link.line, link.target, "names no heading")


def navigation(pages: Sequence[Page]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The headings of the first page, each with the pages that are linked below it, by title and path.

    A page that is linked twice is listed where it is linked first. A folder's page README.md brings
    along what it links within its folder.
    """
    by_name = {page.name: page for page in pages}
    index = by_name[INDEX]
    sections = [heading for heading in index.headings if heading.level == 2]
    seen: set[str] = {INDEX}
    made = []
    for number, heading in enumerate(sections):
        end = sections[number + 1].line if number + 1 < len(sections) else 10**9
        names = [resolved(INDEX, link.target)[0] for link in index.links if heading.line < link.line < end]
        entries: list[tuple[str, str]] = []
        for name in names:
            for one in (name, *_of_folder(name, by_name)):
                if one in by_name and one not in seen:
                    seen.add(one)
                    entries.append((by_name[one].title, one))
        made.append((heading.text, entries))
    return made


def unreached(pages: Sequence[Page]) -> list[str]:
    """Pages below docs/ that the navigation has not, and that no page of it links."""
    by_name = {page.name: page for page in pages}
    reached = {INDEX, *(name for _, entries in navigation(pages) for _, name in entries)}
    return sorted(name for name in by_name if name.startswith("docs/") and name not in reached)


def _of_folder(name: str, by_name: dict[str, Page]) -> list[str]:
    if not name.endswith("/README.md"):
        return []
    folder = name.removesuffix("README.md")
    linked = [resolved(name, link.target)[0] for link in by_name[name].links] if name in by_name else []
    return [one for one in linked if one.startswith(folder)]
