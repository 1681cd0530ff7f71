"""Gates in front of a sync: what may be deleted, when, how fast, and who is asked or told."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from stoker.api.field_docs import Block, FieldRule, about, items, matching, text
from stoker.api.meta import SecretKeyRef
from stoker.api.scalars import Count, Duration, Glob, HttpUrl, HttpUrlOrEmpty, JsonPointer, Limit, Percent


class DeletionBudgetSpec(Block):
    """How much one sync may delete; more than either limit stalls until the plan is approved."""

    files: Annotated[Count | None, about("Number of files that may be deleted.")] = None
    percent: Annotated[
        Percent | None,
        about(
            "Share of the managed files that may be deleted, in percent; not looked at for up to 10 files."
        ),
    ] = None


class ValidationWebhookSpec(Block):
    """A service that is asked before each sync."""

    url: Annotated[
        HttpUrlOrEmpty | None,
        about("Address that gets commit, ref, gateway and changed files; empty: nobody."),
    ] = None
    timeout: Annotated[Duration | None, about("How long to wait for the answer; silence is a refusal.")] = (
        None
    )


class ValidationSpec(Block):
    """Checks before anything is written."""

    dry_run_before: Annotated[
        bool | None, about("Compute and report what would change, and write nothing.")
    ] = None
    webhook: Annotated[
        ValidationWebhookSpec | None, about("A service of your own that may refuse a sync.")
    ] = None


class DriftIgnoreSpec(Block):
    """A difference that is not drift."""

    path: Annotated[Glob, about("Files in which differences are ignored, as a glob below the data folder.")]
    json_pointer: Annotated[
        JsonPointer | None,
        about("Only the value at this JSON pointer is ignored; left out: the whole file."),
    ] = None


class DriftSpec(Block):
    """What happens when files on the gateway are changed by somebody else."""

    mode: Annotated[
        Literal["off", "report", "restore", "capture"] | None,
        about(
            "off: do not look. report: say so. restore: bring back what was synced last. "
            "capture: send the change to git (needs bidirectional)."
        ),
    ] = None
    interval: Annotated[Duration | None, about("Pause between two comparisons.")] = None
    ignore: Annotated[
        Annotated[tuple[DriftIgnoreSpec, ...], items(128)] | None, about("Differences that do not count.")
    ] = None


class MaintenanceWindowSpec(Block):
    """A time in which gateways may be changed."""

    cron: Annotated[
        str,
        text(
            128,
            matching(
                r"([0-9A-Za-z*,/-]+ +){4}[0-9A-Za-z*,/-]+",
                "must be a cron expression of five fields, as 0 2 * * 6",
            ),
        ),
        about("When the window opens: minute, hour, day of month, month, day of week."),
    ]
    duration: Annotated[Duration, about("How long it stays open.")]
    time_zone: Annotated[
        Annotated[
            str, text(64, matching(r"[A-Za-z][A-Za-z0-9_+/-]*", "must be a time zone such as Europe/Berlin"))
        ]
        | None,
        about("Name of the time zone in which the cron expression is read."),
    ] = None


MaintenanceWindowList = Annotated[tuple[MaintenanceWindowSpec, ...], items(64)]


class RateLimitSpec(Block):
    """How many gateways sync at once and how fast."""

    max_concurrent_syncs: Annotated[
        Limit | None,
        about("Gateways that sync at the same time. Left out: half of the gateways, at least one."),
    ] = None
    max_syncs_per_minute: Annotated[Limit | None, about("Syncs that are started per minute.")] = None
    burst_limit: Annotated[Limit | None, about("Syncs that may start at once after a quiet time.")] = None


class ApprovalWebhookSpec(Block):
    """A service that is told about what waits for approval."""

    url: Annotated[
        HttpUrlOrEmpty | None, about("Address that is called when something waits for approval; empty: none.")
    ] = None


class ApprovalSpec(Block):
    """Whether a person has to agree to a new commit."""

    required: Annotated[
        bool | None,
        about("Hold a new commit until the annotations approved-by, approved-at and approved-ref name it."),
    ] = None
    timeout: Annotated[Duration | None, about("After this time a request that nobody approved lapses.")] = (
        None
    )
    teams: Annotated[
        Annotated[tuple[Annotated[str, text(128, least=1)], ...], items(64)] | None,
        about("Teams whose members may approve."),
    ] = None
    webhook: Annotated[ApprovalWebhookSpec | None, about("A service that is told about open requests.")] = (
        None
    )


_EventNames = Annotated[
    tuple[
        Annotated[
            str, text(64, matching(r"[A-Z][A-Za-z0-9]*", "must be the reason of an event such as SyncFailed"))
        ],
        ...,
    ],
    items(64),
]


class AlertWebhookSpec(Block):
    """Somebody to tell."""

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

    type: Annotated[Literal["slack", "pagerduty", "teams", "webhook"], about("What kind of service is told.")]
    url: Annotated[
        HttpUrl | None,
        about(
            "Address of the service. It usually holds a secret: urlSecretRef is better, and a Warning says "
            "so."
        ),
    ] = None
    url_secret_ref: Annotated[SecretKeyRef | None, about("Address of the service, from a Secret.")] = None
    integration_key: Annotated[
        Annotated[str, text(256, least=1)] | None,
        about("Key of the PagerDuty integration. It is a secret: integrationKeySecretRef is better."),
    ] = None
    integration_key_secret_ref: Annotated[
        SecretKeyRef | None, about("Key of the PagerDuty integration, from a Secret.")
    ] = None
    on: Annotated[
        _EventNames | None,
        about(
            "Reasons of the events to tell about, such as SyncFailed, ScanFailure and AutoRollback; left "
            "out: "
            "every warning. In YAML the name of this field needs quotes."
        ),
    ] = None
    on_unquoted: Annotated[
        _EventNames | None,
        about(
            "What kubectl makes of `on` written without quotes (YAML 1.1 reads it as true); the same list."
        ),
    ] = msgspec.field(default=None, name="true")


class AlertingSpec(Block):
    """Who is told about what goes wrong."""

    enabled: Annotated[bool | None, about("Whether anybody is told.")] = None
    webhooks: Annotated[
        Annotated[tuple[AlertWebhookSpec, ...], items(32)] | None,
        about(
            "The services that are told; what they can be told is still growing.", stability="experimental"
        ),
    ] = None
