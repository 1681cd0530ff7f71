"""Parsers of what other processes of a cluster write: agents, the API server, replicas, forges' webhooks."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from stoker.api.agent_spec import decode as decode_agent_spec
from stoker.api.kinds.stoker import Stoker, SyncProfile
from stoker.api.manifests.codec import decode as decode_manifest
from stoker.controller.cache.objects import decode_config_map
from stoker.domain.errors import InvalidValue, Retry, Stalled
from stoker.domain.protocol import (
    AgentMetadata,
    ChangeAction,
    ChangedFile,
    ChangeSet,
    ChangeSetReply,
    GatewayReport,
)
from stoker.domain.protocol.change_set_codec import ChangeSetChunk, decode, encode
from stoker.domain.refs import CommitId, GitRef
from stoker.kube.client.codec import decode as decode_object
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.watch.watch_events import read_error, read_line
from stoker.reverser.authors.admission import AuthorIntake, parse_fact
from stoker.reverser.authors.attribution import AuthorAttribution
from stoker.reverser.authors.fact_exchange import read_batch
from stoker.webhooks.admission.crd_conversion import convert_objects
from stoker.webhooks.admission.pod_model import read_pod
from stoker.webhooks.admission.reviews import read_admission, read_conversion
from stoker.webhooks.receiver.payloads import read_request
from stoker_testkit.fuzz.target import FuzzTarget, text_of

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors with which the store of a watch refuses an object."""
SET = "20260101-101500"
COMMIT = CommitId("a" * 40)


def _change_set() -> ChangeSet:
    content = b'{"a": 1}\n'
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 - git's own
    return ChangeSet(
        SET,
        "press",
        COMMIT,
        (
            ChangedFile(
                "projects/a.json", "site/projects/a.json", ChangeAction.WRITTEN, "b" * 40, blob, content
            ),
            ChangedFile("projects/b.json", "site/projects/b.json", ChangeAction.DELETED, "c" * 40),
        ),
        "2026-01-01T10:15:00Z",
    )


def _unpacked_set(data: bytes) -> ChangeSet:
    """Compressed here, so that a mutation meets the decoder and not the checksum of zlib."""
    packed = zlib.compress(data, 1)
    return decode([ChangeSetChunk(SET, 0, 1, hashlib.sha256(packed).hexdigest(), packed)])


def _packed_set(data: bytes) -> ChangeSet:
    return decode([ChangeSetChunk(SET, 0, 1, hashlib.sha256(data).hexdigest(), data)])


def _report() -> bytes:
    return GatewayReport("press", pod_name="press-0", commit=str(COMMIT), errors=("x",)).json().encode()


_METADATA = AgentMetadata(commit=COMMIT, ref=GitRef("main"), changes={"press": ChangeSetReply(SET)}).data()


def _metadata(data: bytes) -> object:
    """The text under every key, one at a time."""
    text = text_of(data)
    for key in (
        "commit",
        "ref",
        "gitURL",
        "targets",
        "statusShards",
        "rollback",
        "changes",
        "excludePatterns",
    ):
        try:
            AgentMetadata.parse({**_METADATA, key: text})
        except InvalidValue:
            continue
    return None


def _agent_spec() -> Sequence[bytes]:
    resource = {"kind": "Stoker", "metadata": {"name": "a"}, "spec": {"git": {"repo": "r", "ref": "m"}}}
    return [json.dumps({"version": 1, "resource": resource, "clusterName": "c"}).encode()]


def _review(**more: object) -> bytes:
    obj = {"metadata": {"uid": "u", "resourceVersion": "1", "name": "m"}, "data": {"k": "v"}}
    request = {
        "uid": "r1",
        "operation": "UPDATE",
        "kind": {"group": "stoker.io", "version": "v1alpha1", "kind": "Stoker"},
        "resource": {"group": "", "resource": "configmaps"},
        "userInfo": {"username": "alice", "groups": ["dev"]},
        "object": obj,
        "oldObject": obj,
        **more,
    }
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**head, "request": request}).encode()


def _author(data: bytes) -> object:
    """Both halves: the answer, which never waits, and the fact."""
    with suppress(StopIteration):
        AuthorIntake(AuthorAttribution()).review(data).send(None)
    return parse_fact(data)


def _conversion(data: bytes) -> object:
    return convert_objects(read_conversion(data))


def _conversions() -> Sequence[bytes]:
    one = {"apiVersion": "stoker.io/v1alpha1", "kind": "Stoker", "metadata": {"name": "a"}}
    request = {"uid": "u", "desiredAPIVersion": "stoker.io/v1alpha1", "objects": [one]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    return [json.dumps({**head, "request": request}).encode()]


_PAYLOADS: tuple[tuple[dict[str, str], dict[str, object]], ...] = (
    ({"X-GitHub-Event": "push"}, {"ref": "refs/heads/main", "after": "a" * 40}),
    ({"X-GitHub-Event": "release"}, {"action": "published", "release": {"tag_name": "v1"}}),
    ({"X-GitHub-Event": "create"}, {"ref": "v1", "ref_type": "tag"}),
    ({"X-Gitlab-Event": "Push Hook"}, {"ref": "refs/heads/main", "after": "a" * 40}),
    ({"X-Gitlab-Event": "Tag Push Hook"}, {"ref": "refs/tags/v1", "checkout_sha": "a" * 40}),
    ({"X-Gitea-Event": "push"}, {"ref": "refs/tags/v1", "after": "a" * 40}),
    (
        {"X-Event-Key": "repo:push"},
        {"push": {"changes": [{"new": {"type": "branch", "name": "main", "target": {"hash": "a" * 40}}}]}},
    ),
    ({}, {"ref": "v1"}),
    ({}, {"app": {"metadata": {"annotations": {"git_ref": "v1"}}}}),
    ({}, {"freight": {"commits": [{"tag": "v1"}]}}),
)


def _payload(data: bytes) -> object:
    """The first byte says who sends it."""
    headers, _ = _PAYLOADS[(data[0] if data else 0) % len(_PAYLOADS)]
    return read_request(headers, data[1:])


def _payloads() -> Sequence[bytes]:
    return [bytes([number]) + json.dumps(body).encode() for number, (_, body) in enumerate(_PAYLOADS)]


def _pods() -> Sequence[bytes]:
    container = {"name": "gateway", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    spec = {"containers": [container], "volumes": [{"name": "data", "secret": {}}]}
    metadata = {"name": "p", "annotations": {"stoker.io/inject": "true"}, "labels": {"a": "b"}}
    return [json.dumps({"metadata": metadata, "spec": spec}).encode()]


def _maps() -> Sequence[bytes]:
    whole = {"metadata": {"name": "m"}, "data": {"press": "{}"}, "binaryData": {"press.x.0": "AAAA"}}
    return [json.dumps(whole).encode()]


TARGETS: tuple[FuzzTarget, ...] = (
    FuzzTarget(
        "change-set",
        _unpacked_set,
        (InvalidValue,),
        lambda: [
            b"".join(zlib.decompress(ChangeSetChunk.parse(raw).packed) for raw in encode(_change_set()))
        ],
        memory=2 << 20,
    ),
    FuzzTarget(
        "change-set-packed",
        _packed_set,
        (InvalidValue,),
        lambda: [ChangeSetChunk.parse(raw).packed for raw in encode(_change_set())],
        memory=40 << 20,
    ),
    FuzzTarget("change-set-chunk", ChangeSetChunk.parse, (InvalidValue,), lambda: encode(_change_set())),
    FuzzTarget(
        "status-report", lambda data: GatewayReport.parse(text_of(data)), (InvalidValue,), lambda: [_report()]
    ),
    FuzzTarget(
        "metadata",
        _metadata,
        (),
        lambda: [text.encode() for text in (*_METADATA.values(), '{"press":"' + "a" * 40 + '"}', "{a,b},c")],
        largest=8 << 10,
    ),
    FuzzTarget("agent-spec", lambda data: decode_agent_spec(text_of(data)), (InvalidValue,), _agent_spec),
    FuzzTarget(
        "resource",
        lambda data: decode_manifest(data, Stoker),
        (InvalidValue,),
        lambda: [
            b'{"metadata":{"name":"a"},"spec":{"git":{"repo":"r","ref":"m"},"polling":{"interval":"1m"}}}'
        ],
    ),
    FuzzTarget(
        "profile",
        lambda data: decode_manifest(data, SyncProfile),
        (InvalidValue,),
        lambda: [b'{"metadata":{"name":"a"},"spec":{"mappings":[{"source":"a","destination":"b"}]}}'],
    ),
    FuzzTarget("config-map", decode_config_map, UNREADABLE, _maps),
    FuzzTarget("receiver-payload", _payload, (InvalidValue,), _payloads),
    FuzzTarget("admission-review", read_admission, (InvalidValue,), lambda: [_review()]),
    FuzzTarget("admission-pod", read_pod, (InvalidValue,), _pods),
    FuzzTarget(
        "author-review",
        _author,
        (InvalidValue,),
        lambda: [_review(), _review(operation="DELETE"), _review(subResource="scale"), _review(dryRun=True)],
    ),
    FuzzTarget("crd-conversion", _conversion, (InvalidValue,), _conversions),
    FuzzTarget(
        "author-facts",
        read_batch,
        (InvalidValue,),
        lambda: [
            b'{"instance":"a","address":"h:1","facts":[[["","configmaps"],"u","1","UPDATE",["alice","",["g"]],"b"]]}'
        ],
    ),
    FuzzTarget(
        "watch-line",
        lambda data: (read_error(data), read_line(data)),
        (Stalled, Retry),
        lambda: [
            b'{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}}',
            b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}',
        ],
    ),
    FuzzTarget(
        "api-object",
        lambda data: decode_object(data, ObjectHeader, "fuzz"),
        (Stalled, Retry),
        lambda: [b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"b"}}}'],
    ),
)
