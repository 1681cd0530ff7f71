"""Transforms: which files they change, in which order, and their errors."""

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.files import (
    FieldTemplate,
    FilePatch,
    InheritedTagTypes,
    TagProviderName,
    TransformPolicy,
)
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.transform.transform import TransformSet, is_normalized

VALUES = TemplateValues(
    gateway_name="gw-1",
    namespace="dairy",
    site_number="7",
    cluster_name="east",
    time_zone="Europe/Vienna",
    locale="de-AT",
    pod_name="gw-1-0",
    pod_ordinal="0",
    vars={"port": "8089", "line": "a*"},
    labels={"tier": "front"},
).at(GitRef("main"), CommitId("0" * 40), 1_700_000_000)


def patch(file: str, **values: str) -> FilePatch:
    return FilePatch(file, tuple((f".{path}", value) for path, value in values.items()))


def outcome(
    transforms: TransformPolicy, file: str, content: bytes, *, template: bool = False
) -> bytes | None:
    recipe = TransformSet(transforms, VALUES).recipe(file, template=template)
    return None if recipe is None else recipe.apply(content)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("config.json", True),
        ("config/resources/core/ignition/system-properties/config.json", True),
        ("a/config.yaml", True),
        ("a/config.yml", True),
        ("a/myconfig.json", False),
        ("a/config.json/data.json", False),
        ("a/Config.json", False),
    ],
)
def test_normalizing_is_for_config_files_at_any_depth(path: str, expected: bool) -> None:
    assert is_normalized(path) is expected
    assert (TransformSet(TransformPolicy("x"), VALUES).recipe(path, template=False) is not None) is expected


def test_the_system_name_is_set_where_it_is_at_the_top() -> None:
    transforms = TransformPolicy("{{.GatewayName}}")
    content = b'{"inner": {"systemName": "keep"},\n "systemName" : "old" }'
    assert outcome(transforms, "a/b/config.json", content) == content.replace(b'"old"', b'"gw-1"')
    without = b'{"inner": {"systemName": "keep"}}'
    assert outcome(transforms, "config.json", without) is without
    assert outcome(transforms, "config.yaml", b"# c\nsystemName: old\n") == b"# c\nsystemName: gw-1\n"
    assert outcome(transforms, "other.json", content) is None


def test_all_specified_values_can_be_set() -> None:
    names = "Namespace GatewayName SiteNumber ClusterName Timestamp TimeZone Locale PodName PodOrdinal Ref"
    transforms = TransformPolicy(
        fields=(
            *(FieldTemplate(f".{name}", f"{{{{.{name}}}}}") for name in names.split()),
            FieldTemplate(".gateways[0].hostname", "ignition-{{.Namespace}}-{{.GatewayName}}.local"),
            FieldTemplate(".tier", "{{.Labels.tier}}"),
        )
    )
    content = (
        "{" + "".join(f'"{name}":"", ' for name in names.split()) + '"tier":"","gateways":[{"hostname":"h"}]}'
    ).encode()
    assert outcome(transforms, "config.json", content) == (
        b'{"Namespace":"dairy", "GatewayName":"gw-1", "SiteNumber":"7", "ClusterName":"east", '
        b'"Timestamp":"1700000000", "TimeZone":"Europe/Vienna", "Locale":"de-AT", "PodName":"gw-1-0", '
        b'"PodOrdinal":"0", "Ref":"main", "tier":"front",'
        b'"gateways":[{"hostname":"ignition-dairy-gw-1.local"}]}'
    )


def test_the_order_is_template_then_normalize_then_patches() -> None:
    transforms = TransformPolicy(
        "name",
        fields=(FieldTemplate(".a", "field 1"), FieldTemplate(".a", "field 2")),
        patches=(
            patch("**/config.json", b="patch 1"),
            patch("x/config.json", b="patch 2", c="{{.Vars.port}}"),
        ),
    )
    content = b'{"{{"systemName"}}": "{{.PodName}}", "a": "", "b": "", "c": 1}'
    assert outcome(transforms, "x/config.json", content, template=True) == (
        b'{"systemName": "name", "a": "field 2", "b": "patch 2", "c": 8089}'
    )


def test_patches_name_a_file_or_a_glob_of_json_and_yaml() -> None:
    transforms = TransformPolicy(
        patches=(
            patch("./{{.Namespace}}//settings", a="1"),
            patch("all/**", a="2"),
            patch("{{.Vars.line}}/*.json", a="3"),
            patch("tree/", a="4"),
        )
    )
    assert outcome(transforms, "dairy/settings", b'{"a":0}') == b'{"a":1}'
    assert outcome(transforms, "all/x.json", b"{}") == b'{"a": 2}'
    assert outcome(transforms, "all/deep/x.yml", b"b: 1\n") == b"b: 1\na: 2\n"
    assert outcome(transforms, "all/picture.png", b"\x89PNG") is None
    assert outcome(transforms, "a*/x.json", b"{}") == b'{"a": 3}'
    assert outcome(transforms, "ab/x.json", b"{}") is None
    assert outcome(transforms, "tree/a/b.json", b"{}") == b'{"a": 4}'
    assert outcome(transforms, "settings", b'{"a":0}') is None


def test_a_patch_without_a_file_is_named() -> None:
    transforming = TransformSet(
        TransformPolicy(patches=(patch("a.json", x="1"), patch("b/*.json", x="1"), patch("c/*.json", x="1"))),
        VALUES,
    )
    assert transforming.unused_patches({"a.json": 1, "b/c/d.json": 1, "c/e.json": 1}) == (
        "patches[1] (b/*.json)",
    )
    assert len(transforming.unused_patches(())) == 3


@pytest.mark.parametrize(
    ("transforms", "why"),
    [
        (
            TransformPolicy("{{.Vars.none}}"),
            r"the value for \.systemName cannot be made: .*\.Vars\.none, which has no value",
        ),
        (TransformPolicy(fields=(FieldTemplate(".a[", "x"),)), "path '.a\\['"),
        (
            TransformPolicy(patches=(patch("a", b="{{.Vars.none}}"),)),
            r"patches\[0\] \(a\): the value for \.b",
        ),
        (TransformPolicy(patches=(patch("{{.Timestamp}}.json", b="x"),)), r"must not depend on \.Timestamp"),
        (TransformPolicy(patches=(patch("../x.json", b="x"),)), r"patches\[0\]"),
        (TransformPolicy(patches=(patch("/etc/*.json", **{"b.": "x"}),)), r"patches\[0\]"),
        (TransformPolicy(patches=(patch("../*.json", b="x"),)), r"patches\[0\]"),
        (TransformPolicy(patches=(patch("/x.json", b="x"),)), "is absolute"),
    ],
)
def test_a_mistake_in_a_setting_is_found_before_any_file(transforms: TransformPolicy, why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        TransformSet(transforms, VALUES)


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("a/config.json", b'{"systemName": 1,}', r"a/config\.json: is not JSON: line 1"),
        ("a/config.json", b'{"systemName": {}}', r"a/config\.json: \.systemName cannot be set: an object"),
        ("a/config.yml", b"systemName: [", r"a/config\.yml: is not YAML"),
        ("p.json", b'{"a": 1}', r"p\.json: \.b\.c cannot be set: \.b is missing"),
        ("t/x.bin", b"\0", r"t/x\.bin: is binary"),
        ("t/x.txt", b"1\n{{.Vars.nope}}", r"t/x\.txt: line 2 asks for \.Vars\.nope"),
    ],
)
def test_a_file_that_cannot_be_made_is_named(file: str, content: bytes, why: str) -> None:
    transforms = TransformPolicy("x", patches=(FilePatch("p.json", ((".b.c", "x"),)),))
    with pytest.raises(InvalidValue, match=why):
        outcome(transforms, file, content, template=file.startswith("t/"))


def test_nothing_to_do_is_nothing() -> None:
    transforming = TransformSet(TransformPolicy(), VALUES)
    assert transforming.recipe("config.json", template=False) is None
    assert transforming.unused_patches(()) == ()


EDGE = TagProviderName("default", "edge")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"path": "[default]Line 1/Speed"}', b'{"path": "[edge]Line 1/Speed"}'),
        (b'{"path":"[default]"}', b'{"path":"[edge]"}'),
        (
            b'{"e": "{[default]a} + tag(\\"[default]b\\") + \\u0027[default]c\\u0027"}',
            b'{"e": "{[edge]a} + tag(\\"[edge]b\\") + \\u0027[edge]c\\u0027"}',
        ),
        (b'{"all": "[default]a, [default]b"}', b'{"all": "[edge]a, [edge]b"}'),
        (b'{"tagProvider" : "default"}', b'{"tagProvider" : "edge"}'),
        (b'{"default-Tag_Provider-name": "default"}', b'{"default-Tag_Provider-name": "edge"}'),
        (b'{"tagProviders": ["default", "x", "default"]}', b'{"tagProviders": ["edge", "x", "edge"]}'),
    ],
)
def test_references_to_the_tag_provider_get_the_gateways_name(before: bytes, after: bytes) -> None:
    assert outcome(TransformPolicy(tag_provider=EDGE), "a/config.json", before) == after
    assert outcome(TransformPolicy(tag_provider=EDGE), "a/config.json", after) == after


@pytest.mark.parametrize(
    "content",
    [
        b'{"provider": "default", "name": "default"}',
        b'{"tagProvider": {"name": "default"}, "other": "default"}',
        b'{"tagProvider": "Default", "x": "[other]default"}',
        b'{"query": "SELECT a,[default] FROM t WHERE [default] = 1"}',
        b'{"[default]x": 1, "default": 2}',
        b'{"tagProvider": ["x", {"y": "default"}]}',
    ],
)
def test_what_is_no_reference_to_a_tag_provider_keeps_its_name(content: bytes) -> None:
    assert outcome(TransformPolicy(tag_provider=EDGE), "config.json", content) is content


def test_only_config_json_is_looked_through_for_tag_providers() -> None:
    for path in ("a/tags.json", "a/config.yaml", "a/myconfig.json", "view.json"):
        assert outcome(TransformPolicy(tag_provider=EDGE), path, b'{"tagProvider": "default"}') is None
        assert outcome(TransformPolicy("x", tag_provider=EDGE), path, b"tagProvider: default") in (
            None,
            b"tagProvider: default",
        )


def test_what_is_set_by_name_is_not_renamed() -> None:
    fields = (FieldTemplate(".path", "[default]a"),)
    content = b'{"path": "[default]x", "tagProvider": "default"}'
    expected = b'{"path": "[default]a", "tagProvider": "edge"}'
    assert outcome(TransformPolicy(fields=fields, tag_provider=EDGE), "config.json", content) == expected


TYPES = "config/resources/core/ignition/tag-type-definition/edge"


def leaves(content: bytes, *names: str, at: str = f"{TYPES}/udts.json") -> bytes | None:
    return outcome(TransformPolicy(inherited_types=InheritedTagTypes(TYPES, frozenset(names))), at, content)


def test_inherited_types_are_taken_out_and_the_others_keep_their_bytes() -> None:
    content = (
        b'[\n  {"name": "Motor", "tagType": "UdtType"},\n'
        b'  { "name" : "Valve" ,"tags":[1.0]},\n\t{"name": "Pump"}\n]\n'
    )
    assert leaves(content, "Motor") == b'[\n  { "name" : "Valve" ,"tags":[1.0]},\n\t{"name": "Pump"}\n]\n'
    assert leaves(content, "Valve") == (
        b'[\n  {"name": "Motor", "tagType": "UdtType"},\n\t{"name": "Pump"}\n]\n'
    )
    assert leaves(content, "Pump", "Motor") == b'[\n  { "name" : "Valve" ,"tags":[1.0]}\n]\n'
    assert leaves(content, "Pump", "Motor", "Valve") == b"[]\n"
    assert leaves(content, "Other") is content


def test_an_inherited_type_is_reported_by_its_whole_path() -> None:
    content, inside = b'[{"name": "Light:0"}]', f"{TYPES}/Hall%3a1/udts.json"
    assert leaves(content, "Light:0", at=inside) is content
    assert leaves(content, "Hall:1/Light:0", at=inside) == b"[]"
    assert leaves(b'{"name": "Motor"}\n', "Motor", at=f"{TYPES}/Motor/udts.json") == b"[]\n"


@pytest.mark.parametrize(
    "content", [b'[{"name": "Motor", "tagType": "Folder"}, 1, {"name": 2}, {}]', b'"Motor"', b"[]"]
)
def test_what_is_no_type_is_not_taken_for_one(content: bytes) -> None:
    assert leaves(content, "Motor") is content


@pytest.mark.parametrize(
    "path",
    [f"{TYPES}/resource.json", f"{TYPES}/a/unary-resource.json", f"{TYPES}x/udts.json", f"{TYPES}/a.bin"],
)
def test_only_the_definitions_of_the_provider_are_looked_at(path: str) -> None:
    assert leaves(b'[{"name": "Motor"}]', "Motor", at=path) is None
