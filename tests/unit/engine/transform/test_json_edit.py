"""Setting a value in JSON changes the bytes of that value and no others."""

import json
import subprocess
import sys
import time

import pytest

from stoker.domain.errors import InvalidValue
from stoker.engine.transform.json_edit import set_value
from stoker.engine.transform.json_path import JsonPath

ODD = (
    b'\xef\xbb\xbf{ "b" : 1.50e+2,\r\n\t"systemName":\t"old \\u0041" ,"a":[ {"host":"h\\/1"}, 2 ],\r\n'
    b' "z.z": {"deep key": null}, "on": true }\r\n'
)


def edited(content: bytes, path: str, value: str, *, adds: bool = False) -> bytes:
    return set_value(content, JsonPath.parse(path), value, adds=adds)


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (".systemName", "gw-1", b'"old \\u0041"', b'"gw-1"'),
        ("systemName", 'say "hi"\n', b'"old \\u0041"', b'"say \\"hi\\"\\n"'),
        (".systemName", "Bär", b'"old \\u0041"', '"Bär"'.encode()),
        ("$.systemName", "12", b'"old \\u0041"', b'"12"'),
        (".a[0].host", "x", b'"h\\/1"', b'"x"'),
        (".a.0.host", "x", b'"h\\/1"', b'"x"'),
        (".a[1]", "3", b" 2 ]", b" 3 ]"),
        (".a[1]", "three", b" 2 ]", b' "three" ]'),
        (".b", "-1e5", b"1.50e+2", b"-1e5"),
        (".b", "01", b"1.50e+2", b'"01"'),
        (".b", '"7"', b"1.50e+2", b'"7"'),
        ('.["z.z"]["deep key"]', "x", b"null", b'"x"'),
        ('["z.z"]["deep key"]', "5", b"null", b'"5"'),
        (".on", "false", b"true", b"false"),
        (".on", "1", b"true", b'"1"'),
    ],
)
def test_only_the_bytes_of_the_value_change(path: str, value: str, old: bytes, new: bytes) -> None:
    assert edited(ODD, path, value) == ODD.replace(old, new)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".systemName", "old A"),
        (".b", "150"),
        (".b", "1.5e2"),
        (".on", "true"),
        ('.["z.z"]["deep key"]', "null"),
        (".a[0].host", "h/1"),
    ],
)
def test_a_value_that_means_the_same_is_left_in_its_own_spelling(path: str, value: str) -> None:
    assert edited(ODD, path, value) is ODD


@pytest.mark.parametrize("path", [".missing", ".a[2]", ".a.host", ".b.c", ".systemName[0]", "[0]", ".z.z"])
def test_a_file_without_the_path_stays_as_it_is(path: str) -> None:
    assert edited(ODD, path, "x") is ODD


@pytest.mark.parametrize(
    ("content", "path", "value", "expected"),
    [
        (b'{"a":1}', ".b", "x", b'{"a":1,"b":"x"}'),
        (b'{\n  "a": 1\n}\n', ".b", "2", b'{\n  "a": 1,\n  "b": 2\n}\n'),
        (
            b'{\r\n\t"a" : 1,\r\n\t"c" : {}\r\n}',
            ".b",
            "null",
            b'{\r\n\t"a" : 1,\r\n\t"c" : {},\r\n\t"b" : null\r\n}',
        ),
        (
            b'{"a": {"x": 1, "y": [1]}, "z": 0}',
            ".a.b",
            "true",
            b'{"a": {"x": 1, "y": [1], "b": true}, "z": 0}',
        ),
        (b"{}", ".b", "x", b'{"b": "x"}'),
        (b'{"a": [{}]}', '.a[0]["c d"]', '"5"', b'{"a": [{"c d": "5"}]}'),
    ],
)
def test_a_missing_last_key_is_added_in_the_layout_of_its_siblings(
    content: bytes, path: str, value: str, expected: bytes
) -> None:
    once = edited(content, path, value, adds=True)
    assert once == expected
    assert edited(once, path, value, adds=True) is once
    assert edited(content, path, value) is content


@pytest.mark.parametrize(
    ("content", "path", "why"),
    [
        (b'{"a": {}}', ".a.b.c", r"\.a\.b\.c cannot be set: \.a\.b is missing"),
        (b'{"a": 1}', ".a.b", r"\.a is not an object"),
        (b'{"a": [1]}', ".a[1]", r"\.a has 1 elements, so none has the index 1"),
        (b'{"a": [1]}', ".a.b", r"\.a is not an object"),
        (b"[1]", ".a", "the document itself is not an object"),
        (b'{"a": {"b": 1}}', ".a", "an object is there"),
        (b'{"a": [1]}', ".a", "a list is there"),
        (b'{"a": 1, "a": 2}', ".a", "holds the key 'a' twice"),
        (b'{"a": 1, "\\u0061": 2}', ".a", "holds the key 'a' twice"),
        (b'{"a": {"b": 1}, "a": {"b": 1}}', ".a.b", "holds the key 'a' twice"),
        (b'{"a": 1,}', ".a", "is not JSON: line 1: "),
        (b'{\n"a": NaN}', ".a", "is not JSON: line 2: "),
        (b'{"a": "\xff"}', ".a", "is not JSON: line 1: not UTF-8"),
        (b'{"a": "\\ud800"}', ".a", "is not JSON: line 1: half of a surrogate pair"),
        (b"", ".a", "is not JSON: it is empty"),
        (b'{"a": 1' + b" " * (16 << 20) + b"}", ".a", "is larger than"),
        (b'{"a": [' + b"1," * 250_000 + b"1]}", ".a[0]", "more than 250000 values"),
    ],
)
def test_a_json_path_that_cannot_be_set_is_reported(content: bytes, path: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        edited(content, path, "x", adds=True)


def test_a_key_that_occurs_twice_elsewhere_is_no_obstacle() -> None:
    content = b'{"x": 1, "x": [2], "a": {"a": 0, "b": {"a": 1, "a": 2}}, "y": "a"}'
    assert edited(content, ".a.a", "9") == content.replace(b'{"a": 0', b'{"a": 9')


@pytest.mark.parametrize(
    "path", ["", ".", "..a", ".a[", ".a[-1]", ".a[*]", ".a b", '.["a', ".a[1", "$", ".a]"]
)
def test_a_path_that_cannot_be_read_is_refused(path: str) -> None:
    with pytest.raises(InvalidValue, match="path"):
        JsonPath.parse(path)


def test_a_path_is_bounded() -> None:
    for path in (".a" * 65, ".x" * 300):
        with pytest.raises(InvalidValue, match="path"):
            JsonPath.parse(path)


def test_half_of_a_surrogate_pair_is_never_written() -> None:
    with pytest.raises(InvalidValue, match="not valid Unicode"):
        edited(b'{"a": "x"}', ".a", "\ud800")


def hostile() -> dict[str, bytes]:
    many = ", ".join(f'"k{i}": {{"systemName": [{i}]}}' for i in range(50_000)).encode()
    return {
        "members": b"{" + many + b', "systemName": "x"}',
        "brackets": b'{"a": "' + b"[{" * 500_000 + b'", "systemName": "x", "\\u0073": 1}',
        "escapes": b'{"a": "' + b'\\\\\\"' * 500_000 + b'", "systemName": "x", "\\u0073": 1}',
        "number": b'{"a": ' + b"1" * 10_000_000 + b', "systemName": "x", "\\u0073": 1}',
        "spaces": b'{"a":' + b" " * 5_000_000 + b'1 , "systemName": "x", "\\u0073": 1}',
        "nested": b'{"a": ' + b"[" * 500 + b"]" * 500 + b', "systemName": "x", "\\u0073": 1}',
        "wide": b'{"a": [' + b"[[[[]]]]," * 100_000 + b'0], "systemName": "x", "\\u0073": 1}',
    }


@pytest.mark.parametrize("name", sorted(hostile()))
def test_hostile_files_are_edited_in_linear_time(name: str) -> None:
    content = hostile()[name]
    began = time.process_time()
    assert edited(content, ".systemName", "gw").count(b'"systemName": "gw"') == 1
    assert time.process_time() - began < 3


DEEP = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from stoker.domain.errors import InvalidValue
from stoker.engine.transform.json_path import JsonPath
from stoker.engine.transform.json_edit import set_value
for opening in (b"[", b'{"a":'):
    for content in (opening * 1_000_000, opening * 1_000_000 + b"1" + b"]" * 1_000_000):
        try:
            set_value(content, JsonPath.parse(".a"), "x", adds=True)
        except InvalidValue as error:
            assert "nested too deep" in error.message, error.message
        else:
            raise AssertionError
print("refused")
"""


def test_nesting_without_end_is_refused_and_breaks_nothing() -> None:
    output = subprocess.run(
        [sys.executable, "-c", DEEP], capture_output=True, text=True, timeout=60, check=False
    )
    assert output.stdout == "refused\n", output.stderr


def test_what_the_reader_sees_is_what_was_set() -> None:
    content = json.dumps({"a": [{"b": "x"}, {"b": ["{", "\\", '"', "]"]}], "c": {"d": 1}}, indent=3).encode()
    assert json.loads(edited(content, ".a[1].b[2]", "new")) == {
        "a": [{"b": "x"}, {"b": ["{", "\\", "new", "]"]}],
        "c": {"d": 1},
    }
