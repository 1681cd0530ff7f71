"""The kubelet without containers does what a pod says, and refuses what it does not do."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from stoker_testkit.kubelet.atomic_writer import swap
from stoker_testkit.kubelet.pod_spec import Pod, PodRefused, Token, read_pod
from stoker_testkit.kubelet.process_containers import ContainerPlace, GatewayImage, environment
from stoker_testkit.kubelet.volumes import MissingVolumeSource, Volumes
from stoker_testkit.wait_until import eventually


def pod(container: dict[str, Any] | None = None, **spec: Any) -> Pod:
    body = {
        "metadata": {
            "name": "north",
            "namespace": "site",
            "uid": "1",
            "annotations": {"b": 'a "b"\n', "a": "1"},
        },
        "spec": {"containers": [{"name": "agent", "image": "stoker", **(container or {})}], **spec},
    }
    return read_pod(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("container", "spec", "message"),
    [
        ({}, {"hostNetwork": True}, "hostNetwork"),
        ({"lifecycle": {}}, {}, "lifecycle"),
        ({"envFrom": []}, {}, "envFrom"),
        ({"livenessProbe": {"exec": {"command": ["true"]}}}, {}, "exec"),
        ({}, {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}, "hostPath"),
        (
            {},
            {
                "volumes": [
                    {
                        "name": "x",
                        "secret": {"secretName": "s", "items": [{"key": "k", "path": "p", "mode": 1}]},
                    }
                ]
            },
            "mode",
        ),
        ({"env": [{"name": "X", "valueFrom": {"secretKeyRef": {}}}]}, {}, "secretKeyRef"),
        ({"securityContext": {"runAsUser": os.geteuid() + 1}}, {}, "asks for user"),
    ],
)
def test_what_it_does_not_do_is_refused_by_name(
    container: dict[str, Any], spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(PodRefused, match=message):
        pod(container, **spec)


class Objects:
    """A cluster with these Secrets and no ConfigMaps."""

    def __init__(self, **secrets: dict[str, bytes]) -> None:
        self.secrets = secrets
        self.asked: list[str] = []

    def secret(self, namespace: str, name: str) -> dict[str, bytes] | None:
        return self.secrets.get(name)

    def config_map(self, namespace: str, name: str) -> dict[str, bytes] | None:
        return None

    async def token(self, whose: Pod, wanted: Token) -> str:
        self.asked.append(f"{whose.spec.service_account_name} for {wanted.expiration_seconds}")
        return "a token"


def secret(name: str, *, optional: bool, **items: str) -> dict[str, Any]:
    chosen = [{"key": key, "path": path} for key, path in items.items()]
    return {"name": name, "secret": {"secretName": name, "optional": optional, "items": chosen}}


async def test_secrets_come_and_change_as_the_pod_asks(tmp_path: Path) -> None:
    objects = Objects(git={"token": b"old", "other": b"x"})
    found = pod(volumes=[secret("git", optional=False, token="t"), secret("none", optional=True, key="k")])
    volumes = Volumes(tmp_path, tmp_path / "claims", objects, objects.token)
    await volumes.refresh(found)
    git, none = (volumes.place(found, one) for one in found.spec.volumes)
    assert {one.name: one.read_bytes() for one in git.iterdir() if not one.name.startswith("..")} == {
        "t": b"old"
    }
    assert [one.name for one in none.iterdir() if not one.name.startswith("..")] == []

    before = (git / "..data").readlink()
    await volumes.refresh(found)
    assert (git / "..data").readlink() == before, "nothing has changed"
    objects.secrets["git"] = {"token": b"new"}
    await volumes.refresh(found)
    assert (git / "t").read_bytes() == b"new"
    assert (git / "..data").readlink() != before

    del objects.secrets["git"]
    with pytest.raises(MissingVolumeSource, match="Secret git does not exist"):
        await volumes.refresh(found)
    assert (git / "t").read_bytes() == b"new"


async def test_tokens_and_the_pods_own_facts_are_projected(tmp_path: Path) -> None:
    fields = [{"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}]
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    volume = {"name": "all", "projected": {"sources": [token, {"downwardAPI": {"items": fields}}]}}
    objects = Objects()
    found = pod(volumes=[volume], serviceAccountName="filler")
    volumes = Volumes(tmp_path, tmp_path / "claims", objects, objects.token)
    await volumes.refresh(found)
    await volumes.refresh(found)
    place = volumes.place(found, found.spec.volumes[0])
    assert (place / "token").read_text() == "a token"
    assert (place / "annotations").read_text() == 'a="1"\nb="a \\"b\\"\\n"'
    assert objects.asked == ["filler for 3607"], "one token is good for an hour"


async def test_an_empty_volume_is_a_true_folder_where_it_is_mounted_first(tmp_path: Path) -> None:
    mounts = [{"name": "repo", "mountPath": "/repo"}, {"name": "data", "mountPath": "/d", "subPath": "x"}]
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}
    found = pod({"volumeMounts": mounts}, volumes=[{"name": "repo", "emptyDir": {}}, claim])
    objects = Objects()
    volumes = Volumes(tmp_path / "pod", tmp_path / "claims", objects, objects.token)
    await volumes.refresh(found)
    volumes.mount(found, found.spec.containers[0])
    assert (volumes.root / "repo").is_dir()
    assert not (volumes.root / "repo").is_symlink()
    assert (volumes.root / "d").resolve() == tmp_path / "claims/site/data-0/x"


def test_a_swap_takes_what_is_gone_and_keeps_folders(tmp_path: Path) -> None:
    swap(tmp_path, {"hosts/known_hosts": "a", "ca/tls.crt": "b"})
    assert (tmp_path / "hosts/known_hosts").read_text() == "a"
    swap(tmp_path, {"hosts/known_hosts": "c"})
    assert (tmp_path / "hosts/known_hosts").read_text() == "c"
    assert not (tmp_path / "ca").is_symlink()
    assert len(list(tmp_path.iterdir())) == 3, "a link, what it points to, and one name"


def test_variables_are_the_containers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/somebody/elses")
    env = [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "GATEWAY_NAME", "value": "a $$(b)"},
        {"name": "TMPDIR", "value": "/scratch"},
    ]
    found = pod({"env": env})
    place = ContainerPlace(tmp_path, tmp_path / "log", {"/scratch": tmp_path / "x"}, ("10.0.0.1", 6443))
    variables = environment(found, found.spec.containers[0], place)
    assert "KUBECONFIG" not in variables
    assert (variables["POD_NAME"], variables["GATEWAY_NAME"]) == ("north", "a $(b)")
    assert variables["TMPDIR"] == str(tmp_path / "scratch")
    assert variables["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"
    other = pod({"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]})
    with pytest.raises(PodRefused, match=r"status\.podIP"):
        environment(other, other.spec.containers[0], place)


async def test_a_command_of_the_gateways_image_fills_a_volume(tmp_path: Path) -> None:
    seed = f"test ! -e /seed/done && cp {GatewayImage.data}/* /seed/ && touch /seed/done"
    mounted = {
        "volumeMounts": [{"name": "data", "mountPath": "/seed"}],
        "command": ["sh", "-c", seed],
    }
    made = pod(mounted, volumes=[{"name": "data", "emptyDir": {}}])
    volume = tmp_path / "volume"
    volume.mkdir()
    place = ContainerPlace(tmp_path, tmp_path / "seed.log", {"/seed": volume}, ("127.0.0.1", 1))
    ended = [await ended_with(GatewayImage(), made, place) for _ in range(2)]
    assert ended == [0, 1], "the second finds that the first is done"
    assert {one.name for one in volume.iterdir()} == {"done", "gateway.xml_clean"}


async def ended_with(image: GatewayImage, made: Pod, place: ContainerPlace) -> int:
    running = await image.start(made, made.spec.containers[0], place)
    await asyncio.to_thread(eventually, lambda: running.exit_code is not None, 30, "its end")
    await running.stop(1.0)
    assert running.exit_code is not None
    return running.exit_code
