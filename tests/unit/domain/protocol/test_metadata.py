"""The metadata ConfigMap: empty values, deletion, and what a target or a rollback must name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.protocol.json import MAX_NUMBER
from stoker.domain.protocol.metadata import (
    MAX_ENTRIES,
    AgentMetadata,
    RollbackRequest,
    is_digest,
    is_terminating,
)
from stoker.domain.protocol.parse import MAX_WORD
from stoker.domain.protocol.report import MAX_LINE_BYTES, GatewayReport
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId

COMMIT = "a" * 40
DIGEST = "d" * 64


def parsed(key: str, value: object) -> AgentMetadata:
    return AgentMetadata.parse({key: json.dumps(value)})


def test_a_map_without_values_means_every_default() -> None:
    assert AgentMetadata.parse({}) == AgentMetadata()
    assert AgentMetadata.parse(dict.fromkeys(AgentMetadata().data(), " ")) == AgentMetadata()


@pytest.mark.parametrize(
    ("value", "going"), [("true", True), (" true\n", True), ("false", False), ("", False), ("True", False)]
)
def test_only_true_means_that_the_resource_is_being_deleted(value: str, going: bool) -> None:
    assert is_terminating({"terminating": value, "commit": "not one"}) is going
    assert is_terminating({"paused": "true"}) is False


@pytest.mark.parametrize("target", [{}, {"commit": None}, {"commit": 7}, [COMMIT], None, 7])
def test_a_target_without_a_commit_is_refused(target: object) -> None:
    with pytest.raises(
        InvalidValue, match="metadata key targets: the target of 'gw' names no commit"
    ) as refused:
        parsed("targets", {"gw": target})
    assert refused.value.reason is Reason.METADATA_INVALID


@pytest.mark.parametrize("plan", ["d" * 7, "d" * 129, "../plan/digest", ["d"], 7])
def test_a_target_whose_plan_is_no_digest_is_refused(plan: object) -> None:
    assert is_digest(DIGEST)
    assert parsed("targets", {"gw": {"commit": COMMIT, "plan": DIGEST}}).targets["gw"].plan == DIGEST
    with pytest.raises(InvalidValue, match="names a plan that is no digest"):
        parsed("targets", {"gw": {"commit": COMMIT, "plan": plan}})


def test_a_rollback_names_a_commit_or_a_snapshot_and_an_id_of_its_own_or_theirs() -> None:
    to_commit = RollbackRequest(COMMIT, CommitId(COMMIT))
    assert parsed("rollback", {"toCommit": COMMIT}).rollback == to_commit
    assert parsed("rollback", {"toSnapshot": "s1"}).rollback == RollbackRequest("s1", None, "s1")
    assert parsed("rollback", {"id": "r1", "toCommit": COMMIT}).rollback == replace(to_commit, id="r1")
    for wrong in ({}, {"id": "r1"}, {"toCommit": COMMIT, "toSnapshot": "s1"}):
        with pytest.raises(InvalidValue, match="either a commit or a snapshot"):
            parsed("rollback", wrong)


@pytest.mark.parametrize("name", ["id", "toCommit", "toSnapshot"])
@pytest.mark.parametrize("value", [7, ["s1"], "s" * (MAX_WORD + 1), "two\nlines"])
def test_what_a_rollback_names_is_a_line_of_text(name: str, value: object) -> None:
    with pytest.raises(InvalidValue, match=f"{name} is not a line of text"):
        parsed("rollback", {"toSnapshot": "s1", name: value})
    longest = "s" * MAX_WORD
    assert parsed("rollback", {"toSnapshot": longest}).rollback == RollbackRequest(longest, None, longest)


@pytest.mark.parametrize("number", [-1, MAX_ENTRIES + 1, MAX_NUMBER, True, 1.5, "1", None])
def test_a_shard_is_a_number_up_to_its_limit(number: object) -> None:
    shards = {"first": 0, "last": MAX_ENTRIES}
    assert parsed("statusShards", shards).status_shards == shards
    with pytest.raises(InvalidValue, match=f"the shard of 'gw' is not a number from 0 to {MAX_ENTRIES}"):
        parsed("statusShards", {"gw": number})


@pytest.mark.parametrize("key", ["targets", "changes"])
def test_one_gateway_more_than_the_limit_is_refused(key: str) -> None:
    entries = {f"gw{number}": COMMIT if key == "targets" else {} for number in range(MAX_ENTRIES + 1)}
    with pytest.raises(InvalidValue, match=f"more than {MAX_ENTRIES} gateways"):
        parsed(key, entries)


def test_a_report_is_the_same_without_its_heartbeat_and_cuts_no_line_that_fits() -> None:
    report = GatewayReport("gw", heartbeat_at="2026-01-01T00:00:00Z", error_message="e" * MAX_LINE_BYTES)
    assert report.without_heartbeat() == replace(report, heartbeat_at="")
    assert GatewayReport.parse(report.json()) == report
    cut = GatewayReport.parse(replace(report, error_message="e" * (MAX_LINE_BYTES + 1)).json()).error_message
    assert cut.endswith("…")
    assert len(cut.encode()) <= MAX_LINE_BYTES
