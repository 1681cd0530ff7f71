"""Validates every JSON file before anything is written.

A gateway that reads a broken `config.json` may fault, so a repository with a broken file changes nothing.
The check is strict as in RFC 8259: no comments, no trailing commas, no `NaN`, no lone surrogates, one value,
UTF-8. A byte order mark and duplicate keys are accepted, because gateways read both. The parser makes one
pass and builds nothing, so neither a number of a million digits nor endless nesting costs memory. Nesting
deeper than the interpreter's own stack allows (about a thousand levels) is refused.
"""

from __future__ import annotations

import re

import msgspec

BOM = b"\xef\xbb\xbf"

_SYNTAX = msgspec.json.Decoder(msgspec.Raw)
_PLACE = re.compile(r"(?:JSON is malformed: )?(.+) \(byte ([0-9]+)\)")
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]", re.DOTALL
)


def json_problem(content: bytes) -> str | None:
    """Return what is wrong, to follow the file name and "is not JSON: "; None if it is valid JSON."""
    body = content.removeprefix(BOM)
    try:
        _SYNTAX.decode(body)
        if not body.isascii():
            body.decode()
    except msgspec.DecodeError as error:
        return _explain_problem(str(error), body)
    except UnicodeDecodeError as error:
        return f"line {_line_number(body, error.start)}: not UTF-8"
    except RecursionError:
        return "it is nested too deep"
    return None


def _explain_problem(problem: str, body: bytes) -> str:
    if not body.strip():
        return "it is empty"
    if "surrogate" in problem or "truncated" in problem:
        lone = _LONE_SURROGATE.search(body)
        if lone is not None:
            return f"line {_line_number(body, lone.start())}: half of a surrogate pair"
    if place := _PLACE.fullmatch(problem):
        return f"line {_line_number(body, int(place[2]))}: {place[1]}"
    return "it ends too early" if "truncated" in problem else problem


def _line_number(body: bytes, at: int) -> int:
    return body.count(b"\n", 0, at) + 1
