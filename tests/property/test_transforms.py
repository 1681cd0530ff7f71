"""Laws of edits: the value is set, every other token stays, and doing it twice is doing it once."""

import json
import re
from typing import Any

import yaml
from hypothesis import assume, event, given
from hypothesis import strategies as st

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.files import FieldTemplate, FilePatch, TransformPolicy
from stoker.domain.intent.template_values import TemplateValues
from stoker.engine.transform import json_edit, tag_provider, tag_types, yaml_edit
from stoker.engine.transform.json_check import json_problem
from stoker.engine.transform.json_path import JsonPath
from stoker.engine.transform.transform import TransformSet

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+|\s+', re.DOTALL)

keys = st.sampled_from(["a", "b", "a.b", "flow rate", 'q"', "0", "ü", "{", "\\", ""])
scalars = st.none() | st.booleans() | st.integers(-99, 99) | st.floats(-9, 9) | st.text(max_size=6) | keys
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
roots = st.dictionaries(keys, trees, min_size=1, max_size=4) | st.lists(trees, min_size=1, max_size=3)
values = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["true", "false", "null", "12", "-1.5e3", '"12"', '"', "yes", "~", "- x", "a: b", "#", "1_0", ""]
)


@st.composite
def layouts(draw: st.DrawFn, tree: Any) -> bytes:
    """A tree as JSON with any spacing and any spelling of its texts."""
    gaps = st.sampled_from(["", " ", "\n", "\r\n\t", "  "])

    def text(value: str) -> str:
        ascii_only = draw(st.booleans())
        chars = (
            r"\u0061" if c == "a" and ascii_only else json.dumps(c, ensure_ascii=ascii_only)[1:-1]
            for c in value
        )
        return f'"{"".join(chars)}"'

    def write(value: Any) -> str:
        gap = draw(gaps)
        if isinstance(value, str):
            return text(value)
        if isinstance(value, list):
            return f"[{gap}" + f"{gap},".join(write(one) for one in value) + f"{gap}]"
        if isinstance(value, dict):
            members = (f"{draw(gaps)}{text(key)}{gap}:{draw(gaps)}{write(one)}" for key, one in value.items())
            return f"{{{gap}" + f"{gap},".join(members) + f"{gap}}}"
        return json.dumps(value)

    bom = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return bom + (draw(gaps) + write(tree) + draw(gaps)).encode("utf-8", "surrogatepass")


def spelt(steps: list[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f"[{json.dumps(step)}]" for step in steps)


def leaves(tree: Any, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(tree, dict):
        return [found for key, one in tree.items() for found in leaves(one, (*above, key))]
    if isinstance(tree, list):
        return [found for index, one in enumerate(tree) for found in leaves(one, (*above, index))]
    return [above] if above else []


def put(tree: Any, steps: tuple[str | int, ...], value: Any) -> Any:
    if not steps:
        return value
    copy: Any = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[steps[0]] = put(tree[steps[0]], steps[1:], value)
    return copy


def get(tree: Any, steps: tuple[str | int, ...]) -> Any:
    return tree if not steps else get(tree[steps[0]], steps[1:])


def meant(value: str, old: Any) -> Any:
    """The rule of `typed_value`, written a second time with a JSON parser."""
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if isinstance(parsed, str):
        return parsed
    number = isinstance(parsed, int | float) and not isinstance(parsed, bool)
    if number and not re.fullmatch(r"-?[0-9.eE+-]+", value):
        return value  # NaN is no JSON, and neither are spaces around a number
    if parsed is None and value == "null":
        return None if old is None else value
    if isinstance(parsed, bool) and value == value.strip():
        return parsed if isinstance(old, bool) else value
    if number:
        return parsed if isinstance(old, int | float) and not isinstance(old, bool) else value
    return value


def same(one: Any, other: Any) -> bool:
    return bool(json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)) or one == other


@given(st.data(), roots, values)
def test_an_edit_of_json_changes_one_token(data: st.DataObject, tree: Any, value: str) -> None:
    content = data.draw(layouts(tree))
    places = leaves(tree)
    assume(json_problem(content) is None and places)
    steps = data.draw(st.sampled_from(places))
    path = JsonPath.parse(spelt(list(steps)))
    after = json_edit.set_value(content, path, value, adds=False)
    assert same(json.loads(after.decode("utf-8-sig")), put(tree, steps, meant(value, get(tree, steps))))
    tokens = list(zip(TOKEN.findall(content), TOKEN.findall(after), strict=True))
    assert sum(old != new for old, new in tokens) <= 1
    assert json_edit.set_value(after, path, value, adds=False) is after
    assert json_edit.set_value(after, path, value, adds=True) is after


@given(st.data(), st.dictionaries(keys, trees, max_size=3), keys, values)
def test_a_key_that_is_added_leaves_every_byte_in_place(
    data: st.DataObject, tree: Any, key: str, value: str
) -> None:
    content = data.draw(layouts(tree))
    assume(json_problem(content) is None and key not in tree)
    path = JsonPath.parse(spelt([key]))
    after = json_edit.set_value(content, path, value, adds=True)
    whole = json.loads(after.decode("utf-8-sig"))
    assert list(whole) == [*tree, key]
    assert same({name: whole[name] for name in tree}, tree)
    at = next(i for i in range(len(content) + 1) if after[i : i + 1] != content[i : i + 1])
    assert any(after.endswith(content[i:]) and after.startswith(content[:i]) for i in range(at + 1))
    assert json_edit.set_value(after, path, value, adds=True) is after
    assert json_edit.set_value(content, path, value, adds=False) is content


@given(st.data(), roots, values, st.booleans())
def test_an_edit_of_yaml_sets_the_value_and_keeps_the_rest(
    data: st.DataObject, tree: Any, value: str, flow: bool
) -> None:
    places = leaves(tree)
    text = yaml.safe_dump(tree, default_flow_style=flow, allow_unicode=True, sort_keys=False)
    content = "".join(
        f"{line} # c\n" if line.endswith(":") else f"{line}\n" for line in text.splitlines()
    ).encode()
    assume(places and yaml.safe_load(content) == tree)
    steps = data.draw(st.sampled_from(places))
    path = JsonPath.parse(spelt(list(steps)))
    try:
        after = yaml_edit.set_value(content, path, value, adds=False)
    except InvalidValue as error:
        event(error.message)
        return
    put_back = get(yaml.safe_load(after), steps)
    assert yaml.safe_load(after) == put(tree, steps, put_back)
    assert after.count(b"#") >= content.count(b" # c\n")
    assert yaml_edit.set_value(after, path, value, adds=False) is after


@given(st.data(), st.dictionaries(keys, trees, max_size=4), st.lists(values, min_size=4, max_size=4))
def test_a_recipe_over_its_own_outcome_changes_nothing(
    data: st.DataObject, tree: dict[str, Any], texts: list[str]
) -> None:
    content = data.draw(layouts({**tree, "systemName": "x"}))
    texts = [text.replace("{{", "").replace("}}", "") for text in texts]
    transforms = TransformPolicy(
        texts[0],
        (FieldTemplate(".a", texts[1]),),
        (FilePatch("**/*.json", ((".b", texts[2]), (".systemName", texts[3]))),),
    )
    recipe = TransformSet(transforms, TemplateValues()).recipe("x/config.json", template=False)
    assert recipe is not None
    try:
        once = recipe.apply(content)
    except InvalidValue as error:
        event(error.message)
        return
    assert recipe.apply(once) == once
    assert json_problem(once) is None


@given(st.binary(max_size=60) | st.text('{}[]":,\\u0019ae \n', max_size=60).map(str.encode), values)
def test_any_bytes_are_edited_or_refused_with_a_sentence(content: bytes, value: str) -> None:
    for set_value in (json_edit.set_value, yaml_edit.set_value):
        for adds in (True, False):
            try:
                edited = set_value(content, JsonPath.parse(".a"), value, adds=adds)
            except InvalidValue:  # and nothing else
                continue
            assert set_value(edited, JsonPath.parse(".a"), value, adds=adds) == edited


references = st.sampled_from(
    [
        "default",
        "[default]a/b",
        "x [default]",
        "{[default]a}",
        "'[default]'",
        "[other]default",
        "edge",
        "",
        "ü",
    ]
)
about = st.sampled_from(["tagProvider", "defaultTagProvider", "provider", "path", "default", "[default]x"])
configs = st.recursive(
    references | st.integers(0, 3) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(about, inner, max_size=4),
    max_leaves=10,
)


def renamed(tree: Any, *, named: bool = False) -> Any:
    """The same on values: what is meant, whatever the bytes."""
    if isinstance(tree, dict):
        return {key: renamed(one, named="tagprovider" in key.lower()) for key, one in tree.items()}
    if isinstance(tree, list):
        return [renamed(one, named=named) for one in tree]
    if not isinstance(tree, str):
        return tree
    if named and tree == "default":
        return "edge"
    return re.sub(r"(^|(?<=[{'\"])|(?=\[default\]\w))\[default\]", "[edge]", tree)


@given(st.data(), configs)
def test_a_provider_is_renamed_where_it_is_meant_and_no_token_else_changes(
    data: st.DataObject, tree: Any
) -> None:
    content = json.dumps(tree, indent=data.draw(st.sampled_from([None, 1])), ensure_ascii=False).encode()
    after = tag_provider.rename_provider(content, "default", "edge")
    event(f"renamed: {after != content}")
    assert json.loads(after) == renamed(tree)
    assert tag_provider.rename_provider(after, "default", "edge") == after
    assert after.replace(b"edge", b"default") == content.replace(b"edge", b"default")


types = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc"), "tags": trees})
    | st.sampled_from([{"name": "a", "tagType": "Folder"}, {"tags": []}, 7]),
    max_size=5,
)


@given(st.data(), types, st.frozensets(st.sampled_from(["a", "b", "x/a"])), st.sampled_from(["", "x"]))
def test_inherited_types_go_and_no_other_element_changes(
    data: st.DataObject, tree: list[Any], names: frozenset[str], folder: str
) -> None:
    content = data.draw(layouts(tree))
    assume(json_problem(content) is None)

    def inherited(one: Any) -> bool:
        if not isinstance(one, dict) or "name" not in one or "tagType" in one:
            return False
        return f"{folder}/{one['name']}".lstrip("/") in names

    after = tag_types.remove_types(content, folder, names)
    left = [one for one in json.loads(content.decode("utf-8-sig")) if not inherited(one)]
    event(f"taken out: {after != content}")
    assert json.loads(after.decode("utf-8-sig")) == left
    assert tag_types.remove_types(after, folder, names) == after
    before, now = TOKEN.findall(content), TOKEN.findall(after)
    assert all(any(token == other for other in before) for token in now)
