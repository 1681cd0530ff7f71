"""Parsers of what comes from outside of the cluster: sources, gateways, forges, people's files."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from stoker.agent.gates.validation_webhook import check_answer
from stoker.api.manifests.yaml import load_documents
from stoker.artifacts.errors import ArtifactDamaged, ArtifactRefused, ArtifactTooLarge, ArtifactUnreachable
from stoker.artifacts.limits import ArtifactLimits, ArtifactReadBudget, bounded_files
from stoker.artifacts.oci_manifest import choose_manifest, manifest_layers
from stoker.artifacts.oci_manifest import parse_manifest as oci_manifest
from stoker.artifacts.registry_auth import AuthChallenge, check_realm
from stoker.artifacts.tar import archive_files
from stoker.dashboard.view_models import ActionBody
from stoker.domain.errors import InvalidValue, Misconfigured, Retry, Stalled
from stoker.engine.transform.json_check import json_problem
from stoker.engine.transform.json_edit import set_value
from stoker.engine.transform.json_path import JsonPath
from stoker.forges.detect import ForgeRepository
from stoker.forges.github import _GitHubPull
from stoker.forges.http import ForgeApi
from stoker.git.auth.github_api import token_error
from stoker.http_client import ServiceResponse
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.designer_sessions import parse_perspective_sessions, parse_project_designers
from stoker.ignition.client.inventory import parse_tag_types
from stoker.ignition.client.responses import GatewayPresence, GatewayRequestInfo, answer_error
from stoker.ignition.client.responses import GatewayResponse as GatewayAnswer
from stoker.ignition.content.resource_json import ResourceManifest
from stoker.kube.config import kubeconfig
from stoker_testkit.fuzz.target import FuzzTarget, file_with, text_of

LIMITS = ArtifactLimits(packed=1 << 20, unpacked=1 << 20, files=1000)
FORGE = ForgeApi(ForgeRepository("https://forge.test", "forge.test", "a/b"), {})
JSON_PATH = JsonPath.parse("system.names[0].host")


def _tar(data: bytes) -> int:
    with file_with(data) as path:
        reading = ArtifactReadBudget("the artifact", LIMITS)
        files = bounded_files(archive_files(path, "the artifact", reading), "the artifact", LIMITS)
        return sum(len(chunk) for file in files for chunk in file.chunks)


def _tars() -> Sequence[bytes]:
    made = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w", format=form) as tar:
            for name, content in (("projects/a.json", b"{}"), ("projects/" + "long/" * 8 + "x", b"y" * 600)):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        made.append(archive.getvalue()[:4096])
        made.append(gzip.compress(archive.getvalue(), mtime=0))
    return made


def _kubeconfig(data: bytes) -> object:
    with file_with(data) as path:
        return kubeconfig.read_kubeconfig([path]).choose(None)


def _kubeconfigs() -> Sequence[bytes]:
    text = (
        b"apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        b"contexts:\n- name: a\n  context: {cluster: c, user: u, namespace: n}\n"
        b"clusters:\n- name: c\n  cluster: {server: 'https://h:6443', certificate-authority-data: QQ==}\n"
        b"users:\n- name: u\n  user: {token: t, exec: {apiVersion: v1, command: x, args: [a]}}\n"
    )
    return [text]


def _yaml(data: bytes) -> object:
    return list(load_documents(data))


def _yamls() -> Sequence[bytes]:
    return [
        b"apiVersion: stoker.io/v1alpha1\nkind: Stoker\nmetadata: {name: a}\nspec:\n  git: {ref: 'm'}\n",
        b"a: &a [1, 2.5, true, null, ~, 0x1f, 1_000, 2024-01-01]\nb: {<<: {c: d}, e: *a}\n",
        b"---\n- |\n  text\n- >-\n  x\n---\n? k\n: v\n",
    ]


def _json_edit(data: bytes) -> object:
    json_problem(data)
    for adds in (False, True):
        with suppress(InvalidValue):
            set_value(data, JSON_PATH, "new", adds=adds)
    return None


def _gateway(data: bytes) -> object:
    """The first byte is a choice of statuses; every reader of an answer sees it."""
    status = (200, 201, 302, 401, 403, 404, 409, 429, 500, 503)[(data[0] if data else 0) % 10]
    kind = ("application/json", "text/html", "text/plain", "")[(data[0] if data else 0) % 4]
    answer = GatewayAnswer(status, kind, text_of(data[1:100]), data[1:])
    address = GatewayAddress.parse("http://gateway.test:8088")
    answer_error(answer, GatewayRequestInfo("status", address, "key", writes=False))
    GatewayPresence.from_gwinfo(answer.body)
    body = answer.json()
    return (
        GatewayPresence.from_ping(body),
        parse_project_designers("p", body),
        parse_perspective_sessions(body),
        parse_tag_types(body),
    )


def _gateways() -> Sequence[bytes]:
    bodies: list[object] = [
        {"state": "RUNNING"},
        {"success": False, "messages": ["no"]},
        {"designers": [{"id": "1", "user": "alice", "uptime": 7}]},
        {"sessions": [{"id": "1", "username": "bob", "project": "p", "scope": "browser"}]},
        {"tags": [{"name": "_types_", "tags": [{"name": "Motor", "tagType": "UdtType"}]}]},
    ]
    texts = [b"ContextStatus=RUNNING;Version=8.3.7", b"<table><th>MESSAGE:</th> <td>gone</td></table>"]
    encoded = [json.dumps(body).encode() for body in bodies]
    return [bytes([n]) + text for n, text in enumerate((*encoded, *texts))]


def _challenge(data: bytes) -> object:
    challenge = AuthChallenge.parse(data.decode("latin-1"))
    check_realm(challenge.realm, plain=False, title="the artifact")
    return challenge


def _manifest(data: bytes) -> object:
    manifest = oci_manifest(data, "the artifact")
    return (
        choose_manifest(manifest, "a", LIMITS)
        if manifest.manifests is not None
        else manifest_layers(manifest, "a", LIMITS)
    )


def _manifests() -> Sequence[bytes]:
    digest = "sha256:" + "a" * 64
    layer = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest, "size": 7}
    inner = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": 7}
    return [
        json.dumps({"schemaVersion": 2, "layers": [layer], "annotations": {"a": "b"}}).encode(),
        json.dumps({"schemaVersion": 2, "manifests": [inner]}).encode(),
    ]


def _forge(data: bytes) -> object:
    """As a refusal, and as the list that was asked for."""
    FORGE.refusal(ServiceResponse(422, data))
    return FORGE.read(ServiceResponse(200, data), list[_GitHubPull])


def _forges() -> Sequence[bytes]:
    side = {"ref": "main", "sha": "a" * 40, "repo": {"full_name": "a/b"}}
    pull = {"number": 1, "state": "open", "head": side, "base": side, "labels": [{"name": "x"}]}
    return [
        json.dumps([pull]).encode(),
        json.dumps({"message": "no", "errors": [{"message": "x", "field": "y"}]}).encode(),
    ]


def _validation(data: bytes) -> None:
    check_answer(ServiceResponse((200, 403, 500)[(data[0] if data else 0) % 3], data[1:]), "service.test")


TARGETS: tuple[FuzzTarget, ...] = (
    FuzzTarget(
        "artifact-tar", _tar, (ArtifactRefused, ArtifactTooLarge, ArtifactDamaged, ArtifactUnreachable), _tars
    ),
    FuzzTarget("yaml", _yaml, (InvalidValue,), _yamls, largest=16 << 10),
    FuzzTarget(
        "json-edit",
        _json_edit,
        (),
        lambda: [
            b'{"system": {"names": [{"host": "a"}, {"host": 1}]}, "b": [1, 2.5e3, null]}',
            b"[]",
            b"\xef\xbb\xbf{}",
        ],
    ),
    FuzzTarget(
        "resource-json",
        ResourceManifest.read,
        (InvalidValue,),
        lambda: [b'{"scope":"G","version":1,"files":["view.json"],"attributes":{"lastModification":{}}}'],
    ),
    FuzzTarget("kubeconfig", _kubeconfig, (Misconfigured,), _kubeconfigs, largest=16 << 10, memory=5 << 20),
    FuzzTarget("gateway-answer", _gateway, (), _gateways),
    FuzzTarget(
        "oci-challenge",
        _challenge,
        (ArtifactUnreachable,),
        lambda: [b'Bearer realm="https://auth.test/token?a=b",service="registry.test"', b'Basic realm="x"'],
    ),
    FuzzTarget("oci-manifest", _manifest, (ArtifactRefused, ArtifactTooLarge), _manifests),
    FuzzTarget("forge-answer", _forge, (Retry,), _forges),
    FuzzTarget(
        "github-refusal",
        lambda data: token_error(ServiceResponse(404, data), "app", "https://github.test"),
        (),
        lambda: [b'{"message":"Not Found"}'],
    ),
    FuzzTarget(
        "validation-answer",
        _validation,
        (Stalled, Retry),
        lambda: [b'\0{"allowed":true}', b'\0{"allowed":false,"reason":"no"}', b"\1no"],
    ),
    FuzzTarget(
        "dashboard-order",
        lambda data: msgspec.json.decode(data, type=ActionBody),
        (msgspec.DecodeError, UnicodeDecodeError, RecursionError),
        lambda: [b'{"action":"stop"}', b'{"action":"approve","namespace":"n","name":"a","digest":"d"}'],
    ),
)
