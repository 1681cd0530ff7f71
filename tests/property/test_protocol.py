"""Laws of the protocol between controller and agents: what is written is read, what is hostile is refused."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.api.agent_spec import agent_spec_of, decode
from stoker.domain.errors import InvalidValue, StokerError
from stoker.domain.intent.intent import ResourceIdentity, SyncResourceKind
from stoker.domain.intent.source import GitAuthKind, SecretKey
from stoker.domain.protocol import (
    MAX_REPORT_BYTES,
    AgentMetadata,
    DiffReport,
    DriftReport,
    FileChangeReport,
    GatewayReport,
    GatewayTarget,
    HeldProjectReport,
    HistoryEntryReport,
    PendingPlanReport,
    RollbackReport,
    RollbackRequest,
    StatusKeyMode,
    SyncMode,
    SyncState,
    check_signature,
    sign_data,
)
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.domain.secrets import Secret

commits = st.text("0123456789abcdef", min_size=40, max_size=40).map(CommitId)
words = st.text(string.ascii_letters + string.digits + " -_./", max_size=40).map(str.strip)
names = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=20)
secrets = st.builds(SecretKey, names, names)
globs = st.lists(
    st.sampled_from(["**/*.bak", "a/{b,c}/**", "tmp/", "{x,{y,z}}"]), max_size=4, unique=True
).map(tuple)
targets = st.builds(GatewayTarget, commits, st.sampled_from(SyncMode), st.sampled_from(["", "a" * 64]))
rollbacks = st.one_of(
    st.builds(RollbackRequest, names, to_commit=commits), st.builds(RollbackRequest, names, to_snapshot=names)
)
metadata = st.builds(
    AgentMetadata,
    commit=st.none() | commits,
    ref=st.none() | st.just(GitRef("release/1.2")),
    trigger=words,
    triggered_at=words,
    git_url=st.none() | st.just(RepoUrl("https://git.example.test/plant.git")),
    auth_type=st.sampled_from(GitAuthKind),
    auth_secret=st.none() | secrets,
    api_key=st.none() | secrets,
    gateway_port=st.integers(0, 65535),
    gateway_tls=st.booleans(),
    exclude_patterns=globs,
    paused=st.booleans(),
    terminating=st.booleans(),
    agent_spec=st.sampled_from(["", '{"version":1}']),
    targets=st.dictionaries(names, targets, max_size=3),
    status_key_mode=st.sampled_from(StatusKeyMode),
    status_shards=st.dictionaries(names, st.integers(0, 40), max_size=3),
    rollback=st.none() | rollbacks,
)

anything = st.text(max_size=60)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=8,
)
KEYS = (*AgentMetadata().data(), "agentSpec", "targets", "statusShards", "rollback")


def refusal(work: Callable[[], object]) -> str:
    """The sentence with which it is refused; empty if it is not. Anything else that is raised is a fault."""
    try:
        work()
    except StokerError as error:
        return error.message
    return ""


@settings(deadline=None)
@given(metadata)
def test_a_map_that_was_written_is_read_as_it_was_meant(sent: AgentMetadata) -> None:
    data = sent.data()
    assert all(isinstance(value, str) for value in data.values())
    assert AgentMetadata.parse(data) == sent
    assert AgentMetadata.parse({**data, "keyOfANewerController": "x"}) == sent


@settings(deadline=None)
@given(st.sampled_from(KEYS), st.one_of(anything, json_values.map(json.dumps)))
def test_no_value_of_a_map_does_more_than_be_refused(key: str, value: str) -> None:
    why = refusal(lambda: AgentMetadata.parse({key: value}).data())
    assert why == "" or f"metadata key {key}" in why or "protocol" in why
    assert "\n" not in why


@settings(deadline=None)
@given(st.one_of(anything, json_values.map(json.dumps)))
def test_no_agent_spec_does_more_than_be_refused(value: str) -> None:
    with pytest.raises(InvalidValue):
        decode(value)


@settings(deadline=None)
@given(metadata)
def test_flat_keys_alone_are_a_resource_or_a_named_reason(sent: AgentMetadata) -> None:
    for door in SyncResourceKind:
        why = refusal(partial(agent_spec_of, sent, ResourceIdentity(door, "shop", "plant")))
        assert bool(why) == (bool(sent.agent_spec) or sent.git_url is None or sent.ref is None), why


@settings(deadline=None)
@given(metadata, st.binary(min_size=1), st.binary(min_size=1))
def test_a_signature_is_of_one_map_with_one_content_and_one_key(
    sent: AgentMetadata, key: bytes, other: bytes
) -> None:
    data = sign_data(sent.data(), Secret(key), of="shop/stoker-metadata-plant", uid="u", sequence=1)
    check_signature(data, Secret(key), of="shop/stoker-metadata-plant")
    changed = {**data, "commit": "0" * 40 if data["commit"] != "0" * 40 else "1" * 40}
    for wrong, with_key, of in (
        (changed, key, "shop/stoker-metadata-plant"),
        ({**data, "more": ""}, key, "shop/stoker-metadata-plant"),
        (data, key, "shop/stoker-metadata-other"),
        (data, b"x" + other + key, "shop/stoker-metadata-plant"),
        (sent.data(), key, "shop/stoker-metadata-plant"),
    ):
        with pytest.raises(InvalidValue):
            check_signature(wrong, Secret(with_key), of=of)


long = st.text(max_size=3000)
counts = st.integers(0, 1 << 40)
lists = st.lists(long, max_size=30).map(tuple)
reports = st.builds(
    GatewayReport,
    gateway=long,
    pod_name=long,
    sync_status=st.sampled_from(SyncState),
    reason=long,
    error_message=long,
    errors=lists,
    warnings=lists,
    files_changed=st.none() | counts,
    projects_synced=lists,
    scan_result=long,
    verified=st.none() | st.booleans(),
    held_projects=st.lists(st.builds(HeldProjectReport, long, long), max_size=30).map(tuple),
    drift=st.none() | st.builds(DriftReport, counts, lists),
    orphans_kept=lists,
    orphans_kept_total=counts,
    pending_plan=st.none() | st.builds(PendingPlanReport, long),
    history=st.lists(st.builds(HistoryEntryReport, long, long), max_size=12).map(tuple),
    diff=st.none()
    | st.builds(DiffReport, changes=st.lists(st.builds(FileChangeReport, long, long), max_size=3).map(tuple)),
    rollback=st.none() | st.builds(RollbackReport, long, long, long),
)


@settings(deadline=None)
@given(reports)
def test_a_report_always_fits_and_keeps_what_counts(report: GatewayReport) -> None:
    text = report.json()
    assert len(text.encode()) <= MAX_REPORT_BYTES
    read = GatewayReport.parse(text)
    assert (read.sync_status, read.verified, read.files_changed, read.orphans_kept_total) == (
        report.sync_status,
        report.verified,
        report.files_changed,
        report.orphans_kept_total,
    )
    assert GatewayReport.parse(read.json()) == read, "reading and writing again changes nothing"


@settings(deadline=None)
@given(st.one_of(anything, json_values.map(json.dumps)))
def test_no_report_does_more_than_be_refused(text: str) -> None:
    why = refusal(lambda: GatewayReport.parse(text).json())
    assert "\n" not in why


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["syncedAt", "commit", "errors", "checksums", "drift", "history"]), json_values
    )
)
def test_known_keys_of_any_shape_are_read_or_refused(fields: dict[str, Any]) -> None:
    why = refusal(lambda: GatewayReport.parse(json.dumps(fields)))
    assert why == "" or "the report" in why
