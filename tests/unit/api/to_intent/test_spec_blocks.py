"""The shared blocks: spellings become seconds, bytes, choices and places of secrets."""

from __future__ import annotations

import msgspec
import pytest

from stoker.api.kinds.stoker import Stoker
from stoker.api.to_intent import SettledResource, intent_for, merge_spec
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.delivery import AlertKind, RateLimitPolicy, RollbackTrigger, StagePolicy
from stoker.domain.intent.intent import Notice, ResourceIntent
from stoker.domain.intent.policies import MaintenanceWindowPolicy, SnapshotBucketPolicy, SnapshotStorageKind
from stoker.domain.intent.source import GitAuthKind, GitAuthPolicy, SecretKey
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.domain.secrets import HIDDEN, Secret

GIT = {"repo": "https://git.example.net/dairy.git", "ref": "main"}
REF = {"name": "n", "key": "k"}
KEY = SecretKey("n", "k")


def stoker(**spec: object) -> Stoker:
    document = {"metadata": {"name": "dairy", "namespace": "east"}, "spec": {"git": GIT, **spec}}
    return msgspec.convert(document, Stoker)


def intent(**spec: object) -> ResourceIntent:
    return intent_for(merge_spec(stoker(**spec)))


def test_durations_become_seconds_and_sizes_bytes() -> None:
    found = intent(
        polling={"interval": "1m30s"},
        ignition={"designerSessionTimeout": "2m"},
        bidirectional={"guardrails": {"maxFileSize": "5Mi"}},
        maintenanceWindows=[{"cron": "0 2 * * 6", "duration": "4h", "timeZone": "Europe/Berlin"}],
    )
    assert found.polling.interval == 90.0
    assert found.policies.ignition.designer_timeout == 120.0
    assert found.policies.bidirectional.max_file_bytes == 5 << 20
    assert found.policies.maintenance_windows == (
        MaintenanceWindowPolicy("0 2 * * 6", 14400.0, "Europe/Berlin"),
    )


# --- git ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auth", "meant"),
    [
        ({}, GitAuthPolicy()),
        ({"sshKey": {"secretRef": REF}}, GitAuthPolicy(GitAuthKind.SSH, KEY)),
        (
            {"sshKey": {"secretRef": REF, "knownHostsSecretRef": {"name": "h", "key": "known_hosts"}}},
            GitAuthPolicy(GitAuthKind.SSH, KEY, known_hosts=SecretKey("h", "known_hosts")),
        ),
        ({"token": {"secretRef": REF}}, GitAuthPolicy(GitAuthKind.TOKEN, KEY)),
        (
            {"basic": {"secretRef": {"name": "n"}}},
            GitAuthPolicy(GitAuthKind.BASIC, SecretKey("n", "password")),
        ),
        (
            {"githubApp": {"appId": 1, "installationId": 2, "privateKeySecretRef": REF}},
            GitAuthPolicy(GitAuthKind.GITHUB_APP, KEY, app_id=1, installation_id=2),
        ),
    ],
)
def test_a_login_is_one_of_its_kinds(auth: dict[str, object], meant: GitAuthPolicy) -> None:
    assert intent(git={**GIT, "auth": auth}).source.auth == meant


@pytest.mark.parametrize(("field", "value"), [("ref", "--upload-pack=x"), ("repo", "ext::sh -c x")])
def test_an_address_or_ref_that_git_would_run_is_refused_even_unsettled(field: str, value: str) -> None:
    with pytest.raises(InvalidValue):
        intent_for(SettledResource(stoker(git={**GIT, field: value})))


# --- delivery ----------------------------------------------------------------------------------------------


def test_stages_lose_the_method_before_an_address() -> None:
    stage = {"name": "pilot", "gateways": ["lab"], "postSyncWait": "30s"}
    found = intent(
        deployment={
            "strategy": "canary",
            "stages": [{**stage, "healthCheckUrl": "GET https://lab:8043/status", "requireApproval": True}],
        }
    )
    assert found.deployment.stages == (StagePolicy("pilot", ("lab",), 30.0, "https://lab:8043/status", True),)


def test_gateways_that_wait_for_each_other_in_a_circle_are_refused() -> None:
    order = [{"name": "a", "dependsOn": ["b"]}, {"name": "b", "dependsOn": ["a"]}]
    with pytest.raises(InvalidValue, match="gateway 'a' can never begin") as refusal:
        intent(deployment={"syncOrder": order})
    assert refusal.value.reason is Reason.DEPENDENCY_CYCLE


@pytest.mark.parametrize(
    ("block", "meant"),
    [
        ({"enabled": False, "triggers": ["configError"]}, ()),
        ({"enabled": True}, (RollbackTrigger.SCAN_FAILURE,)),
        ({"enabled": True, "triggers": ["configError"]}, (RollbackTrigger.CONFIG_ERROR,)),
    ],
)
@pytest.mark.parametrize("as_alias", [False, True])
def test_rollback_by_itself_happens_only_when_it_is_enabled(
    block: dict[str, object], meant: tuple[RollbackTrigger, ...], as_alias: bool
) -> None:
    spec = {"autoRollback": block} if as_alias else {"deployment": {"autoRollback": block}}
    assert intent(**spec).deployment.auto_rollback == meant


def test_a_limit_that_is_left_out_stays_open() -> None:
    assert intent().rate_limit is None
    assert intent(rateLimit={}).rate_limit == RateLimitPolicy()


def test_an_empty_rollback_asks_for_nothing() -> None:
    assert intent(rollback={"toSnapshot": "", "toCommit": ""}).rollback.to_commit is None
    assert intent(rollback={"toCommit": "a" * 40}).rollback.to_commit == CommitId("a" * 40)


def test_amounts_are_text_in_a_fixed_order() -> None:
    found = intent(agent={"resources": {"limits": {"memory": "1Gi", "cpu": 2}}}).agent
    assert found.limits == (("cpu", "2"), ("memory", "1Gi"))
    assert found.requests == (("cpu", "50m"), ("memory", "64Mi"))


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        (
            {"requests": {"memory": "512Mi"}},
            "requests.memory is 512Mi, more than agent.resources.limits.memory",
        ),
        ({"requests": {"cpu": 1}}, "requests.cpu is 1, more than agent.resources.limits.cpu, which is 200m"),
        ({"limits": {"cpu": "10m"}}, "requests.cpu is 50m, more than agent.resources.limits.cpu"),
        ({"requests": {"cpu": "1e3"}, "limits": {"cpu": "999"}}, "requests.cpu is 1e3"),
    ],
)
def test_a_request_above_its_limit_is_refused_before_a_pod_is(
    resources: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidValue, match=message):
        intent(agent={"resources": resources})


@pytest.mark.parametrize("memory", ["256Mi", "262144Ki", "268435456", "0.25Gi", "268M"])
def test_a_request_up_to_its_limit_is_fine(memory: str) -> None:
    assert (
        dict(intent(agent={"resources": {"requests": {"memory": memory}}}).agent.requests)["memory"] == memory
    )


# --- snapshots ---------------------------------------------------------------------------------------------

STORES = {
    "pvc": {"claimName": "snapshots"},
    "s3": {"bucket": "b", "keyPrefix": "p/", "region": "eu", "credentialsSecretRef": {"name": "c"}},
    "gcs": {"bucket": "g", "keyPrefix": "q/", "credentialsSecretRef": {"name": "d"}},
}


@pytest.mark.parametrize(
    ("kind", "claim", "bucket"),
    [
        ("pvc", "snapshots", SnapshotBucketPolicy()),
        ("s3", "", SnapshotBucketPolicy("b", "p/", region="eu", credentials_secret="c")),
        ("gcs", "", SnapshotBucketPolicy("g", "q/", credentials_secret="d")),
    ],
)
def test_the_type_of_the_storage_decides_which_block_counts(
    kind: str, claim: str, bucket: SnapshotBucketPolicy
) -> None:
    found = intent(snapshots={"storage": {"type": kind, **STORES}})
    snapshots = found.policies.snapshots
    assert (snapshots.storage, snapshots.claim_name, snapshots.bucket) == (
        SnapshotStorageKind(kind),
        claim,
        bucket,
    )
    unused = sorted(notice.message.split()[0] for notice in found.notices)
    assert unused == sorted(f"snapshots.storage.{other}" for other in STORES if other != kind)


def test_an_empty_block_for_another_storage_is_no_surprise() -> None:
    assert intent(snapshots={"storage": {"s3": {"bucket": "", "keyPrefix": ""}}}).notices == ()


# --- alarms ------------------------------------------------------------------------------------------------


def alarms(*webhooks: dict[str, object], enabled: bool = True) -> ResourceIntent:
    return intent(alerting={"enabled": enabled, "webhooks": list(webhooks)})


def test_alarms_point_at_their_secrets() -> None:
    found = alarms(
        {"type": "slack", "urlSecretRef": REF, "on": ["SyncFailed"]},
        {"type": "pagerduty", "integrationKeySecretRef": REF},
    )
    assert [(one.kind, one.on, one.secret) for one in found.alerts] == [
        (AlertKind.SLACK, ("SyncFailed",), KEY),
        (AlertKind.PAGERDUTY, (), KEY),
    ]
    assert found.notices == ()


def test_a_secret_in_the_spec_is_kept_hidden_and_noticed() -> None:
    found = alarms(
        {"type": "slack", "url": "https://hooks.example.net/T0K3N"},
        {"type": "pagerduty", "integrationKey": "K3Y"},
    )
    assert [one.inline for one in found.alerts] == [Secret("https://hooks.example.net/T0K3N"), Secret("K3Y")]
    assert [notice.reason for notice in found.notices] == [Reason.SECRET_IN_SPEC] * 2
    assert "T0K3N" not in repr(found)
    assert "K3Y" not in repr(found)
    assert HIDDEN in repr(found.alerts)


def test_alerts_that_are_off_send_nothing_but_are_still_noticed() -> None:
    found = alarms({"type": "slack", "url": "https://hooks.example.net/x"}, enabled=False)
    assert found.alerts == ()
    assert [notice.reason for notice in found.notices] == [Reason.SECRET_IN_SPEC]


def test_what_a_kind_of_alarm_has_no_use_for_is_noticed() -> None:
    found = alarms(
        {"type": "slack", "urlSecretRef": REF, "integrationKeySecretRef": REF},
        {"type": "pagerduty", "integrationKeySecretRef": REF, "urlSecretRef": REF},
    )
    assert found.notices == (
        Notice(
            Reason.FIELD_IGNORED,
            "alerting.webhooks[0].integrationKeySecretRef is not used for the type slack",
        ),
        Notice(Reason.FIELD_IGNORED, "alerting.webhooks[1].urlSecretRef is not used for the type pagerduty"),
    )
