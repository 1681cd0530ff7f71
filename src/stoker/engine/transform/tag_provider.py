"""Renames references to a tag provider in a JSON file; every other byte stays as it is.

A repository is written for one provider, usually `default`, and a gateway may use another name for its own.
The name is a reference in two places and nowhere else:

- in a string, in the brackets before a tag path, `[default]Line 1/Speed`: at the beginning of the string,
  of a quoted part of it or of a brace of an expression, and wherever the path follows immediately.
  `SELECT [default] FROM t` is none of these.
- as the whole value of a key that names a tag provider (`tagProvider`, `defaultTagProvider`,
  `tag_provider_name`), or as an element of its list.

Any other `provider` keeps its name: an identity provider may be called `default` as well. The rename is
idempotent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache

from stoker.engine.transform.json_edit import STRING, check_json

_TOKEN = re.compile(STRING + rb"|[{}\[\]]", re.DOTALL)
_COLON = re.compile(rb"[ \t\r\n]*+:")
_LETTERS = re.compile(r"[^a-z]+")


def rename_provider(content: bytes, old: str, new: str) -> bytes:
    """Return the content with every reference renamed; the same object if it has none."""
    spelt = _encode_name(old)
    if old == new or spelt not in content:
        return content
    check_json(content)
    pieces, at = [], 0
    for start, end, text in _find_replacements(content, spelt, _encode_name(new)):
        pieces += [content[at:start], text]
        at = end
    return b"".join((*pieces, content[at:])) if pieces else content


def _find_replacements(content: bytes, old: bytes, new: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Iterate over the strings with a reference: start, end, and replacement."""
    whole, path = b'"' + old + b'"', _provider_pattern(old)
    names = [False]  # whether values at this level, by the key above them, are provider names
    for token in _TOKEN.finditer(content):
        text = token[0]
        if text == b"{":
            names.append(False)
        elif text == b"[":
            names.append(names[-1])
        elif text in (b"}", b"]"):
            names.pop()
        elif _COLON.match(content, token.end()):
            names[-1] = _is_provider_key(text)
        elif names[-1] and text == whole:
            yield token.start(), token.end(), b'"' + new + b'"'
        elif old in text:
            after = path.sub(lambda found: found[1] + b"[" + new + b"]", text)
            if after != text:
                yield token.start(), token.end(), after


@lru_cache(maxsize=16)
def _provider_pattern(name: bytes) -> re.Pattern[bytes]:
    """Match the bracketed name where it refers to a provider.

    A gateway may escape `'` and `{` in several ways.
    """
    bracketed = rb"\[" + re.escape(name) + rb"\]"
    before = rb"(?:\A\"|[{']|\\\"|\\u0027|\\u0022|\\u007[bB])"
    return re.compile(rb"(" + before + rb"|(?=" + bracketed + rb"[0-9A-Za-z_\x80-\xff]))" + bracketed)


def _is_provider_key(key: bytes) -> bool:
    return "tagprovider" in _LETTERS.sub("", str(json.loads(key)).lower())


def _encode_name(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False)[1:-1].encode()
