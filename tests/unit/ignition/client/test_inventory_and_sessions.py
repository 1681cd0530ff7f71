"""Lists of a gateway, in both generations of its API."""

from __future__ import annotations

import json

import pytest

from stoker.ignition.client.designer_sessions import (
    DesignerSession,
    PerspectiveSession,
    parse_designers,
    parse_perspective_sessions,
    parse_project_designers,
)
from stoker.ignition.client.inventory import (
    GatewayInfo,
    ModuleHealth,
    is_older_than_api,
    module_ids,
    parse_gateway_info,
    parse_managed_providers,
    parse_module_list,
    parse_names,
    parse_quarantined,
    parse_restart_tasks,
    parse_tag_types,
)
from stoker.ignition.client.parse import MAX_ITEMS, MAX_NAME_LENGTH, MAX_TEXT_LENGTH, item_names, parse_items

HOSTILE: tuple[object, ...] = (
    None,
    1,
    "text",
    [],
    [[]],
    {},
    {"items": {}},
    {"items": [None, 1, "x", [], {}]},
    {"items": [{"id": {}}]},
)


def test_the_designers_of_8_3_and_of_the_specification_are_read_alike() -> None:
    one = DesignerSession("d1", "anna", "Line 1", "10.0.0.7")
    modern = {
        "items": [{"id": "d1", "user": "anna", "project": "Line 1", "address": "10.0.0.7", "uptime": 5}]
    }
    older = {
        "sessions": [{"sessionId": "d1", "username": "anna", "projectName": "Line 1", "host": "10.0.0.7"}]
    }
    bare = modern["items"]
    for message in (modern, older, bare):
        assert parse_designers(message, mixed=False) == (one,)


def test_of_a_mixed_list_only_sessions_of_that_type_are_designers() -> None:
    fields = {
        "items": [
            {"id": "d", "type": "Designer", "project": "A"},
            {"id": "p", "type": "Perspective", "project": "B", "uptime": 61_500},
            {"id": "v", "sessionScope": "designer", "project": "C"},
            {"id": "u", "project": "D"},
        ]
    }
    assert parse_designers(fields, mixed=True) is not None
    assert [one.id for one in parse_designers(fields, mixed=True) or ()] == ["d", "v"]
    assert parse_perspective_sessions(fields) == (
        PerspectiveSession("p", "", "B", 61.5),
        PerspectiveSession("u", "", "D", 0.0),
    )


def test_what_a_project_says_of_its_designers() -> None:
    fields = {"name": "A", "designSessions": [{"id": "1", "user": "ben"}]}
    assert parse_project_designers("A", fields) == (DesignerSession("1", "ben", "A", ""),)
    assert parse_project_designers("A", {"name": "A"}) is None


@pytest.mark.parametrize("uptime", [True, "5", None, -1, 1e400, float("nan"), [], 10**400])
def test_an_uptime_that_is_none_is_nought_or_bounded(uptime: object) -> None:
    found = parse_perspective_sessions({"items": [{"id": "p", "uptime": uptime}]})
    assert found is not None
    assert 0.0 <= found[0].uptime <= 1e9


def test_a_part_of_a_list_is_not_taken_for_the_whole() -> None:
    assert parse_items({"items": [1], "metadata": {"total": 2}}) is None
    assert parse_items({"items": [1, 2], "metadata": {"total": 2}}) == [1, 2]
    assert parse_items({"items": [1], "metadata": {"total": "2"}}) == [1]
    assert parse_items([0] * (MAX_ITEMS + 1)) is None


def test_names_are_kept_as_they_are_and_never_long_or_unprintable() -> None:
    found = item_names(["Line  1", "a\nb", "\ud800", "x" * 1000, 5, None, {"name": "Y"}, {"name": 5}], "name")
    assert {"Line  1", "a b", "Y"} < found
    assert max(map(len, found)) <= MAX_NAME_LENGTH
    for name in found:
        name.encode()


def test_texts_are_one_short_line() -> None:
    fields = {"items": [{"id": "1", "user": "an\x1b[31mna\r\n" + "x" * 5000}]}
    found = parse_designers(fields, mixed=False)
    assert found is not None
    assert len(found[0].user) <= MAX_TEXT_LENGTH
    assert found[0].user.isprintable()


def test_what_a_gateway_says_of_itself() -> None:
    fields = {
        "name": "gw",
        "ignitionVersion": "8.3.7 (b1)",
        "redundancyRole": "Backup",
        "deploymentMode": "prod",
    }
    assert parse_gateway_info(fields) == GatewayInfo("gw", "8.3.7 (b1)", "Backup", "prod")
    assert parse_gateway_info({"ignitionVersion": "8.3.0"}) == GatewayInfo("", "8.3.0")
    assert not any(map(parse_gateway_info, (None, [], {}, {"ignitionVersion": 83}, {"ignitionVersion": " "})))


@pytest.mark.parametrize(
    ("version", "old"),
    [
        ("8.1.44", True),
        ("7.9.21", True),
        ("8.3.0", False),
        ("8.3.7 (b2026)", False),
        ("9.0.0", False),
        ("8.10.1", False),
        ("", False),
        ("dev", False),
    ],
)
def test_versions_before_8_3_are_old(version: str, *, old: bool) -> None:
    assert is_older_than_api(version) is old


def test_modules_in_two_lists_and_in_one() -> None:
    assert module_ids({"items": [{"id": "a"}, {"name": "B"}]}) == frozenset({"a", "B"})
    assert parse_quarantined({"items": [{"id": "c", "reason": "no licence"}, {"id": "d"}]}) == {
        "c": "no licence",
        "d": "",
    }
    both = {
        "modules": [{"id": "a", "state": "RUNNING"}, {"id": "c", "state": "Faulted", "message": "why"}, "e"]
    }
    assert parse_module_list(both) == ModuleHealth(frozenset({"a", "e"}), {"c": "why"})


def test_tag_providers_of_a_module_are_distinguished_from_the_others() -> None:
    modern = {"items": [{"name": "default"}, {"name": "MQTT", "config": {"profile": {"type": "MANAGED"}}}]}
    older = {"providers": [{"name": "default", "managed": "yes"}, {"name": "MQTT", "managed": True}]}
    for message in (modern, older):
        assert parse_names(message) == frozenset({"default", "MQTT"})
        assert parse_managed_providers(message) == frozenset({"MQTT"})
    assert (
        parse_managed_providers(
            {"items": [{"name": "a", "config": {"profile": []}}, {"name": "b", "config": 5}]}
        )
        == frozenset()
    )


def test_restart_tasks_are_words() -> None:
    assert parse_restart_tasks({"pending": ["Module Enabled: a", {"name": "b"}, 5]}) == (
        "Module Enabled: a",
        "b",
    )
    assert parse_restart_tasks({"pending": []}) == ()
    assert parse_restart_tasks({"items": None}) is None


def test_tag_types_are_named_by_their_path() -> None:
    types = [
        {"name": "Motor", "tagType": "UdtType", "tags": [{"name": "Speed", "tagType": "AtomicTag"}]},
        {"name": "Pumps", "tagType": "Folder", "tags": [{"name": "Big", "tagType": "UdtType"}]},
    ]
    folder = {"name": "_types_", "tagType": "Folder", "tags": types}
    assert parse_tag_types(folder) == frozenset({"Motor", "Pumps/Big"})
    assert parse_tag_types({"name": "", "tags": [folder, {"name": "Line", "tags": []}]}) == frozenset(
        {"Motor", "Pumps/Big"}
    )
    assert parse_tag_types([]) is None


def test_an_export_of_any_depth_and_width_is_bounded() -> None:
    deep: dict[str, object] = {"name": "x", "tagType": "UdtType"}
    for _ in range(5000):
        deep = {"name": "n" * 200, "tags": [deep]}
    assert parse_tag_types(deep) == frozenset()
    wide = {"tags": [{"name": f"t{n}", "tagType": "UdtType"} for n in range(MAX_ITEMS)]}
    assert len(parse_tag_types(wide) or ()) == MAX_ITEMS


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: json.dumps(value)[:20])
def test_nothing_is_guessed_out_of_what_is_no_list(value: object) -> None:
    """Each reader either says that it cannot read it, or returns what holds no strange thing."""
    for found in (parse_names(value), module_ids(value)):
        assert found is None or all(isinstance(name, str) for name in found)
    for sessions in (
        parse_designers(value, mixed=False),
        parse_perspective_sessions(value),
        parse_restart_tasks(value),
    ):
        assert sessions is None or isinstance(sessions, tuple)
    assert parse_quarantined(value) is None or "" not in (parse_quarantined(value) or {})
