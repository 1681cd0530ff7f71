"""The maps between controller and agents: names, versions, shapes, and what is left out first."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol import (
    CR_KIND_LABEL,
    CR_NAME_LABEL,
    AgentMetadata,
    DiffReport,
    GatewayReport,
    GatewayTarget,
    HistoryEntryReport,
    SyncMode,
    SyncState,
    changes_map_name,
    metadata_map_name,
    resource_labels,
    status_map_name,
)
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId

COMMIT = CommitId("a" * 40)


def test_a_configmaps_name_follows_the_kind_and_a_shard_is_no_main_configmap() -> None:
    assert metadata_map_name(SyncResourceKind.STOKER, "line") == "stoker-metadata-line"
    assert metadata_map_name(SyncResourceKind.IGNITION_SYNC, "line") == "ignition-sync-metadata-line"
    assert status_map_name(SyncResourceKind.STOKER, "line") == "stoker-status-line"
    assert status_map_name(SyncResourceKind.IGNITION_SYNC, "line", 2) == "ignition-sync-statusshard-2-line"
    assert status_map_name(SyncResourceKind.STOKER, "line", 1) != status_map_name(
        SyncResourceKind.STOKER, "line-1"
    )
    assert changes_map_name(SyncResourceKind.IGNITION_SYNC, "line", 7) == "ignition-sync-changes-7-line"
    assert resource_labels(SyncResourceKind.STOKER, "line") == {
        CR_NAME_LABEL: "line",
        CR_KIND_LABEL: "Stoker",
    }


def test_all_specified_keys_are_written() -> None:
    data = replace(
        AgentMetadata(), gateway_port=8043, gateway_tls=False, exclude_patterns=("a", "{b,c}")
    ).data()
    assert {
        "commit",
        "ref",
        "trigger",
        "triggeredAt",
        "gitURL",
        "authType",
        "authSecretName",
        "authSecretKey",
        "apiKeySecret",
        "apiKeySecretKey",
        "gatewayPort",
        "gatewayTLS",
        "excludePatterns",
        "paused",
        "terminating",
        "protocolVersion",
    } <= set(data)
    assert (data["gatewayPort"], data["gatewayTLS"], data["excludePatterns"]) == ("8043", "false", "a,{b,c}")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"commit": "main"}, "metadata key commit: 'main' is not a full commit id"),
        ({"ref": "--upload-pack=x"}, "metadata key ref: ref '--upload-pack=x' begins with '-'"),
        ({"gatewayPort": "70000"}, "metadata key gatewayPort: '70000' is not a port"),
        ({"gatewayTLS": "yes"}, "metadata key gatewayTLS: 'yes' is neither true nor false"),
        ({"authType": "kerberos"}, "metadata key authType: 'kerberos' is none of none, ssh, token"),
        ({"authSecretName": "../etc"}, "metadata key authSecretName: '../etc' is not the name of a Secret"),
        ({"authSecretName": "git", "authSecretKey": ".."}, "metadata key authSecretKey"),
        ({"targets": "[]"}, "metadata key targets: it is not a JSON object"),
        ({"targets": '{"a":{"commit":"x"}}'}, "is not a full commit id"),
        ({"targets": json.dumps({"a": {"commit": COMMIT, "mode": "soon"}})}, "has mode 'soon'"),
        ({"targets": "[" * 5000}, "metadata key targets: it is nested deeper"),
        ({"statusShards": '{"a": -1}'}, "the shard of 'a' is not a number"),
        ({"rollback": "{}"}, "either a commit or a snapshot"),
        ({"protocolVersion": "newest"}, "metadata key protocolVersion: 'newest' is not a version"),
    ],
)
def test_what_is_malformed_is_named(data: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        AgentMetadata.parse(data)
    assert sentence in refused.value.message
    assert refused.value.reason is Reason.METADATA_INVALID


def test_a_newer_major_protocol_is_refused_by_name_and_a_newer_minor_one_is_not() -> None:
    assert AgentMetadata.parse({"protocolVersion": "1.9"}).protocol_version == "1.9"
    with pytest.raises(InvalidValue, match="older than the controller") as refused:
        AgentMetadata.parse({"protocolVersion": "2"})
    assert refused.value.reason is Reason.PROTOCOL_TOO_NEW


def test_a_bare_commit_is_a_target_to_apply() -> None:
    metadata = AgentMetadata.parse(
        {"targets": json.dumps({"a": COMMIT, "b": {"commit": COMMIT, "mode": "plan"}})}
    )
    assert metadata.targets == {"a": GatewayTarget(COMMIT), "b": GatewayTarget(COMMIT, SyncMode.PLAN)}


def test_both_specified_shapes_are_read() -> None:
    older = GatewayReport.parse(
        json.dumps(
            {
                "gateway": "site",
                "syncedAt": "2026-02-12T10:30:05Z",
                "commit": COMMIT,
                "ref": "main",
                "filesChanged": 12,
                "projectsSynced": ["site"],
                "scanResult": "projects=200 config=200",
                "duration": "1.9s",
                "checksums": {"projects/site/project.json": "sha256:00"},
            }
        )
    )
    assert (older.sync_status, older.synced_commit, older.files_changed) == (SyncState.SYNCED, COMMIT, 12)
    assert older.checksums is not None
    assert older.checksums.files == 1
    newer = GatewayReport.parse(
        json.dumps(
            {
                "SyncedAt": "2026-02-12T10:30:05Z",
                "Commit": COMMIT,
                "Ref": "main",
                "FilesAdded": 2,
                "Errors": 3,
            }
        )
    )
    assert (newer.sync_status, newer.files_changed, newer.synced_ref) == (SyncState.ERROR, 2, "main")
    assert newer.errors == ("3 errors",)


def test_ten_names_of_skipped_content_fit_beside_a_history() -> None:
    names = tuple(f"services/filler/projects/{'p' * 400}/{number}: is a symlink" for number in range(12))
    history = tuple(HistoryEntryReport(f"2026-01-0{n}", COMMIT, "main") for n in range(1, 10))
    text = GatewayReport(gateway="filler", skipped=names, skipped_total=12, history=history).json()
    assert len(text.encode()) <= 4096
    kept = GatewayReport.parse(text)
    assert (len(kept.skipped), kept.skipped_total, kept.omitted) == (10, 12, ())
    crowded = replace(kept, errors=("x" * 500,) * 8, skipped=kept.skipped)
    kept = GatewayReport.parse(crowded.json())
    assert kept.skipped_total == 12, "the count stays where the names do not fit"


def test_what_is_least_wanted_goes_first_and_is_named() -> None:
    full = GatewayReport(
        gateway="filler",
        error_message="e" * 400,
        errors=("x" * 300,) * 4,
        projects_synced=("p" * 60,) * 20,
        diff=DiffReport(to_commit=COMMIT, projects_affected=("p" * 60,) * 8),
        history=tuple(HistoryEntryReport(f"2026-01-0{n}", COMMIT, "main") for n in range(1, 10)),
    )
    kept = GatewayReport.parse(full.json())
    assert 0 < len(kept.history) < 9, "only the oldest entries go"
    assert kept.history[0].timestamp == "2026-01-01"
    assert kept.diff is not None

    fuller = replace(full, errors=("x" * 500,) * 4)
    kept = GatewayReport.parse(fuller.json())
    assert (kept.history, kept.omitted[0]) == ((), "history")
    assert (kept.errors, kept.error_message) == (fuller.errors, fuller.error_message)
