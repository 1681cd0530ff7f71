"""Setting a value in YAML changes the characters of that value and no others."""

import time

import pytest

from stoker.domain.errors import InvalidValue
from stoker.engine.transform.json_path import JsonPath
from stoker.engine.transform.yaml_edit import set_value

ODD = """\ufeff# sites\r
systemName: old   # the name\r
'quoted':   'it''s'\r
double: "a\\tb"\r
gateways:\r
- hostname: ä.local
  port: 8_088
  extra: {b: 1, "c":2, list: [x, y]}
empty:
enabled: Yes
when: 2024-01-02
block: |
  two
  lines

last: ~ # end""".encode()


def edited(content: bytes | str, path: str, value: str, *, adds: bool = False) -> bytes:
    content = content if isinstance(content, bytes) else content.encode()
    return set_value(content, JsonPath.parse(path), value, adds=adds)


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (".systemName", "gw-1", "old   #", "gw-1   #"),
        (".systemName", "12", "old   #", '"12"   #'),
        (".systemName", "no", "old   #", '"no"   #'),
        (".systemName", "a: b # c", "old   #", '"a: b # c"   #'),
        (".systemName", "", "old   #", '""   #'),
        (".systemName", "- x\n\u2028\x7f", "old   #", '"- x\\U0000000a\\U00002028\\U0000007f"   #'),
        (".quoted", "o'clock", "'it''s'", "'o''clock'"),
        (".quoted", "true", "'it''s'", "'true'"),
        (".double", 'a "b" \\', '"a\\tb"', '"a \\"b\\" \\\\"'),
        (".gateways[0].hostname", "Bär", "ä.local", '"Bär"'),
        (".gateways[0].port", "8089", "8_088", "8089"),
        (".gateways[0].port", "none", "8_088", "none"),
        (".gateways[0].extra.c", "3", '"c":2', '"c":3'),
        (".gateways[0].extra.list[1]", "z, z", "y]", '"z, z"]'),
        (".empty", "x y", "empty:", "empty: x y"),
        (".enabled", "no", "Yes", "no"),
        (".enabled", "false", "Yes", "false"),
        (".when", "2025-01-02", "2024-01-02", '"2025-01-02"'),
        (".last", "x", "~ #", "x #"),
    ],
)
def test_only_the_characters_of_the_value_change(path: str, value: str, old: str, new: str) -> None:
    assert ODD.count(old.encode()) == 1
    assert edited(ODD, path, value) == ODD.replace(old.encode(), new.encode())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".systemName", "old"),
        (".quoted", "it's"),
        (".double", "a\tb"),
        (".gateways[0].extra.b", "1.0"),
        (".empty", "null"),
        (".enabled", "true"),
        (".block", "two\nlines\n"),
        (".last", "null"),
    ],
)
def test_a_value_that_means_the_same_is_left_in_its_own_spelling(path: str, value: str) -> None:
    assert edited(ODD, path, value) is ODD


@pytest.mark.parametrize("path", [".missing", ".gateways[1]", ".gateways.host", ".empty.x", "[0]"])
def test_a_file_without_the_path_stays_as_it_is(path: str) -> None:
    assert edited(ODD, path, "x") is ODD


def test_every_document_that_has_it_is_set() -> None:
    content = "---\na: 1\n...\n---\nb: 1\n--- {a: x}\n"
    assert edited(content, ".a", "2") == b'---\na: 2\n...\n---\nb: 1\n--- {a: "2"}\n'


@pytest.mark.parametrize(
    ("content", "path", "value", "expected"),
    [
        ("a: 1\n", ".b", "x", "a: 1\nb: x\n"),
        ("a: 1  # why", ".b", "2", "a: 1  # why\nb: 2"),
        ("a:\r\n  x: 1\r\n\r\nz: 1\r\n", ".a.b", "true", "a:\r\n  x: 1\r\n  b: true\r\n\r\nz: 1\r\n"),
        ("- a: 1\n  c:\n    - d\n- 2\n", "[0].b", "x", "- a: 1\n  c:\n    - d\n  b: x\n- 2\n"),
        ("a: {x: 1}\n", ".a.b", "12", "a: {x: 1, b: 12}\n"),
        ("a: {x: 1, }\n", ".a.b", '"12"', 'a: {x: 1, b: "12", }\n'),
        ("a: {}\n", ".a.b", "null", "a: {b: null}\n"),
        ('{"x":"y"}', ".b", "z", '{"x":"y", "b": "z"}'),
        ("a: |\n  text\n\n# c\n", ".b", "x", "a: |\n  text\n\nb: x\n# c\n"),
        ("a: &k\n  x: 1\nb: *k\n", ".c", "x", "a: &k\n  x: 1\nb: *k\nc: x\n"),
        ("a:\n", ".b", "x", "a:\nb: x\n"),
        ("a: 1\n", '.["b: c"]', "x", 'a: 1\n"b: c": x\n'),
    ],
)
def test_a_missing_last_key_is_added_in_the_layout_of_its_siblings(
    content: str, path: str, value: str, expected: str
) -> None:
    once = edited(content, path, value, adds=True)
    assert once.decode() == expected
    assert edited(once, path, value, adds=True) is once


@pytest.mark.parametrize(
    ("content", "path", "why"),
    [
        ("a: &x 1\nb: *x\n", ".a", "carries the anchor &x"),
        ("a: &x 1\nb: *x\n", ".b", "an alias is there"),
        ("a: &x {c: 1}\nb: *x\n", ".b.c", r"\.b is an alias"),
        ("a: &x {c: 1}\nb: *x\n", ".a.c", r"\.a is shared by the anchor &x"),
        ("a: !!int 1\n", ".a", "carries the tag tag:yaml.org,2002:int"),
        ("a: !!python/object/apply:os.system [x]\n", ".a", "a list is there"),
        ("a: !x y\n", ".a", "carries the tag !x"),
        ("a: |\n  x\n  y\n", ".a", "a text of several lines"),
        ("a: {b: 1}\n", ".a", "a map is there"),
        ("a: 1\na: 2\n", ".a", "holds the key 'a' twice"),
        ("a: 1\n'a': 2\n", ".a", "holds the key 'a' twice"),
        ("a: 1\n", ".b.c", r"\.b\.c cannot be set: \.b is missing"),
        ("a: 1\n", ".a.b", r"\.a is not a map"),
        ("a: [1]\n", ".a[3]", r"\.a has 1 elements"),
        ("a: 1\n---\na: 2\n", ".a", "holds 2 documents"),
        ("", ".a", "holds 0 documents"),
        ("a: {b, c}\n", ".a.c", "without changing something else"),
        ("? a\n: 1\n", ".b", "without changing something else"),
        ("a: |\n  x", ".b", "without changing something else"),
        ("a: [\n", ".a", "is not YAML: line 2"),
        ("a: \x01\n", ".a", "is not YAML"),
        (b"a: \xff\n", ".a", "not UTF-8 at byte 3"),
        ("a: " + "x" * (4 << 20), ".a", "is larger than"),
        ("- 1\n" * 100_001, "[0]", "more than 100000 values"),
        ("[" * 1_000_000, "[0]", "nested deeper than 64"),
        ("[? " * 300_000, "[0]", "nested deeper than 64"),
        ("- " * 1_000_000, "[0]", "nested deeper than 64"),
        (
            "".join(f"%TAG !t{i}! x\n" for i in range(200_000)) + "---\na: 1\n",
            ".a",
            "more than 16 directives",
        ),
    ],
)
def test_a_yaml_path_that_cannot_be_set_is_reported(content: bytes | str, path: str, why: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidValue, match=why):
        edited(content, path, "9 9", adds=True)
    assert time.process_time() - began < 3


def test_a_bomb_of_aliases_costs_what_it_is_long() -> None:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 60)]
    bomb = "\n".join([*lines, "name: old\n"])
    began = time.process_time()
    assert edited(bomb, ".name", "new") == bomb.replace("old", "new").encode()
    assert time.process_time() - began < 1
