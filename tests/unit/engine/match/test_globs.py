"""Globs mean what Go's doublestar means by them."""

import pytest

from stoker.domain.errors import InvalidValue
from stoker.engine.match.globs import GlobSet


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a/**", "a"),
        ("a/**", "a/b/c"),
        ("**", "a/b"),
        ("**/a", "a"),
        ("**/a", "x/y/a"),
        ("a/**/b", "a/b"),
        ("a/**/b", "a/x/y/b"),
        ("**/a/**/b/**", "x/a/y/b"),
        ("**.yaml", "b.yaml"),
        ("*", ".hidden"),
        ("**/*.json", ".x/.json"),
        ("a*c*e", "abcde"),
        ("a**e", "abcde"),
        ("***", "abc"),
        ("?b", "ab"),
        ("{a,b/**}", "a"),
        ("{a,b/**}", "b/c/d"),
        ("x{,.bak}", "x"),
        ("x{1,{2,3}}y", "x3y"),
        ("[a-c]x", "bx"),
        ("[!a]", "b"),
        ("[^a]", "b"),
        ("[-a]", "-"),
        ("[a\\]]", "]"),
        (r"\*\{", "*{"),
        (r"a\/b", "a/b"),
        ("**/.git/", ".git"),
        ("**/.git/", "x/.git/hooks/y"),
        ("**/tag-*/MQTT Engine/", "config/tag-x/MQTT Engine/tags.json"),
        ("Línea ?/**", "Línea 1/view"),
    ],
)
def test_matches(pattern: str, path: str) -> None:
    assert GlobSet([pattern]).matches(path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("**.yaml", "a/b.yaml"),
        ("a/**", "ab"),
        ("a/*", "a/b/c"),
        ("a/*", "a"),
        ("*", "a/b"),
        ("?", "/"),
        ("a[+-9]b", "a/b"),
        ("a[^x]b", "a/b"),
        ("{a,b/**}", "a/x"),
        ("*.json", "a.JSON"),
        ("***", "a/b"),
        ("a", "xa"),
        ("a", "a\n"),
        ("**/.git/", "x/.github/y"),
        ("**/a/**/b", "a/x"),
    ],
)
def test_does_not_match(pattern: str, path: str) -> None:
    assert not GlobSet([pattern]).matches(path)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "empty"),
        ("[a", "without its ']'"),
        ("[]", "empty class"),
        ("[z-a]", "which is empty"),
        ("{a,b", "without its '}'"),
        ("a\\", "lone backslash"),
        ("/etc/*", "can never match"),
        ("./a", "can never match"),
        ("a//b", "can never match"),
        ("a/../b", "can never match"),
        ("{a,b}" * 8, "more than 128"),
        ("{" + ",".join("a" * 129) + "}", "more than 128"),
        ("x" * 1025, "longer than 1024"),
    ],
)
def test_refuses_a_pattern_that_is_wrong_or_could_never_match(pattern: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        GlobSet([pattern])


def test_refuses_more_patterns_than_can_be_matched_quickly() -> None:
    with pytest.raises(InvalidValue, match="4096 are allowed"):
        GlobSet(f"{{a{n},b{n}}}" for n in range(2049))


def test_a_path_matches_when_one_of_many_patterns_does() -> None:
    globs = GlobSet(["a/*", "**/*.bak", "b"])
    assert [path for path in ("a/x", "q/r.bak", "b", "c") if globs.matches(path)] == ["a/x", "q/r.bak", "b"]


def test_no_pattern_matches_nothing() -> None:
    assert not GlobSet()
    assert not GlobSet().matches("a")


def test_case_can_be_ignored() -> None:
    assert GlobSet([".uuid"], ignore_case=True).matches(".UUID")
