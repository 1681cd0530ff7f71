"""Where the reverser writes the state of the cluster: `GitRepoConfig` and `GitDestination`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal

from stoker.api.field_docs import (
    Block,
    FieldRule,
    declared_default,
    describe,
    list_bounds,
    matches_pattern,
    text_bounds,
)
from stoker.api.kinds.resource import ConditionedStatus, CustomResource
from stoker.api.meta import LocalRef, NamespacedRef
from stoker.api.scalars import (
    CleanPath,
    Count,
    Duration,
    Limit,
    Percent,
    RefName,
    RepoAddress,
    SizeQuantity,
    Timestamp,
)

GROUP = "configbutler.ai"

_AllowedNamespaces = Annotated[
    tuple[
        Annotated[
            str,
            text_bounds(
                63,
                matches_pattern(
                    r"[*]|[a-z0-9]([-a-z0-9]*[a-z0-9])?", "must be a namespace, or * for all of them"
                ),
                least=1,
            ),
        ],
        ...,
    ],
    list_bounds(256, unique=True),
]


def allows_namespace(owner: str, namespace: str, allowed: Collection[str] | None) -> bool:
    """Return whether objects of `owner` with this `allowedNamespaces` may be used from `namespace`."""
    return owner == namespace or not {namespace, "*"}.isdisjoint(allowed or ())


class PushStrategy(Block):
    """When commits are pushed; whichever limit is reached first."""

    interval: Annotated[Duration | None, describe("Longest time that a commit waits for its push.")] = None
    max_commits: Annotated[Limit | None, describe("Most commits that wait for a push.")] = None


class SigningSpec(Block):
    """The key that commits are signed with."""

    secret_ref: Annotated[
        LocalRef,
        describe(
            "A Secret with a private ssh key under ssh-privatekey (or identity); status shows its public "
            "half."
        ),
    ]


class GitRepoConfigSpec(Block):
    """A repository and the branches that may be written."""

    repo_url: Annotated[
        RepoAddress,
        describe(
            "The repository: https://, http://, ssh://, git@host:path or file:///path. No credentials here."
        ),
    ]
    allowed_branches: Annotated[
        Annotated[tuple[RefName, ...], list_bounds(64, least=1, unique=True)],
        describe("Branches that destinations may write to, by their full names."),
    ]
    secret_ref: Annotated[
        LocalRef | None,
        describe(
            "A Secret to log in with. Keys: username and password, or token, or ssh-privatekey (also "
            "identity) "
            "with known_hosts."
        ),
    ] = None
    push: Annotated[PushStrategy | None, describe("When commits are pushed.")] = None
    signing: Annotated[
        SigningSpec | None, describe("Sign every commit. Left out: commits are not signed.")
    ] = None
    allowed_namespaces: Annotated[
        _AllowedNamespaces | None,
        describe(
            "Other namespaces whose GitDestinations may write here with this login and signing key; * allows "
            "all. Left out: only its own namespace."
        ),
    ] = None
    suspend: Annotated[bool | None, describe("True stops all writing to this repository.")] = None


class GitRepoConfigStatus(ConditionedStatus):
    """Whether the repository can be used."""

    signing_public_key: Annotated[
        Annotated[str, text_bounds(4096)] | None,
        describe("Public half of the signing key, in the form that forges and allowed signers take."),
    ] = None


class GitRepoConfig(CustomResource):
    """A git repository that the state of the cluster may be written to."""

    api_version: Literal["configbutler.ai/v1alpha1"] = declared_default("configbutler.ai/v1alpha1")
    kind: Literal["GitRepoConfig"] = declared_default("GitRepoConfig")
    spec: Annotated[GitRepoConfigSpec, describe("The repository and the branches that may be written.")]
    status: Annotated[
        GitRepoConfigStatus | None, describe("Whether the repository can be used; written by the reverser.")
    ] = None


class EncryptionSpec(Block):
    """Who can read encrypted Secrets."""

    recipients: Annotated[
        Annotated[
            tuple[
                Annotated[
                    str,
                    text_bounds(
                        128, matches_pattern(r"age1[0-9a-z]{10,120}", "must be an age recipient: age1…")
                    ),
                ],
                ...,
            ],
            list_bounds(64, least=1, unique=True),
        ],
        describe("Public keys of age, such as age1…; each of them can decrypt the files."),
    ]


class BatchSpec(Block):
    """When changes become a commit; whichever limit is reached first."""

    max_files: Annotated[Limit | None, describe("Most files in one commit.")] = None
    max_bytes: Annotated[SizeQuantity | None, describe("Most content in one commit.")] = None
    max_wait: Annotated[Duration | None, describe("Longest time that a change waits for its commit.")] = None


class FileDeletionBudget(Block):
    """How many files may be deleted within ten minutes; beyond either limit deletions are held."""

    files: Annotated[Count | None, describe("Number of files; 50 if left out.")] = None
    percent: Annotated[
        Percent | None,
        describe(
            "Share of the destination's files in percent, from the eleventh deletion on; 50 if left out."
        ),
    ] = None


class CommitSpec(Block):
    """What commits look like."""

    template: Annotated[
        Annotated[str, text_bounds(4096)] | None,
        describe(
            "Message of a commit, with fields such as {{.Operation}}, {{.Resource}}, {{.Namespace}} and "
            "{{.Name}}. "
            "Trailers are added in any case."
        ),
    ] = None


_ENCRYPTING = ("Encrypt",)


class GitDestinationSpec(Block):
    """A folder on a branch, owned by this cluster."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "self.secretPolicy != 'Encrypt' || has(self.encryption)",
            "encryption.recipients must be given when secretPolicy is Encrypt",
            lambda it: it.encryption is not None or it.secret_policy not in _ENCRYPTING,
            at="encryption",
        ),
    )

    repo_ref: Annotated[NamespacedRef, describe("The GitRepoConfig of the repository.")]
    branch: Annotated[
        RefName, describe("Branch to write to; it must be among the allowed ones of the repository.")
    ]
    base_folder: Annotated[
        CleanPath,
        describe("Folder that this destination owns; no other destination may lie inside or around it."),
    ]
    exclusive_mode: Annotated[
        bool,
        describe(
            "Whether a folder that belongs to another cluster or installation is refused. If not, a warning "
            "is given."
        ),
    ] = declared_default(False)
    prune: Annotated[
        Literal["Always", "OnEvent", "Never"],
        describe(
            "When a file is deleted. Always: when its object is gone, however that is noticed. OnEvent: only "
            "when the "
            "deletion was seen. Never: it stays. What was kept is counted in status."
        ),
    ] = declared_default("Always")
    deletion_budget: Annotated[
        FileDeletionBudget | None,
        describe(
            "How many files may be deleted within ten minutes without approval. Beyond it deletions are held "
            "until the annotation approved-plan names the plan's digest; writes go on."
        ),
    ] = None
    secret_policy: Annotated[
        Literal["Include", "Redact", "Encrypt", "Exclude"],
        describe(
            "How Secrets are written, where the installation reads Secrets at all. Exclude: not at all. "
            "Redact: without their values. Encrypt: for the recipients. Include: in clear, with a warning. "
            "Secrets that the installation's own resources name are never written."
        ),
    ] = declared_default("Exclude")
    encryption: Annotated[EncryptionSpec | None, describe("Who can read encrypted Secrets.")] = None
    batch: Annotated[BatchSpec | None, describe("When changes become a commit.")] = None
    commit: Annotated[CommitSpec | None, describe("What commits look like.")] = None
    allowed_namespaces: Annotated[
        _AllowedNamespaces | None,
        describe(
            "Other namespaces whose WatchRules may write here; * allows all. Left out: only its own "
            "namespace. ClusterWatchRules are the cluster administrator's and need no entry."
        ),
    ] = None
    suspend: Annotated[bool | None, describe("True stops all writing to this destination.")] = None


class WrittenCommit(Block):
    """A commit that was pushed."""

    commit: Annotated[Annotated[str, text_bounds(64)], describe("Id of the commit.")]
    author: Annotated[
        Annotated[str, text_bounds(253)] | None, describe("Who made the changes in it; absent when unknown.")
    ] = None
    subject: Annotated[
        Annotated[str, text_bounds(256)] | None, describe("The first line of its message.")
    ] = None
    time: Annotated[Timestamp | None, describe("When it was pushed.")] = None
    waited: Annotated[
        Annotated[str, text_bounds(32)] | None,
        describe("How long the first of its changes had been seen by then, such as 1.9s."),
    ] = None


MAX_APPROVALS = 64
"""How many digests of the annotation approved-plan count, the last ones."""


class HeldDeletions(Block):
    """Deletions beyond the budget; they wait for an approval."""

    count: Annotated[Count, describe("How many files would be deleted.")]
    digest: Annotated[Annotated[str, text_bounds(64)], describe("Value for the annotation approved-plan.")]
    paths: Annotated[
        Annotated[tuple[Annotated[str, text_bounds(4096)], ...], list_bounds(10)] | None,
        describe("The first of the files, in the order of their names."),
    ] = None


class WrittenFolder(Block):
    """A folder that a destination writes."""

    repository: Annotated[
        str, text_bounds(2048), describe("Host and path of the repository, in one spelling.")
    ]
    branch: Annotated[str, text_bounds(255), describe("The branch.")]
    base_folder: Annotated[str, text_bounds(4096), describe("The folder on it.")]


class GitDestinationStatus(ConditionedStatus):
    """What was written."""

    folder: Annotated[
        WrittenFolder | None,
        describe(
            "The folder that it writes. Another destination whose folder overlaps it is refused, also an "
            "older one that points there only later."
        ),
    ] = None
    last_commit: Annotated[
        Annotated[str, text_bounds(64)] | None, describe("The newest commit that was pushed.")
    ] = None
    last_push_time: Annotated[Timestamp | None, describe("When it was pushed.")] = None
    recent_commits: Annotated[
        Annotated[tuple[WrittenCommit, ...], list_bounds(10)] | None,
        describe(
            "The last commits of this destination that were pushed, the newest first.",
            stability="experimental",
        ),
    ] = None
    pending_changes: Annotated[
        Count | None,
        describe(
            "Changes that were seen and are not in git yet, as far as they have waited for a moment.",
            stability="experimental",
        ),
    ] = None
    pending_since: Annotated[
        Timestamp | None,
        describe("When the first of them was seen.", stability="experimental"),
    ] = None
    orphans_kept: Annotated[
        Count | None,
        describe(
            "Files whose objects are gone and that stay: by the prune policy, because the folder's marker "
            "names another installation, or because the file does not describe that object."
        ),
    ] = None
    held_deletions: Annotated[
        HeldDeletions | None, describe("Deletions that wait for an approval; absent: none.")
    ] = None
    approvals_used: Annotated[
        Annotated[tuple[Annotated[str, text_bounds(64)], ...], list_bounds(MAX_APPROVALS)] | None,
        describe(
            "Digests in the annotation approved-plan whose deletions are in git. Each counts once: to give "
            "one again, remove it from the annotation first."
        ),
    ] = None


class GitDestination(CustomResource):
    """A folder on a branch of a repository that rules write to."""

    api_version: Literal["configbutler.ai/v1alpha1"] = declared_default("configbutler.ai/v1alpha1")
    kind: Literal["GitDestination"] = declared_default("GitDestination")
    spec: Annotated[GitDestinationSpec, describe("A folder on a branch, owned by this cluster.")]
    status: Annotated[GitDestinationStatus | None, describe("What was written; written by the reverser.")] = (
        None
    )
