"""Tag providers that are not ours, and types that a parent has."""

from __future__ import annotations

from stoker.domain.intent.files import ExcludePolicy, FileMapping, FilesIntent, InheritedTagTypes
from stoker.engine.match.globs import GlobSet
from stoker.ignition.content.tags import (
    mqtt_engine_providers,
    parent_providers,
    without_inherited_types,
    without_providers,
)

ENGINE = "com.cirruslink.mqtt.engine.gateway"
PROVIDERS = ["default", "System", "MQTT Engine", "mqtt-engine 2", "edge", "my mqtt"]
FILES = FilesIntent((FileMapping("s", "d"),), excludes=ExcludePolicy(("x",), ("y",)))
TYPES = "config/resources/core/ignition/tag-type-definition"


def test_the_providers_of_mqtt_engine_are_found_by_their_name_where_the_module_is() -> None:
    assert mqtt_engine_providers([ENGINE], PROVIDERS) == {"MQTT Engine", "mqtt-engine 2"}
    assert mqtt_engine_providers(["Perspective", "MQTT Engine"], PROVIDERS) == {
        "MQTT Engine",
        "mqtt-engine 2",
    }
    assert mqtt_engine_providers(["com.cirruslink.mqtt.transmission.gateway"], PROVIDERS) == frozenset()
    assert mqtt_engine_providers([], PROVIDERS) == frozenset()


def test_nothing_of_an_excluded_provider_is_synced() -> None:
    excludes = without_providers(FILES, {"MQTT Engine"}).excludes
    assert excludes == ExcludePolicy(("x", "**/tag-*/MQTT Engine/"), ("y",))
    globs = GlobSet(excludes.patterns)
    assert globs.matches(f"{TYPES}/MQTT Engine/Motor/udts.json")
    assert not globs.matches(f"{TYPES}/MQTT Engine 2/Motor/udts.json")
    assert without_providers(FILES, ()) == FILES


def test_a_providers_name_is_no_pattern_and_one_that_is_no_folder_is_left_out() -> None:
    names = {"a*[b]{c}?", "../up", "a/b", "", "x\n", "."}
    excludes = without_providers(FILES, names).excludes
    assert len(excludes.patterns) == 2
    globs = GlobSet(excludes.patterns)
    assert globs.matches(f"{TYPES}/a*[b]{{c}}?/udts.json")
    assert not globs.matches(f"{TYPES}/axbc1/udts.json")


def test_every_provider_in_which_people_keep_types_may_be_a_parent() -> None:
    assert parent_providers("edge", PROVIDERS, [ENGINE]) == ("default", "my mqtt")
    assert parent_providers("default", ["default", "System"], []) == ()


def test_types_of_a_parent_are_left_out_of_the_providers_folder() -> None:
    files = without_inherited_types(FILES, "edge", {"Motor", "_types_/Pumps/Gear"})
    assert files.transforms.inherited_types == InheritedTagTypes(
        f"{TYPES}/edge", frozenset({"Motor", "Pumps/Gear"})
    )
    assert files.excludes == FILES.excludes
    assert without_inherited_types(FILES, "edge", ()) is FILES
