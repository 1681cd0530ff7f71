"""Gates before a sync: deletion budget, validation, drift, windows, rate limit, approval; and alerting."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from stoker.api.field_docs import Block, FieldRule, describe, list_bounds, matches_pattern, text_bounds
from stoker.api.meta import SecretKeyRef
from stoker.api.scalars import Count, Duration, Glob, HttpUrl, HttpUrlOrEmpty, JsonPointer, Limit, Percent


class DeletionBudgetSpec(Block):
    """How many files one sync may delete; above either limit the sync stalls until its plan is approved."""

    files: Annotated[Count | None, describe("Number of files that may be deleted.")] = None
    percent: Annotated[
        Percent | None,
        describe("Percentage of the managed files that may be deleted; ignored for up to 10 files."),
    ] = None


class ValidationWebhookSpec(Block):
    """A service that approves or refuses each sync."""

    url: Annotated[
        HttpUrlOrEmpty | None,
        describe("Address that receives commit, ref, gateway and changed files; empty: none."),
    ] = None
    timeout: Annotated[
        Duration | None, describe("How long to wait for the answer; no answer counts as a refusal.")
    ] = None


class ValidationSpec(Block):
    """Checks before anything is written."""

    dry_run_before: Annotated[bool | None, describe("Compute and report changes without writing them.")] = (
        None
    )
    webhook: Annotated[ValidationWebhookSpec | None, describe("A service that can refuse a sync.")] = None


class DriftIgnoreSpec(Block):
    """A difference that is not drift."""

    path: Annotated[
        Glob, describe("Files in which differences are ignored, as a glob below the data folder.")
    ]
    json_pointer: Annotated[
        JsonPointer | None,
        describe("Ignore only the value at this JSON pointer. Left out: the whole file."),
    ] = None


class DriftSpec(Block):
    """What happens when another process or user changes files on the gateway."""

    mode: Annotated[
        Literal["off", "report", "restore", "capture"] | None,
        describe(
            "off: do not check. report: report drift in the status. restore: write the last synced files "
            "again. capture: propose the change to git (needs bidirectional)."
        ),
    ] = None
    interval: Annotated[Duration | None, describe("Time between two checks.")] = None
    ignore: Annotated[
        Annotated[tuple[DriftIgnoreSpec, ...], list_bounds(128)] | None,
        describe("Differences that are not drift."),
    ] = None


class MaintenanceWindowSpec(Block):
    """A time window in which gateways may be changed."""

    cron: Annotated[
        str,
        text_bounds(
            128,
            matches_pattern(
                r"([0-9A-Za-z*,/-]+ +){4}[0-9A-Za-z*,/-]+",
                "must be a cron expression of five fields, as 0 2 * * 6",
            ),
        ),
        describe("When the window opens: minute, hour, day of month, month, day of week."),
    ]
    duration: Annotated[Duration, describe("How long it stays open.")]
    time_zone: Annotated[
        Annotated[
            str,
            text_bounds(
                64, matches_pattern(r"[A-Za-z][A-Za-z0-9_+/-]*", "must be a time zone such as Europe/Berlin")
            ),
        ]
        | None,
        describe("Name of the time zone in which the cron expression is read."),
    ] = None


MaintenanceWindowList = Annotated[tuple[MaintenanceWindowSpec, ...], list_bounds(64)]


class RateLimitSpec(Block):
    """Limits on the number and rate of syncs."""

    max_concurrent_syncs: Annotated[
        Limit | None,
        describe("Gateways that sync at the same time. Left out: half of the gateways, at least one."),
    ] = None
    max_syncs_per_minute: Annotated[Limit | None, describe("Syncs that are started per minute.")] = None
    burst_limit: Annotated[
        Limit | None, describe("Burst: syncs that may start at once after a time without syncs.")
    ] = None


class ApprovalWebhookSpec(Block):
    """A service that is notified of pending approvals."""

    url: Annotated[
        HttpUrlOrEmpty | None,
        describe("Address that is called when a commit is waiting for approval; empty: none."),
    ] = None


class ApprovalSpec(Block):
    """Approval of new commits by a user."""

    required: Annotated[
        bool | None,
        describe(
            "Hold a new commit until the annotations approved-by, approved-at and approved-ref name it."
        ),
    ] = None
    timeout: Annotated[
        Duration | None, describe("Time after which a request without an approval expires.")
    ] = None
    teams: Annotated[
        Annotated[tuple[Annotated[str, text_bounds(128, least=1)], ...], list_bounds(64)] | None,
        describe("Teams whose members may approve."),
    ] = None
    webhook: Annotated[
        ApprovalWebhookSpec | None, describe("A service that is notified of pending approvals.")
    ] = None


_EventNames = Annotated[
    tuple[
        Annotated[
            str,
            text_bounds(
                64, matches_pattern(r"[A-Z][A-Za-z0-9]*", "must be the reason of an event such as SyncFailed")
            ),
        ],
        ...,
    ],
    list_bounds(64),
]


class AlertWebhookSpec(Block):
    """A service that receives alerts."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "self.type == 'pagerduty' || has(self.url) != has(self.urlSecretRef)",
            "url or urlSecretRef must be given, one of the two, for the types slack, teams and webhook",
            lambda it: it.type == "pagerduty" or (it.url is None) != (it.url_secret_ref is None),
        ),
        FieldRule(
            "self.type != 'pagerduty' || has(self.integrationKey) != has(self.integrationKeySecretRef)",
            "integrationKey or integrationKeySecretRef must be given, one of the two, for the type pagerduty",
            lambda it: (
                it.type != "pagerduty"
                or (it.integration_key is None) != (it.integration_key_secret_ref is None)
            ),
        ),
    )

    type: Annotated[Literal["slack", "pagerduty", "teams", "webhook"], describe("Type of the service.")]
    url: Annotated[
        HttpUrl | None,
        describe(
            "Address of the service. It usually contains a secret: prefer urlSecretRef; admission returns a "
            "warning."
        ),
    ] = None
    url_secret_ref: Annotated[SecretKeyRef | None, describe("Address of the service, from a Secret.")] = None
    integration_key: Annotated[
        Annotated[str, text_bounds(256, least=1)] | None,
        describe("Key of the PagerDuty integration. It is a secret: prefer integrationKeySecretRef."),
    ] = None
    integration_key_secret_ref: Annotated[
        SecretKeyRef | None, describe("Key of the PagerDuty integration, from a Secret.")
    ] = None
    on: Annotated[
        _EventNames | None,
        describe(
            "Reasons of the events that are sent, such as SyncFailed, ScanFailure and AutoRollback. Left "
            "out: every warning. In YAML the name of this field needs quotes."
        ),
    ] = None
    on_unquoted: Annotated[
        _EventNames | None,
        describe(
            "Alias of `on`: kubectl sends this name if `on` is written without quotes (YAML 1.1 reads it "
            "as true)."
        ),
    ] = msgspec.field(default=None, name="true")


class AlertingSpec(Block):
    """Services that receive alerts."""

    enabled: Annotated[bool | None, describe("True sends alerts.")] = None
    webhooks: Annotated[
        Annotated[tuple[AlertWebhookSpec, ...], list_bounds(32)] | None,
        describe("The services that receive alerts.", stability="experimental"),
    ] = None
