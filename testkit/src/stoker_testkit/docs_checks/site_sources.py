"""The pages as the builder of the site wants them: one folder, links that stay in it, lists as it reads them.

Pages outside docs/ and files that a page links are brought along below `repository/`. The
builder reads a Markdown in which what belongs to an item of a list is indented by four, and a
list begins after an empty line; GitHub, for which the pages are written, is not so strict.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from markdown_it import MarkdownIt

from stoker_testkit.docs_checks.links import INDEX, is_outside, navigation, resolved
from stoker_testkit.docs_checks.markdown_page import ROOT, Page

OUTSIDE = "repository"
_LINK = re.compile(r"(\]\()([^)\s]+)(\))|(\b(?:src|href)=\")([^\"]+)(\")")
_ITEM = re.compile(r"( *)([-*+]|\d+[.)])( +)")


def sources(pages: Sequence[Page], root: Path = ROOT) -> dict[str, bytes]:
    """Every file of the folder that the site is built from, by its path there."""
    made: dict[str, bytes] = {}
    linked: set[str] = set()
    for page in pages:
        text = (root / page.name).read_text()
        made[staged(page.name)] = _relinked(page.name, as_built("\n" + text)[1:], linked).encode()
    names = {page.name for page in pages}
    for name in sorted(linked - names):
        path = root / name
        if not path.exists():
            continue  # who looks at the site finds the link
        if path.is_dir():
            made[f"{staged(name)}/index.md"] = _folder_page(name, path).encode()
        elif path.suffix in (".svg", ".png"):
            made[staged(name)] = path.read_bytes()
        else:
            made[f"{staged(name)}.md"] = _file_page(name, path.read_text()).encode()
    return made


def staged(name: str) -> str:
    """The path of a file of the repository in the folder."""
    return name.removeprefix("docs/") if name.startswith("docs/") else f"{OUTSIDE}/{name}"


def configuration(pages: Sequence[Page]) -> str:
    """The settings of the builder: navigation from docs/index.md, and nothing from elsewhere in the pages."""
    lines = [
        "[project]",
        'site_name = "Stoker"',
        'site_description = "GitOps for Ignition gateways, and a cluster\'s resources recorded in Git"',
        'docs_dir = "docs"',
        'site_dir = "site"',
        "use_directory_urls = false",
        "nav = [",
        f'    {{ "Stoker" = "{staged(INDEX)}" }},',
    ]
    for heading, entries in navigation(pages):
        inside = ", ".join(f"{{ {_quoted(title)} = {_quoted(staged(name))} }}" for title, name in entries)
        lines.append(f"    {{ {_quoted(heading)} = [{inside}] }},")
    lines += [
        "]",
        "[project.extra]",
        "generator = false",
        "[project.theme]",
        "font = false",
        'features = ["navigation.footer", "navigation.top", "search.highlight", "content.code.copy"]',
        *_PALETTE,
        "[project.markdown_extensions.tables]",
        "[project.markdown_extensions.sane_lists]",
        "[project.markdown_extensions.toc]",
        "permalink = true",
        "[project.markdown_extensions.toc.slugify]",
        'object = "pymdownx.slugs.slugify"',
        'kwds = { case = "lower" }',
        '[project.markdown_extensions."pymdownx.superfences"]',
        '[project.markdown_extensions."pymdownx.highlight"]',
    ]
    return "\n".join(lines) + "\n"


_PALETTE = (
    "[[project.theme.palette]]",
    'media = "(prefers-color-scheme: light)"',
    'scheme = "default"',
    "[[project.theme.palette]]",
    'media = "(prefers-color-scheme: dark)"',
    'scheme = "slate"',
)


def as_built(text: str) -> str:
    """The same page for the builder: what belongs to an item is indented by four for each rank."""
    lines = text.splitlines()
    ranks: dict[int, tuple[int, int, bool]] = {}
    starts: set[int] = set()
    _rank(text, ranks, starts)
    made: list[str] = []
    for number, line in enumerate(lines):
        if number in starts and made and made[-1].strip():
            made.append("")
        rank, column, begins = ranks.get(number, (0, 0, False))
        if not rank or not line.strip():
            made.append(line)
        elif begins and (match := _ITEM.match(line)):
            made.append(" " * 4 * (rank - 1) + match[2] + " " + line[match.end() :])
        else:
            indent = len(line) - len(line.lstrip(" "))
            made.append(" " * (4 * rank) + line[min(column, indent) :])
    return "\n".join(made) + "\n"


def _rank(text: str, ranks: dict[int, tuple[int, int, bool]], starts: set[int]) -> None:
    """For each line of a list: how deep its item is, where the item's text begins, whether it begins it."""
    lines, depth = text.splitlines(), 0
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type in ("bullet_list_open", "ordered_list_open"):
            depth += 1
            if token.map and depth == 1:
                starts.add(token.map[0])
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            depth -= 1
        elif token.type == "list_item_open" and token.map:
            first, end = token.map
            match = _ITEM.match(lines[first])
            column = match.end() if match else 0
            for number in range(first, min(end, len(lines))):
                ranks[number] = (depth, column, number == first)


def _relinked(name: str, text: str, linked: set[str]) -> str:
    """With links rewritten to the paths in the folder; links to files are noted."""
    here = posixpath.dirname(staged(name))

    def changed(match: re.Match[str]) -> str:
        before, target, after = (match[1], match[2], match[3]) if match[1] else (match[4], match[5], match[6])
        if is_outside(target) or target.startswith("#"):
            return match[0]
        path, anchor = resolved(name, target)
        if (ROOT / path / "README.md").is_file():
            path = f"{path}/README.md"
        linked.add(path)
        there = staged(path)
        if (ROOT / path).is_dir():
            there = f"{there}/index.md"
        elif not there.endswith((".md", ".svg", ".png")):
            there = f"{there}.md"
        return before + posixpath.relpath(there, here or ".") + (f"#{anchor}" if anchor else "") + after

    return "\n".join(_outside_fences(text, lambda line: _LINK.sub(changed, line)))


def _outside_fences(text: str, change: object) -> Iterator[str]:
    fence = ""
    for line in text.splitlines():
        bare = line.strip()
        if fence:
            fence = "" if bare == fence else fence
            yield line
        elif bare.startswith("```"):
            fence = "```"
            yield line
        else:
            assert callable(change)  # noqa: S101 - our own
            yield str(change(line))
    yield ""


def _file_page(name: str, text: str) -> str:
    language = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".lua": "lua", ".py": "python"}
    suffix = Path(name).suffix
    return f"# {name}\n\n````{language.get(suffix, 'text')}\n{text.rstrip()}\n````\n"


def _folder_page(name: str, path: Path) -> str:
    files = sorted(one.name for one in path.iterdir() if not one.name.startswith((".", "__")))
    return f"# {name}\n\nA folder of the repository:\n\n" + "".join(f"- `{one}`\n" for one in files)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
