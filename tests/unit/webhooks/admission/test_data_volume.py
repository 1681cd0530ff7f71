"""The gateway's data volume: found, named, or refused with the possible ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.webhooks.admission.data_volume import DataVolume, find_data_volume
from stoker.webhooks.admission.pod_model import PodSpec


def spec(*containers: dict[str, Any], **volumes: dict[str, Any]) -> PodSpec:
    named = [
        {"name": name.replace("_", "-"), **(source or {"emptyDir": {}})} for name, source in volumes.items()
    ]
    return msgspec.convert({"containers": list(containers), "volumes": named}, PodSpec)


def container(name: str, *mounts: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in mounts],
        **more,
    }


def place(found: DataVolume) -> tuple[str, str, str]:
    return found.name, found.sub_path, found.gateway.name if found.gateway else ""


def refusal(pod: PodSpec, named: str = "") -> Stalled:
    with pytest.raises(Stalled) as raised:
        find_data_volume(pod, named)
    return raised.value


@pytest.mark.parametrize(
    "path",
    [
        "/usr/local/bin/ignition/data",
        "/var/lib/ignition/data",
        "/data",
        "/data/",
        "/usr/local/bin/ignition//data",
    ],
)
def test_the_places_of_ignition_are_known(path: str) -> None:
    assert place(find_data_volume(spec(container("gw", ("d", path)), d={}), "")) == ("d", "", "gw")


def test_foreign_data_is_not_taken_for_the_gateways() -> None:
    redis, gateway = (
        container("cache", ("c", "/data")),
        container("gw", ("d", "/usr/local/bin/ignition/data")),
    )
    assert place(find_data_volume(spec(redis, gateway, c={}, d={}), "")) == ("d", "", "gw")


def test_two_containers_that_share_the_volume_are_no_choice() -> None:
    both = [container(name, ("d", "/var/lib/ignition/data")) for name in ("gw", "exporter")]
    assert place(find_data_volume(spec(*both, d={}), "")) == ("d", "", "gw")


def test_two_volumes_are_refused_with_both_names() -> None:
    both = [container("a", ("d1", "/data")), container("b", ("d2", "/data"))]
    found = refusal(spec(*both, d1={}, d2={}))
    assert found.reason is Reason.DATA_VOLUME_AMBIGUOUS
    assert "'d1' at /data in container 'a'" in found.message
    assert "'d2' at /data in container 'b'" in found.message
    assert place(find_data_volume(spec(*both, d1={}, d2={}), "d2")) == ("d2", "", "b")


def test_two_folders_of_one_volume_are_two_places() -> None:
    one, two = container("a", ("d", "/data")), container("b", ("d", "/data"))
    two["volumeMounts"][0]["subPath"] = "b"
    assert refusal(spec(one, two, d={})).reason is Reason.DATA_VOLUME_AMBIGUOUS
    assert refusal(spec(one, two, d={}), "d").reason is Reason.DATA_VOLUME_AMBIGUOUS


def test_the_folder_inside_the_volume_is_copied() -> None:
    gateway = container("gw", ("d", "/data"))
    gateway["volumeMounts"][0]["subPath"] = "ignition/data"
    assert place(find_data_volume(spec(gateway, d={}), "")) == ("d", "ignition/data", "gw")


@pytest.mark.parametrize(
    ("expression", "env", "known"),
    [
        ("$(POD_NAME)/data", [("POD_NAME", "metadata.name")], True),
        (
            "$(POD_NAMESPACE)-$(POD_NAME)",
            [("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace")],
            True,
        ),
        ("$$(OTHER)", [], True),
        ("$(POD_NAME)", [], False),
        ("$(POD_NAME)", [("POD_NAME", "spec.nodeName")], False),
        ("$(SITE)", [("SITE", "metadata.name")], False),
    ],
)
def test_an_expression_is_copied_where_the_agent_can_read_it(
    expression: str, env: list[tuple[str, str]], known: bool
) -> None:
    gateway = container("gw", ("d", "/data"))
    gateway["volumeMounts"][0]["subPathExpr"] = expression
    gateway["env"] = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in env]
    if known:
        assert find_data_volume(spec(gateway, d={}), "").sub_path_expr == expression
    else:
        assert "subPathExpr" in refusal(spec(gateway, d={})).message


def test_without_a_known_place_the_annotation_is_asked_for() -> None:
    found = refusal(spec(container("gw", ("d", "/opt/data")), d={}))
    assert found.reason is Reason.DATA_VOLUME_NOT_FOUND
    assert "stoker.io/data-volume" in found.message
    assert place(find_data_volume(spec(container("gw", ("d", "/opt/data")), d={}), "d")) == ("d", "", "gw")


def test_a_named_volume_without_a_mount_is_taken_whole() -> None:
    assert place(find_data_volume(spec(container("gw"), d={}), "d")) == ("d", "", "")


def test_a_named_volume_must_be_there_and_writable() -> None:
    pod = spec(container("gw"), d={}, c={"configMap": {"name": "x"}}, s={"secret": {}}, p={"projected": {}})
    assert "'e'" in refusal(pod, "e").message
    for name in ("c", "s", "p"):
        assert "cannot be written" in refusal(pod, name).message


def test_a_config_map_at_data_is_no_data() -> None:
    pod = spec(container("gw", ("c", "/data")), c={"configMap": {"name": "x"}})
    assert refusal(pod).reason is Reason.DATA_VOLUME_NOT_FOUND


def test_a_long_list_of_choices_is_cut() -> None:
    many = [container(f"c{number}", (f"v{number}", "/data")) for number in range(500)]
    found = refusal(spec(*many, **{f"v{number}": {} for number in range(500)}))
    assert "and 492 more" in found.message
    assert len(found.message) < 1000
