"""The memory of decoded JSON is estimated before it is decoded, and never too low."""

from __future__ import annotations

import contextlib
import json
from functools import partial

import msgspec
import pytest

from stoker.api.kinds.ignitionsync import IgnitionSync
from stoker.api.kinds.stoker import Stoker, SyncProfile
from stoker.domain.json_cost import NARROW_BYTES, VALUE_BYTES, decoded_size
from stoker.webhooks.admission.pod_model import AdmittedPod
from stoker.webhooks.admission.reviews import read_admission
from stoker_testkit.memory_peak import peak_of

NONE = 1 << 40


@pytest.mark.parametrize(
    "piece",
    [
        *(
            b"{}",
            b"[]",
            b'{"":0}',
            b'{"a":1,"b":2}',
            b"[[]]",
            b"[[[[[[]]]]]]",
            b"0",
            b"-1.5e3",
            b'""',
            b'"abc"',
        ),
        *(b"12345678901234567890", b'{"key":"value"}', b"null", b'{"":{"":{"":{}}}}', '"é€😀"'.encode()),
    ],
)
def test_no_decoder_takes_more_than_was_estimated(piece: bytes) -> None:
    text = b"[" + b",".join([piece] * 20_000) + b"]"
    estimate = decoded_size(text, NONE)
    assert peak_of(lambda: msgspec.json.decode(text)) < estimate
    assert peak_of(lambda: json.loads(text)) < estimate


@pytest.mark.parametrize(
    "letter", ["😀".encode(), rb"\ud83d\ude00", "é".encode(), rb"\u20ac", rb"\u003c", rb"\n", b"a"]
)
@pytest.mark.parametrize("around", [b'"%s"', b'{"%s":0}', b'{"data":{"k":"%s"}}'])
def test_no_long_string_takes_more_than_was_estimated(around: bytes, letter: bytes) -> None:
    for string in (b"a" * 1_000_000 + letter, letter + b"a" * 1_000_000):
        text = around % string
        estimate = decoded_size(text, NONE)
        assert peak_of(partial(msgspec.json.decode, text)) < estimate
        assert peak_of(partial(json.loads, text)) < estimate


@pytest.mark.parametrize(
    ("model", "around", "piece"),
    [
        (Stoker, b'{"spec":{"git":{"repo":"r","ref":"m"},"bidirectional":{"watchPaths":[%s]}}}', b'""'),
        (Stoker, b'{"spec":{"git":{"repo":"r","ref":"m"},"maintenanceWindows":[%s]}}', b"{}"),
        (Stoker, b'{"spec":{"git":{"repo":"r","ref":"m"},"alerting":{"webhooks":[%s]}}}', b"{}"),
        (IgnitionSync, b'{"spec":{"git":{"repo":"r","ref":"m"},"gateways":[%s]}}', b"{}"),
        (SyncProfile, b'{"spec":{"mappings":[%s]}}', b'{"source":"","destination":""}'),
        (SyncProfile, b'{"spec":{"patches":[%s]}}', b'{"file":"","set":{"":""}}'),
        (AdmittedPod, b'{"spec":{"containers":[%s]}}', b"{}"),
        (AdmittedPod, b'{"spec":{"volumes":[%s]}}', b'{"secret":{}}'),
        (AdmittedPod, b'{"spec":{"containers":[{"env":[%s]}]}}', b"{}"),
    ],
)
def test_no_model_of_a_review_takes_more_than_was_estimated(
    model: type[object], around: bytes, piece: bytes
) -> None:
    text = around % b",".join([piece] * 5_000)
    estimate = decoded_size(text, NONE)

    def decoded() -> None:
        with contextlib.suppress(msgspec.ValidationError):  # what it made until then counts
            msgspec.json.decode(text, type=model)

    assert peak_of(decoded) < estimate


def test_a_review_is_decoded_without_its_objects() -> None:
    many = b"[" + b"{}," * 300_000 + b"{}]"
    body = (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":%s,'
        b'"oldObject":%s,"options":%s}}' % (many, many, many)
    )
    assert peak_of(lambda: read_admission(body)) < 64 << 10


def test_marks_inside_of_strings_are_distinguished_only_where_it_matters() -> None:
    csv = json.dumps({"data": {"table": "1,2,3\n" * 10_000, "quoted": '"a\\",[{' * 100}}).encode()
    assert decoded_size(csv, NONE) > 20_000 * VALUE_BYTES
    assert decoded_size(csv, 1 << 20) < NARROW_BYTES * len(csv) + 8 * VALUE_BYTES
    assert decoded_size(b"", 0) == VALUE_BYTES
    assert decoded_size(b'"' + b"\\" * 1001, 0) < 5000, "a string without an end"
    across = b'["' + b"," * 200_000 + b'",' * 3 + b"1]"
    assert decoded_size(across, 0) - NARROW_BYTES * len(across) <= 8 * VALUE_BYTES, "a string across pieces"


@pytest.mark.parametrize("piece", [b"\\n", b'"",', b'"a",', b"\\", b'\\"'])
def test_estimating_takes_a_few_times_the_text(piece: bytes) -> None:
    text = b'["' + piece * (1 << 19)
    assert peak_of(lambda: decoded_size(text, 0)) < 2 * len(text) + (8 << 20)
