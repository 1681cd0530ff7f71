"""Looks at a site that was built: every link and anchor leads somewhere in it, nothing is asked of others.

It also compares each page with its Markdown: where the builder has made other headings, items,
tables or pieces of code of it than GitHub does, the reader of the site would see something else.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

# What a browser fetches by itself, unlike the target of a link.
_FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("link", "href"),
    ("video", "src"),
}
_NOT_FETCHED_LINKS = {"canonical", "next", "prev", "alternate", "edit"}
_COUNTED = ("h1", "h2", "h3", "h4", "li", "table", "pre", "tr")


class _Html(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.names: set[str] = set()
        self.counted: Counter[str] = Counter()
        self._article = 0
        """The depth in the page itself, without navigation."""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.names |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        for kind, name in _FETCHED:
            if tag == kind and name in found and found.get("rel", "") not in _NOT_FETCHED_LINKS:
                self.fetched.append(found[name])
        self._article += tag == "article"
        if self._article and tag in _COUNTED:
            self.counted[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        self._article -= tag == "article"


def trouble(site: Path, sources: Mapping[str, bytes]) -> Iterator[str]:
    """Everything that is wrong with the site, which was built from these sources."""
    pages = {path.relative_to(site).as_posix(): _read(path) for path in sorted(site.rglob("*.html"))}
    for name, page in pages.items():
        for target in page.fetched:
            if urlsplit(target).netloc:
                yield f"{name} fetches {target}"
        if name != "404.html":  # its links are absolute, because it is shown anywhere
            yield from (f"{name}: {problem}" for problem in _broken(name, page, pages, site))
    for name, content in sources.items():
        if name.endswith(".md"):
            built = _html_name(name)
            if built not in pages:
                yield f"{name} is not in the site"
            else:
                yield from (f"{name}: {problem}" for problem in _differences(content.decode(), pages[built]))


def _broken(name: str, page: _Html, pages: Mapping[str, _Html], site: Path) -> Iterator[str]:
    for target in (*page.links, *page.fetched):
        split = urlsplit(target)
        if split.scheme or split.netloc:
            continue
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(split.path)))
        path = name if not split.path else path
        if (site / path).is_dir():
            path = f"{path}/index.html".removeprefix("./")
        if not (site / path).exists():
            yield f"{target} leads to nothing"
        elif split.fragment and path in pages and unquote(split.fragment) not in pages[path].names:
            yield f"{target} names no heading"


def _differences(text: str, page: _Html) -> Iterator[str]:
    html = _Html()
    html.feed(f"<article>{MarkdownIt('commonmark').enable('table').render(text)}</article>")
    for tag in _COUNTED:
        if html.counted[tag] != page.counted[tag]:
            yield f"{html.counted[tag]} <{tag}> are {page.counted[tag]} in the site"


def _html_name(name: str) -> str:
    stem = name.removesuffix(".md")
    return f"{stem.removesuffix('README')}index.html" if stem.endswith("README") else f"{stem}.html"


def _read(path: Path) -> _Html:
    page = _Html()
    page.feed(path.read_text())
    return page
