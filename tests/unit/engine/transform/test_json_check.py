"""The check for valid JSON, whatever a repository holds."""

import subprocess
import sys
import time

import pytest

from stoker.engine.transform.json_check import json_problem
from stoker.engine.transform.json_quick_check import MAX_BYTES, is_surely_json


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b" [1, 2.5e+3, -0, true, false, null]\r\n",
        b'"text"',
        b"\xef\xbb\xbf{}",
        b'{"a": 1, "a": 2}',
        '{"grüße": "\\ud83d\\ude00 😀"}'.encode(),
        b"[" * 500 + b"]" * 500,
        b"9" * 10_000_000,
    ],
)
def test_json_is_json(content: bytes) -> None:
    assert json_problem(content) is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b" \r\n", "it is empty"),
        (b"\xef\xbb\xbf", "it is empty"),
        (b'{\n"a": NaN}', "line 2: "),
        (b"[Infinity]", "line 1: "),
        (b"{'a': 1}", "line 1: "),
        (b"[1,]", "line 1: "),
        (b"[01]", "line 1: "),
        (b'{"a": 1} {}', "line 1: trailing characters"),
        (b"// c\n{}", "line 1: "),
        (b'["\x01"]', "line 1: "),
        (b'["a\nb"]', "line 1: "),
        (b'\n\n["\xff"]', "line 3: not UTF-8"),
        (b'["\xed\xa0\x80"]', "line 1: not UTF-8"),
        (b'{"\xc3": 1}', "line 1: not UTF-8"),
        (b'[1,\n"\\ud800"]', "line 2: half of a surrogate pair"),
        (b'["\\udc00x"]', "line 1: half of a surrogate pair"),
        (b'{"a": [1', "it ends too early"),
        ('{"a": 1}'.encode("utf-16"), "line 1: "),
        (b"<<<<<<< HEAD\n{}", "line 1: "),
    ],
)
def test_invalid_json_is_reported_with_its_line(content: bytes, why: str) -> None:
    message = json_problem(content)
    assert message is not None
    assert message.startswith(why)
    assert not is_surely_json(content)


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b" [1, 2.5e+3, -0, true, false, null]\r\n",
        b'{"a": 1, "a": 2}',
        '{"grüße": "\\u003d 😀"}'.encode(),
        b"9" * 4000,
    ],
)
def test_a_glance_is_enough_for_most_files(content: bytes) -> None:
    assert is_surely_json(content)


@pytest.mark.parametrize(
    "content", [b'"\\ud83d\\ude00"', b" " * MAX_BYTES + b"1", b"\xef\xbb\xbf{}", b"9" * 5000]
)
def test_a_glance_leaves_what_is_odd_to_the_check(content: bytes) -> None:
    assert not is_surely_json(content)
    assert json_problem(content) is None


DEEP = """
import resource, threading
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from stoker.engine.transform.json_check import json_problem
def check():
    for opening in (b"[", b'{"a":', b'[{"a":'):
        for content in (opening * 1_000_000, opening * 1_000_000 + b"1" + b"]" * 1_000_000):
            assert json_problem(content) == "it is nested too deep"
check()
thread = threading.Thread(target=check)
thread.start()
thread.join()
print("refused")
"""


def test_nesting_without_end_is_refused_and_breaks_nothing() -> None:
    output = subprocess.run(
        [sys.executable, "-c", DEEP], capture_output=True, text=True, timeout=60, check=False
    )
    assert output.stdout == "refused\n", output.stderr


def test_time_is_linear() -> None:
    began = time.process_time()
    for content in (
        b'"' + b"\\u0041" * 1_000_000 + b'"',
        b'"' + b"\\ud83d\\ude00" * 500_000 + b"\\ud800",
        b"[" + b"0," * 2_000_000,
        b"\n" * 5_000_000 + b"x",
    ):
        json_problem(content)
    assert time.process_time() - began < 3
