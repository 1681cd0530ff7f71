"""A name from outside fills one segment of a path and never changes its shape."""

from __future__ import annotations

from urllib.parse import unquote

from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from stoker.domain.errors import InvalidValue
from stoker.kube.client.resources import CONFIG_MAPS, check_path

TEXT = st.text(st.characters(codec=None), max_size=60)


@given(TEXT, TEXT)
@example("..", "x")
@example("%2e%2e", "a%2fb")
@example("a?b", "c#d")
@example("a\\b", "\x00")
@example("\ud800", "name")
def test_a_path_has_the_segments_it_was_built_from_or_is_refused(namespace: str, name: str) -> None:
    try:
        path = CONFIG_MAPS.path(namespace, name)
    except InvalidValue:
        bad = {"", ".", ".."} & {namespace, name} or "/" in namespace + name
        assert bad or any(0xD800 <= ord(char) <= 0xDFFF for char in namespace + name)
        return
    segments = path.split("/")
    assert [unquote(each) for each in segments] == [
        "",
        "api",
        "v1",
        "namespaces",
        namespace,
        "configmaps",
        name,
    ]
    # What the transport makes of it: nothing is decoded, normalized or moved into the query.
    url = URL(f"https://server:6443/prefix{path}?watch=true", encoded=True)
    assert url.raw_path == f"/prefix{path}"
    assert url.query_string == "watch=true"
    check_path(path)


@given(TEXT)
@example("/api/../etc")
@example("/api/%2E%2e/x")
@example("//..")
def test_a_raw_path_with_dots_is_never_accepted(path: str) -> None:
    try:
        check_path(path)
    except InvalidValue:
        return
    assert path.startswith("/")
    assert not {".", ".."} & {unquote(each) for each in path.split("/")}
    assert URL(f"https://server:6443{path}", encoded=True).raw_path == path
