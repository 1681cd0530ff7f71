"""Lines of a watch; a damaged one never looks like an event."""

import sys

import pytest

from stoker.kube.client.errors import Gone, ServerError, TooManyRequests
from stoker.kube.watch.store import ObjectKey
from stoker.kube.watch.watch_events import MalformedEvent, read_error, read_item, read_line

OBJECT = (
    b'{"kind":"ConfigMap","metadata":{"name":"prices","namespace":"shop","uid":"u1","resourceVersion":"7"},'
    b'"data":{}}'
)
LINE = b'{"type":"ADDED","object":' + OBJECT + b"}"


def test_a_line_gives_its_type_the_identity_and_the_bytes_of_the_object() -> None:
    line = read_line(LINE)
    assert (line.type, line.raw) == ("ADDED", OBJECT)
    assert (line.meta.key, line.meta.uid, line.meta.resource_version) == (
        ObjectKey("shop", "prices"),
        "u1",
        "7",
    )


def test_the_object_does_not_keep_the_line_alive() -> None:
    line = bytes(bytearray(LINE))
    before = sys.getrefcount(line)
    event = read_line(line)
    assert event.raw == OBJECT
    assert sys.getrefcount(line) == before


def test_objects_of_one_namespace_share_its_string() -> None:
    first, second = read_line(LINE).meta.key, read_line(bytes(bytearray(LINE))).meta.key
    assert first.namespace is second.namespace


@pytest.mark.parametrize("length", range(len(LINE)))
def test_a_line_cut_off_anywhere_is_malformed(length: int) -> None:
    with pytest.raises(MalformedEvent):
        read_line(LINE[:length])


@pytest.mark.parametrize(
    "line",
    [
        b"null",
        b"[]",
        b"<html>502</html>",
        b'{"type":"ADDED"}',
        b'{"type":7,"object":{}}',
        b'{"type":"ADDED","object":null}',
        b'{"type":"ADDED","object":{"metadata":{"name":"x"}}}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"}}}',
        b'{"type":"BOOKMARK","object":{"metadata":{}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff","resourceVersion":"7"}}}',
        b'{"type":"ADDED","object":' + b"[" * 5000 + b"]" * 5000 + b"}",
        LINE + LINE,
    ],
)
def test_what_the_server_would_not_write_is_malformed(line: bytes) -> None:
    with pytest.raises(MalformedEvent, match=r"^watch pods: "):
        read_line(line, "watch pods")


@pytest.mark.parametrize(
    "raw", [b"{}", b"null", b'{"metadata":{"name":"x"}}', b'{"metadata":{"resourceVersion":"1"}}']
)
def test_a_list_item_without_identity_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedEvent):
        read_item(raw)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}', Gone),
        (b'{"kind":"Status","code":410,"message":"too old"}', Gone),
        (b'{"kind":"Status","reason":"Gone"}', Gone),
        (b'{"kind":"Status","reason":"Expired","code":500}', Gone),
        (b'{"kind":"Status","code":500,"message":"RequestWatchProgress is disabled"}', ServerError),
        (b'{"kind":"Status","code":429,"reason":"TooManyRequests"}', TooManyRequests),
        (b"{}", ServerError),
        (b'{"code":"seven"}', MalformedEvent),
    ],
)
def test_an_error_line_becomes_the_error_that_an_answer_would_be(
    status: bytes, kind: type[Exception]
) -> None:
    assert type(read_error(status)) is kind


def test_an_error_line_says_how_long_to_stay_away() -> None:
    error = read_error(b'{"code":429,"details":{"retryAfterSeconds":7}}')
    assert error.after == 7.0
