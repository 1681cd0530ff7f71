"""The client against the real API server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from stoker.domain.errors import InvalidValue
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import (
    AlreadyExists,
    ApiServerUnreachable,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Unauthorized,
    error_for,
)
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import CONFIG_MAPS, LEASES, NAMESPACES, PODS, SECRETS, ApiResource
from stoker.kube.config import config
from stoker.kube.config.config import ClusterConfig
from stoker.kube.config.exec_plugin import API_VERSIONS
from stoker.kube.config.tls import ServerTrust
from stoker_testkit.certificates import Authority
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async


class ConfigMap(msgspec.Struct):
    metadata: dict[str, Any]
    data: dict[str, str] = {}


@pytest.fixture
async def client(control_plane: ClusterAccess) -> AsyncIterator[KubeClient]:
    async with KubeClient(config.load_config(control_plane.kubeconfig("admin"))) as client:
        yield client


@pytest.fixture(scope="module")
def compacting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of our own that forgets its history within seconds."""
    flags = ("--etcd-compaction-interval=1s", "--watch-cache=false")
    with ControlPlane.start(tmp_path_factory.mktemp("plane"), apiserver_flags=flags) as plane:
        yield plane


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_an_object_is_created_read_replaced_patched_and_deleted(
    client: KubeClient, namespace: str
) -> None:
    created = await client.create(CONFIG_MAPS, config_map("prices", tea="1"), namespace, into=ConfigMap)
    assert created.data == {"tea": "1"}
    body = config_map("prices", tea="2") | {"metadata": created.metadata}
    replaced = await client.replace(CONFIG_MAPS, body, "prices", namespace, into=ConfigMap)
    assert replaced.data == {"tea": "2"}
    patch = {"data": {"tea": None, "milk": "3"}}
    patched = await client.patch(CONFIG_MAPS, patch, "prices", namespace, into=ConfigMap)
    assert patched.data == {"milk": "3"}
    read = await client.get(CONFIG_MAPS, "prices", namespace, into=ObjectHeader)
    assert read.metadata.uid == created.metadata["uid"]
    assert read.metadata.namespace == namespace
    await client.delete(CONFIG_MAPS, "prices", namespace)
    with pytest.raises(NotFound) as refused:
        await client.get(CONFIG_MAPS, "prices", namespace, into=ObjectHeader)
    assert refused.value.message == f'get configmaps {namespace}/prices: configmaps "prices" not found'
    assert refused.value.reason is Reason.NOT_FOUND


async def test_creating_twice_is_distinguished_from_a_conflict(client: KubeClient, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("prices"), namespace, into=ObjectHeader)
    with pytest.raises(AlreadyExists, match=f"create configmaps in {namespace}:.*already exists"):
        await client.create(CONFIG_MAPS, config_map("prices"), namespace, into=ObjectHeader)


async def test_replacing_a_version_that_is_no_longer_current_conflicts(
    client: KubeClient, namespace: str
) -> None:
    first = await client.create(CONFIG_MAPS, config_map("prices"), namespace, into=ConfigMap)
    await client.patch(CONFIG_MAPS, {"data": {"tea": "2"}}, "prices", namespace, into=ObjectHeader)
    stale = config_map("prices", tea="1") | {"metadata": first.metadata}
    with pytest.raises(Conflict, match="replace configmaps"):
        await client.replace(CONFIG_MAPS, stale, "prices", namespace, into=ObjectHeader)


async def test_a_patch_with_a_resource_version_is_optimistic(client: KubeClient, namespace: str) -> None:
    first = await client.create(CONFIG_MAPS, config_map("prices"), namespace, into=ObjectHeader)
    await client.patch(CONFIG_MAPS, {"data": {"tea": "2"}}, "prices", namespace, into=ObjectHeader)
    patch = {"metadata": {"resourceVersion": first.metadata.resource_version}, "data": {"tea": "3"}}
    with pytest.raises(Conflict):
        await client.patch(CONFIG_MAPS, patch, "prices", namespace, into=ObjectHeader)


async def test_deleting_another_object_of_the_same_name_conflicts(client: KubeClient, namespace: str) -> None:
    first = await client.create(CONFIG_MAPS, config_map("prices"), namespace, into=ObjectHeader)
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "prices", namespace, uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "prices", namespace, resource_version="1")
    await client.delete(
        CONFIG_MAPS,
        "prices",
        namespace,
        uid=first.metadata.uid,
        resource_version=first.metadata.resource_version,
    )


async def test_two_managers_conflict_over_a_field_unless_one_forces(
    client: KubeClient, namespace: str
) -> None:
    def tea(price: str) -> dict[str, object]:
        return config_map("prices", tea=price)

    await client.apply(CONFIG_MAPS, tea("1"), "prices", namespace, manager="alpha", into=ConfigMap)
    with pytest.raises(Conflict, match="alpha"):
        await client.apply(
            CONFIG_MAPS, tea("2"), "prices", namespace, manager="beta", force=False, into=ConfigMap
        )
    forced = await client.apply(CONFIG_MAPS, tea("2"), "prices", namespace, manager="beta", into=ConfigMap)
    assert forced.data == {"tea": "2"}
    owners = {entry["manager"]: entry["operation"] for entry in forced.metadata["managedFields"]}
    assert owners == {"beta": "Apply"}, "alpha has lost the only field that it had"


async def test_the_status_subresource_changes_nothing_else(client: KubeClient, namespace: str) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "gateway"},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    await client.create(PODS, pod, namespace, into=ObjectHeader)
    patch = {"spec": {"activeDeadlineSeconds": 5}, "status": {"message": "all is well"}}
    await client.patch(PODS, patch, "gateway", namespace, into=ObjectHeader, subresource="status")
    read = await client.get(PODS, "gateway", namespace, into=dict[str, Any])
    assert read["status"]["message"] == "all is well"
    assert "activeDeadlineSeconds" not in read["spec"]
    body = read | {"status": {"message": "still"}}
    replaced = await client.replace(
        PODS, body, "gateway", namespace, into=dict[str, Any], subresource="status"
    )
    assert replaced["status"]["message"] == "still"


async def test_a_list_of_1200_objects_comes_in_pages_of_one_version(
    client: KubeClient, namespace: str
) -> None:
    gate = asyncio.Semaphore(20)

    async def create(index: int) -> None:
        async with gate:
            await client.create(CONFIG_MAPS, config_map(f"item-{index:04}"), namespace, into=ObjectHeader)

    await asyncio.gather(*(create(index) for index in range(1200)))
    pages = [page async for page in client.pages(CONFIG_MAPS, namespace)]
    assert [len(page.items) for page in pages] == [500, 500, 200]
    assert len({page.resource_version for page in pages}) == 1
    assert [page.remaining for page in pages] == [700, 200, None]
    assert pages[-1].continue_token == ""
    names = [
        msgspec.json.decode(item, type=ObjectHeader).metadata.name for page in pages for item in page.items
    ]
    assert names == [f"item-{index:04}" for index in range(1200)]
    headers = await client.list(CONFIG_MAPS, namespace, into=ObjectHeader)
    assert [header.metadata.name for header in headers] == names


async def test_pages_too_large_to_take_are_asked_for_in_pieces(
    control_plane: ClusterAccess, namespace: str
) -> None:
    async with KubeClient(config.load_config(control_plane.kubeconfig("admin")), max_body=60_000) as client:
        for index in range(12):
            body = config_map(f"item-{index:02}", text="x" * 20_000)
            await client.create(CONFIG_MAPS, body, namespace, into=ObjectHeader)
        headers = await client.list(CONFIG_MAPS, namespace, into=ObjectHeader)
        assert len(headers) == 12


async def test_selectors_and_exact_versions_narrow_a_list(client: KubeClient, namespace: str) -> None:
    red = config_map("red") | {"metadata": {"name": "red", "labels": {"colour": "red"}}}
    before = await client.create(CONFIG_MAPS, red, namespace, into=ObjectHeader)
    await client.create(CONFIG_MAPS, config_map("plain"), namespace, into=ObjectHeader)
    labelled = await client.list(CONFIG_MAPS, namespace, into=ObjectHeader, labels="colour in (red, green)")
    assert [each.metadata.name for each in labelled] == ["red"]
    named = await client.list(CONFIG_MAPS, namespace, into=ObjectHeader, fields="metadata.name=plain")
    assert [each.metadata.name for each in named] == ["plain"]
    then = [
        page
        async for page in client.pages(
            CONFIG_MAPS,
            namespace,
            resource_version=before.metadata.resource_version,
            resource_version_match="Exact",
        )
    ]
    assert [len(page.items) for page in then] == [1]


async def test_a_watch_delivers_changes_and_bookmarks_and_ends_when_asked(
    client: KubeClient, namespace: str
) -> None:
    start = [page async for page in client.pages(CONFIG_MAPS, namespace)][-1].resource_version
    seen: list[str] = []
    async with client.watch(CONFIG_MAPS, namespace, resource_version=start, timeout_seconds=3) as lines:
        made = await client.create(
            CONFIG_MAPS, config_map("prices", tea="x" * 900_000), namespace, into=ObjectHeader
        )
        await client.delete(CONFIG_MAPS, "prices", namespace)
        async for line in lines:
            event = msgspec.json.decode(line)
            seen.append(event["type"])
            if event["type"] == "ADDED":
                assert event["object"]["metadata"]["uid"] == made.metadata.uid
    assert [kind for kind in seen if kind != "BOOKMARK"] == ["ADDED", "DELETED"]
    # Two seconds before it ends a watch the server marks how far it has come.
    assert "BOOKMARK" in seen


async def test_a_silent_watch_is_unreachable(client: KubeClient, namespace: str) -> None:
    start = [page async for page in client.pages(LEASES, namespace)][-1].resource_version
    async with client.watch(
        LEASES, namespace, resource_version=start, timeout_seconds=60, idle_timeout=0.3
    ) as lines:
        with pytest.raises(
            ApiServerUnreachable, match=f"watch leases.coordination.k8s.io in {namespace}: .* did not answer"
        ):
            await anext(lines)


async def test_leaving_a_watch_closes_its_connection_at_once(client: KubeClient, namespace: str) -> None:
    start = [page async for page in client.pages(CONFIG_MAPS, namespace)][-1].resource_version

    async def follow() -> None:
        async with client.watch(CONFIG_MAPS, namespace, resource_version=start, timeout_seconds=300) as lines:
            following.set()
            async for _ in lines:
                pass

    following = asyncio.Event()
    task = asyncio.create_task(follow())
    await following.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 1.0)


@pytest.mark.cluster
async def test_a_version_older_than_the_server_remembers_is_gone(compacting: ControlPlane) -> None:
    """A list says so as a status, a watch within its stream, and a list that lost its place with 410."""
    async with KubeClient(config.load_config(compacting.kubeconfig("admin"))) as client:
        for name in ("a", "b", "c"):
            await client.create(CONFIG_MAPS, config_map(name), "default", into=ObjectHeader)
        pages = client.pages(CONFIG_MAPS, "default", limit=1)
        first = await anext(pages)

        async def forgotten() -> bool:
            await client.patch(CONFIG_MAPS, {"data": {"tea": None}}, "a", "default", into=ObjectHeader)
            try:
                async for _ in client.pages(
                    CONFIG_MAPS,
                    "default",
                    resource_version=first.resource_version,
                    resource_version_match="Exact",
                ):
                    pass
            except Gone:
                return True
            return False

        gone_by: bool = await eventually_async(
            forgotten, 30.0, "the version of the first page to be compacted"
        )
        assert gone_by
        with pytest.raises(Gone, match="list configmaps in default") as gone:
            await anext(pages)
        assert gone.value.reason is Reason.RESOURCE_VERSION_EXPIRED
        async with client.watch(CONFIG_MAPS, "default", resource_version="1", timeout_seconds=10) as lines:
            event = msgspec.json.decode(await anext(lines))
        assert event["type"] == "ERROR"
        message = error_for(event["object"]["code"], msgspec.json.encode(event["object"]), {})
        assert isinstance(message, Gone)


async def test_a_refused_object_is_described_with_its_fields(client: KubeClient, namespace: str) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(CONFIG_MAPS, config_map("Not_A_Name"), namespace, into=ObjectHeader)
    assert refused.value.status == 422
    assert "metadata.name: Invalid value" in refused.value.message
    assert "\n" not in refused.value.message


async def test_a_refused_secret_is_not_quoted(client: KubeClient, namespace: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "gateway"},
        "data": {"password": "hunter2 is not base64"},
    }
    with pytest.raises(Invalid) as malformed:
        await client.create(SECRETS, body, namespace, into=ObjectHeader)
    assert "hunter2" not in malformed.value.message
    assert malformed.value.message.startswith(f"create secrets in {namespace}: the server answered 400")
    body |= {"data": {}, "stringData": {"not a key!": "hunter2"}}
    with pytest.raises(Invalid) as refused:
        await client.create(SECRETS, body, namespace, into=ObjectHeader)
    assert refused.value.message.endswith("422 Invalid for data[not a key!] (FieldValueInvalid)")


@pytest.mark.parametrize(
    ("verb", "call"),
    [
        ("get", lambda client, ns: client.get(SECRETS, "gateway", ns, into=ObjectHeader)),
        ("list", lambda client, ns: client.list(SECRETS, ns, into=ObjectHeader)),
        ("create", lambda client, ns: client.create(CONFIG_MAPS, config_map("a"), ns, into=ObjectHeader)),
        ("delete", lambda client, ns: client.delete(CONFIG_MAPS, "a", ns)),
    ],
)
async def test_a_denial_names_the_user_the_verb_and_the_resource(
    control_plane: ClusterAccess,
    namespace: str,
    verb: str,
    call: Callable[[KubeClient, str], Awaitable[object]],
) -> None:
    async with KubeClient(config.load_config(control_plane.kubeconfig("alice"))) as client:
        with pytest.raises(Forbidden) as denied:
            await call(client, namespace)
    assert denied.value.reason is Reason.RBAC_DENIED
    resource = "secrets" if verb in {"get", "list"} else "configmaps"
    assert f'User "alice" cannot {verb} resource "{resource}"' in denied.value.message
    assert denied.value.message.startswith(f"{verb} {resource} ")


async def test_what_an_admission_plugin_denies_is_not_called_rbac(client: KubeClient, namespace: str) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"count/configmaps": "0"}},
    }
    quotas = ApiResource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)
    await client.create(quotas, quota, namespace, into=ObjectHeader)

    # There is no controller here that would count; the quota is full as soon as its status says so.
    full = {"status": {"hard": {"count/configmaps": "0"}, "used": {"count/configmaps": "0"}}}
    await client.patch(quotas, full, "none", namespace, into=ObjectHeader, subresource="status")

    async def refused() -> Forbidden | None:
        try:
            await client.create(
                CONFIG_MAPS, config_map(f"item-{uuid.uuid4().hex}"), namespace, into=ObjectHeader
            )
        except Forbidden as error:
            return error
        return None

    refusal: Forbidden | None = await eventually_async(refused, 20.0, "the quota to be enforced")
    assert refusal is not None
    assert refusal.reason is Reason.REJECTED
    assert refusal.status == 403


@pytest.mark.cluster
async def test_a_client_certificate_is_an_identity(compacting: ControlPlane, tmp_path: Path) -> None:
    pair = compacting.authority.client("root", ["system:masters"]).save(tmp_path, "root")
    kubeconfig = compacting.certificate_kubeconfig("root", pair)
    async with KubeClient(config.load_config(kubeconfig)) as client:
        assert await _who_am_i(client) == "root"


async def test_impersonation_is_honoured(control_plane: ClusterAccess, tmp_path: Path) -> None:
    kubeconfig = yaml.safe_load(control_plane.kubeconfig("admin").read_text())
    kubeconfig["users"][0]["user"] |= {"as": "carol", "as-groups": ["one", "two"]}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig))
    async with KubeClient(config.load_config(path)) as client:
        assert await _who_am_i(client) == "carol"


async def test_a_token_replaced_on_disk_is_taken_up_after_a_401(
    control_plane: ClusterAccess, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("no longer valid".replace(" ", "-"))
    clock = ManualClock()
    kubeconfig = yaml.safe_load(control_plane.kubeconfig("admin").read_text())
    kubeconfig["users"][0]["user"] = {"tokenFile": "token"}
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig))
    async with KubeClient(config.load_config(tmp_path / "config", clock=clock), clock=clock) as client:
        with pytest.raises(Unauthorized) as refused:
            await _who_am_i(client)
        assert "no-longer-valid" not in refused.value.message
        token.write_text(control_plane.token("admin") + "\n")
        assert await _who_am_i(client) == "admin"


async def test_a_plugin_that_prints_a_token_is_asked_again_after_a_401(
    control_plane: ClusterAccess, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("stale")
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        f'printf \'{{"apiVersion":"{API_VERSIONS[0]}","kind":"ExecCredential",'
        f'"status":{{"token":"%s"}}}}\' "$(cat {token})"\n'
    )
    plugin.chmod(0o755)
    kubeconfig = yaml.safe_load(control_plane.kubeconfig("admin").read_text())
    kubeconfig["users"][0]["user"] = {
        "exec": {"apiVersion": API_VERSIONS[0], "command": "./plugin", "interactiveMode": "Never"}
    }
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig))
    async with KubeClient(config.load_config(tmp_path / "config")) as client:
        with pytest.raises(Unauthorized):
            await _who_am_i(client)
        token.write_text(control_plane.token("admin"))
        assert await asyncio.gather(*(_who_am_i(client) for _ in range(5))) == ["admin"] * 5


async def test_a_server_of_another_authority_is_not_trusted(control_plane: ClusterAccess) -> None:
    stranger = ClusterConfig(server=control_plane.url, trust=ServerTrust(ca_data=Authority("stranger").pem))
    async with KubeClient(stranger) as client:
        with pytest.raises(ApiServerUnreachable, match="shows a certificate that is not trusted"):
            await client.raw("GET", "/version")


async def test_a_certificate_for_another_name_is_refused_unless_the_name_is_given(
    control_plane: ClusterAccess,
) -> None:
    authority = control_plane.ca_file.read_bytes()

    async def version(server_name: str) -> int:
        trust = ServerTrust(ca_data=authority, server_name=server_name)
        async with KubeClient(ClusterConfig(server=control_plane.url, trust=trust)) as client:
            return (await client.raw("GET", "/version")).status

    assert await version("localhost") == 200
    with pytest.raises(ApiServerUnreachable, match="not trusted"):
        await version("elsewhere.example")


async def test_names_that_would_change_the_path_never_leave(client: KubeClient, namespace: str) -> None:
    for name in ("../../secrets", "..", ".", "", "a/b"):
        with pytest.raises(InvalidValue):
            await client.get(CONFIG_MAPS, name, namespace, into=ObjectHeader)
    with pytest.raises(NotFound, match="what is this"):
        await client.get(CONFIG_MAPS, "what is this? #100", namespace, into=ObjectHeader)


async def test_cluster_wide_objects_need_no_namespace(client: KubeClient, namespace: str) -> None:
    assert (await client.get(NAMESPACES, namespace, into=ObjectHeader)).metadata.name == namespace
    with pytest.raises(InvalidValue, match="has no namespaces"):
        await client.get(NAMESPACES, namespace, namespace, into=ObjectHeader)


async def _who_am_i(client: KubeClient) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reviews = ApiResource(
        "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
    )
    answer = await client.create(reviews, review, into=dict[str, Any])
    return str(answer["status"]["userInfo"]["username"])
