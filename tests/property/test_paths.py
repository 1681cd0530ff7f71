"""Laws of paths: whatever the bytes, only a canonical relative path survives."""

import posixpath

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath

nasty = st.sampled_from(
    ["..", ".", "", "/", "\\", "\x00", ".git", ".GIT", "git~1", "C:", "a", "b.json", " ", "é", "\u200c"]
)
paths = st.one_of(
    st.text(max_size=40), st.lists(nasty, max_size=8).map("/".join), st.lists(nasty, max_size=8).map("".join)
)


def built(text: str) -> RelPath | None:
    try:
        return RelPath(text)
    except InvalidValue:
        return None


@given(paths)
def test_a_path_that_is_kept_stays_inside_any_root(text: str) -> None:
    path = built(text)
    if path is not None:
        joined = posixpath.normpath(posixpath.join("/root", path))
        assert joined == ("/root/" + path if path else "/root")


@given(paths)
def test_cleaning_gives_a_canonical_path_or_a_refusal(text: str) -> None:
    try:
        cleaned = RelPath.clean(text)
    except InvalidValue:
        return
    assert built(cleaned) == cleaned
    assert RelPath.clean(cleaned) == cleaned


@given(paths)
def test_parent_and_name_rebuild_the_path(text: str) -> None:
    path = built(text)
    if path:
        assert path.parent.joined(path.name) == path
        assert path.is_below(path.parent)


@given(st.lists(paths, max_size=5))
def test_a_batch_is_judged_as_each_of_it_is(texts: list[str]) -> None:
    assert RelPath.all_of(texts) == all(built(text) is not None for text in texts)


@given(paths)
def test_ancestors_are_what_walking_up_meets(text: str) -> None:
    path = built(text)
    if path is not None:
        met = []
        while path.parent:
            path = path.parent
            met.append(path)
        assert list(RelPath(text).ancestors()) == met
