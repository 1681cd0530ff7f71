"""The quick check for JSON may doubt, and never accepts what the full check refuses."""

from hypothesis import event, given
from hypothesis import strategies as st

from stoker.engine.transform.json_check import json_problem
from stoker.engine.transform.json_quick_check import is_surely_json

GOOD = [
    b"0",
    b"-0",
    b"1e9",
    b"1.5E-3",
    b"true",
    b"null",
    b'"a"',
    b'"\\u0041"',
    b'"\xc3\xbc"',
    b'"\\ud83d\\ude00"',
]
ODD = [
    b"NaN",
    b"-Infinity",
    b"Infinity",
    b"01",
    b"-",
    b".5",
    b"1.",
    b"1E+",
    b"+1",
    b"1_0",
    b"\xd9\xa1",
    b"True",
]
ODD += [
    b'"\\uDC00"',
    b'"\\ud800"',
    b'"\\x"',
    b'"\xed\xa0\x80"',
    b'"\n"',
    b'"\x00"',
    b'"\xff"',
    b"'a'",
    b"",
    b"//",
]
GAPS = [b"", b" ", b"\r\n\t", b"\x0c", b"\xc2\xa0", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\x00", b","]

values = st.recursive(
    st.sampled_from(GOOD) | st.sampled_from(GOOD) | st.sampled_from(ODD),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: b"[" + b",".join(parts) + b"]")
        | inner.map(lambda part: b'{"k":' + part + b"}")
    ),
    max_leaves=4,
)
contents = st.tuples(st.sampled_from(GAPS), values, st.sampled_from(GAPS)).map(b"".join)


@given(contents | values | st.binary(max_size=8))
def test_a_glance_never_says_yes_where_the_check_says_no(content: bytes) -> None:
    if is_surely_json(content):
        event("yes")
        assert json_problem(content) is None
    else:
        event("doubt" if json_problem(content) is None else "no")
