"""Text from elsewhere as part of a sentence of ours: on one line, printable, no novel."""

from __future__ import annotations


def flat(text: str) -> str:
    """On one line, without anything that a terminal would act on."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def cut(text: str, longest: int) -> str:
    """At most so many characters; a cut is shown."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def one_line(text: str, longest: int) -> str:
    return cut(flat(text), longest)
