"""Laws of globs: the compiled regex agrees with a plain reading of the rules, and stays linear."""

import re
import time
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.domain.errors import InvalidValue
from stoker.engine.match.globs import GlobSet, PathBatch

names = st.text("ab.", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
paths = st.lists(names, min_size=1, max_size=5).map("/".join)
pieces = st.text("ab.*?", min_size=1, max_size=5).filter(lambda name: name not in (".", ".."))
patterns = st.lists(st.one_of(pieces, st.just("**")), min_size=1, max_size=5).map("/".join)


def read_plainly(pattern: str, path: str) -> bool:
    """The rules by trying everything, without braces, classes and escapes."""

    @cache
    def parts(p: tuple[str, ...], q: tuple[str, ...]) -> bool:
        if not p:
            return not q
        if p[0] == "**":
            return parts(p[1:], q) or (bool(q) and parts(p, q[1:]))
        return bool(q) and name(p[0], q[0]) and parts(p[1:], q[1:])

    @cache
    def name(p: str, q: str) -> bool:
        if not p:
            return not q
        if p[0] == "*":
            return name(p[1:], q) or (bool(q) and name(p, q[1:]))
        return bool(q) and p[0] in ("?", q[0]) and name(p[1:], q[1:])

    return parts(tuple(pattern.split("/")), tuple(path.split("/")))


@settings(max_examples=1000)
@given(patterns, paths)
def test_agrees_with_a_plain_reading_of_the_rules(pattern: str, path: str) -> None:
    assert GlobSet([pattern]).matches(path) == read_plainly(pattern, path)


@given(st.lists(patterns, max_size=4), paths)
def test_a_set_matches_exactly_what_one_of_its_patterns_matches(several: list[str], path: str) -> None:
    assert GlobSet(several).matches(path) == any(GlobSet([one]).matches(path) for one in several)


@settings(max_examples=500)
@given(st.lists(patterns, max_size=4), st.lists(paths, max_size=6), st.booleans())
def test_many_paths_at_once_are_matched_as_each_of_them_is(
    several: list[str], many: list[str], ignore_case: bool
) -> None:
    globs = GlobSet(several, ignore_case=ignore_case)
    many = [*many, *(path.upper() for path in many)]
    assert globs.matching(PathBatch(many)) == {path for path in many if globs.matches(path)}
    plain = [GlobSet([one], ignore_case=ignore_case) for one in several]
    assert globs.matching(PathBatch(many)) == {p for p in many if any(one.matches(p) for one in plain)}


@given(st.lists(st.sampled_from(["logs/", "**/k\u0131s", "K/**", "**/*.\u017f"]), max_size=3))
def test_letters_that_fold_in_odd_ways_are_matched_in_a_batch_too(several: list[str]) -> None:
    odd = ["log\u017f/x", "LOGS/x", "kis", "\u212a/x", "a.s", "K\u0130S"]
    globs = GlobSet(several, ignore_case=True)
    assert globs.matching(PathBatch(odd)) == {path for path in odd if globs.matches(path)}
    found = {path for path in odd for one in several if re.fullmatch(_plain(one), path, re.IGNORECASE)}
    assert globs.matching(PathBatch(odd)) == found


def _plain(pattern: str) -> str:
    if pattern.endswith(("/", "/**")):
        return re.escape(pattern.rstrip("*/")) + "(/.*)?"
    return "(.*/)?" + re.escape(pattern.removeprefix("**/")).replace(r"\*", "[^/]*")


@given(st.lists(patterns, min_size=1, max_size=3), patterns, paths)
def test_braces_are_alternatives(inside: list[str], after: str, path: str) -> None:
    braced = GlobSet([f"{{{','.join(inside)}}}/{after}"])
    assert braced.matches(path) == any(GlobSet([f"{one}/{after}"]).matches(path) for one in inside)


@given(patterns, paths)
def test_a_trailing_slash_means_the_folder_and_everything_below(pattern: str, path: str) -> None:
    folder = GlobSet([pattern + "/"])
    above = [path.rsplit("/", cut)[0] for cut in range(path.count("/") + 1)]
    if GlobSet([pattern]).matches(path):
        assert folder.matches(path)
        assert folder.matches(path + "/anything")
    assert folder.matches(path) == any(GlobSet([pattern]).matches(one) for one in above)


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_a_pattern_or_is_refused_with_a_sentence(pattern: str, path: str) -> None:
    try:
        verdict = f"matches: {GlobSet([pattern]).matches(path)}"
    except InvalidValue as refused:
        verdict = refused.message
    assert verdict


def seconds(globs: GlobSet, path: str) -> float:
    """CPU time of a match, the best of many: what others do on the machine does not count."""
    rounds = []
    for _ in range(7):
        start = time.process_time_ns()
        for _ in range(5):
            globs.matches(path)
        rounds.append(time.process_time_ns() - start)
    return min(rounds) / 1e9


@pytest.mark.parametrize(
    "pattern",
    [
        "**/" * 200 + "b",
        "*a" * 200 + "b",
        "*" * 500 + "b",
        "**/a/" * 100 + "b",
        "**/*a*/" * 60 + "b",
        "{a,aa}" * 7 + "*b",
        "?*" * 300 + "b",
        "**/a/a/a/a/a/b/**",
        "*aaaaaaaaaaaaaaab*",
        "[ab]*" * 150 + "c",
    ],
)
@pytest.mark.parametrize("unit", ["a", "a/"])
def test_a_hostile_pattern_stays_linear_in_the_length_of_the_path(pattern: str, unit: str) -> None:
    globs = GlobSet([pattern])
    short, long = unit * 4_000 + "a", unit * 32_000 + "a"
    assert not globs.matches(long)
    # Eight times the path: about 8 when linear, 64 when quadratic. The floor keeps timer noise out.
    assert seconds(globs, long) < 24 * max(seconds(globs, short), 20e-6)
