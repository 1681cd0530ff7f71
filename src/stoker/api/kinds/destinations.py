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
    """When commits are pushed: at the limit that is reached first."""

    interval: Annotated[Duration | None, describe("Longest time between a commit and its push.")] = None
    max_commits: Annotated[Limit | None, describe("Number of unpushed commits that triggers a push.")] = None


class SigningSpec(Block):
    """The key that commits are signed with."""

    secret_ref: Annotated[
        LocalRef,
        describe(
            "A Secret with a private ssh key under ssh-privatekey (or identity); status shows its public key."
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
        describe("Branches that GitDestinations may write to, by full name."),
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
    suspend: Annotated[bool | None, describe("True stops all writes to this repository.")] = None


class GitRepoConfigStatus(ConditionedStatus):
    """Whether the repository is usable."""

    signing_public_key: Annotated[
        Annotated[str, text_bounds(4096)] | None,
        describe("Public key of the signing key, in the format of forges and of ssh's allowed signers file."),
    ] = None


class GitRepoConfig(CustomResource):
    """A git repository to which the reverser may write objects of the cluster."""

    api_version: Literal["configbutler.ai/v1alpha1"] = declared_default("configbutler.ai/v1alpha1")
    kind: Literal["GitRepoConfig"] = declared_default("GitRepoConfig")
    spec: Annotated[GitRepoConfigSpec, describe("The repository and the branches that may be written.")]
    status: Annotated[
        GitRepoConfigStatus | None, describe("Whether the repository is usable; written by the reverser.")
    ] = None


class EncryptionSpec(Block):
    """Recipients of encrypted Secrets."""

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
    """When changes are committed: at the limit that is reached first."""

    max_files: Annotated[Limit | None, describe("Maximum number of files in one commit.")] = None
    max_bytes: Annotated[SizeQuantity | None, describe("Maximum total content of one commit.")] = None
    max_wait: Annotated[Duration | None, describe("Longest time between a change and its commit.")] = None


class FileDeletionBudget(Block):
    """How many files may be deleted within ten minutes; beyond either limit deletions are held."""

    files: Annotated[Count | None, describe("Number of files; 50 if left out.")] = None
    percent: Annotated[
        Percent | None,
        describe(
            "Percentage of the destination's files, checked from the eleventh deletion on; 50 if left out."
        ),
    ] = None


class CommitSpec(Block):
    """Format of commits."""

    template: Annotated[
        Annotated[str, text_bounds(4096)] | None,
        describe(
            "Commit message, with fields such as {{.Operation}}, {{.Resource}}, {{.Namespace}} and "
            "{{.Name}}. Trailers are always added."
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
        RefName, describe("Branch to write to; spec.allowedBranches of the GitRepoConfig must list it.")
    ]
    base_folder: Annotated[
        CleanPath,
        describe(
            "Folder that this destination owns; no other destination may own a folder inside or above it."
        ),
    ]
    exclusive_mode: Annotated[
        bool,
        describe("True refuses a folder that belongs to another cluster or installation; false only warns."),
    ] = declared_default(False)
    prune: Annotated[
        Literal["Always", "OnEvent", "Never"],
        describe(
            "When a file is deleted. Always: when its object no longer exists, whether a watch event or a "
            "list shows it. OnEvent: only on a watch event. Never: files are kept. status.orphansKept counts "
            "kept files."
        ),
    ] = declared_default("Always")
    deletion_budget: Annotated[
        FileDeletionBudget | None,
        describe(
            "How many files may be deleted within ten minutes without approval. Beyond it deletions are held "
            "until the annotation approved-plan names the plan's digest; writes continue."
        ),
    ] = None
    secret_policy: Annotated[
        Literal["Include", "Redact", "Encrypt", "Exclude"],
        describe(
            "How Secrets are written, if the reverser was started with --include-secrets. Exclude: not at "
            "all. Redact: without their values. Encrypt: for the recipients. Include: in clear text, with a "
            "warning. Secrets that the installation's own resources name are never written."
        ),
    ] = declared_default("Exclude")
    encryption: Annotated[EncryptionSpec | None, describe("Recipients of encrypted Secrets.")] = None
    batch: Annotated[BatchSpec | None, describe("When changes are committed.")] = None
    commit: Annotated[CommitSpec | None, describe("Format of commits.")] = None
    allowed_namespaces: Annotated[
        _AllowedNamespaces | None,
        describe(
            "Other namespaces whose WatchRules may write here; * allows all. Left out: only its own "
            "namespace. ClusterWatchRules belong to cluster administrators and need no entry."
        ),
    ] = None
    suspend: Annotated[bool | None, describe("True stops all writes to this destination.")] = None


class WrittenCommit(Block):
    """A pushed commit."""

    commit: Annotated[Annotated[str, text_bounds(64)], describe("Id of the commit.")]
    author: Annotated[
        Annotated[str, text_bounds(253)] | None, describe("Author of the changes in it; absent if unknown.")
    ] = None
    subject: Annotated[
        Annotated[str, text_bounds(256)] | None, describe("The first line of its message.")
    ] = None
    time: Annotated[Timestamp | None, describe("When it was pushed.")] = None
    waited: Annotated[
        Annotated[str, text_bounds(32)] | None,
        describe("Time from the first observed change in it to the push, such as 1.9s."),
    ] = None


MAX_APPROVALS = 64
"""How many digests of the annotation approved-plan count, the last ones."""


class HeldDeletions(Block):
    """Deletions beyond the budget, waiting for approval."""

    count: Annotated[Count, describe("Number of files that would be deleted.")]
    digest: Annotated[Annotated[str, text_bounds(64)], describe("Value for the annotation approved-plan.")]
    paths: Annotated[
        Annotated[tuple[Annotated[str, text_bounds(4096)], ...], list_bounds(10)] | None,
        describe("The first of these files, sorted by name."),
    ] = None


class WrittenFolder(Block):
    """A folder that a destination writes."""

    repository: Annotated[str, text_bounds(2048), describe("Host and path of the repository, normalized.")]
    branch: Annotated[str, text_bounds(255), describe("The branch.")]
    base_folder: Annotated[str, text_bounds(4096), describe("The folder on the branch.")]


class GitDestinationStatus(ConditionedStatus):
    """What the reverser wrote to git."""

    folder: Annotated[
        WrittenFolder | None,
        describe(
            "The folder that this destination writes. Another destination with an overlapping folder is "
            "refused, even an older one that was changed to point there later."
        ),
    ] = None
    last_commit: Annotated[Annotated[str, text_bounds(64)] | None, describe("The newest pushed commit.")] = (
        None
    )
    last_push_time: Annotated[Timestamp | None, describe("When it was pushed.")] = None
    recent_commits: Annotated[
        Annotated[tuple[WrittenCommit, ...], list_bounds(10)] | None,
        describe(
            "The last pushed commits of this destination, newest first.",
            stability="experimental",
        ),
    ] = None
    pending_changes: Annotated[
        Count | None,
        describe(
            "Number of observed changes that are not in git yet; very recent ones are not counted.",
            stability="experimental",
        ),
    ] = None
    pending_since: Annotated[
        Timestamp | None,
        describe("When the oldest of them was observed.", stability="experimental"),
    ] = None
    orphans_kept: Annotated[
        Count | None,
        describe(
            "Number of files kept although their objects no longer exist: by the prune policy, because the "
            "folder's marker names another installation, or because the file does not describe that object."
        ),
    ] = None
    held_deletions: Annotated[
        HeldDeletions | None, describe("Deletions waiting for approval; absent: none.")
    ] = None
    approvals_used: Annotated[
        Annotated[tuple[Annotated[str, text_bounds(64)], ...], list_bounds(MAX_APPROVALS)] | None,
        describe(
            "Digests in the annotation approved-plan that were used. An approval is valid once: to approve "
            "the same plan again, remove its digest from the annotation first."
        ),
    ] = None


class GitDestination(CustomResource):
    """A folder on a branch of a repository that rules write to."""

    api_version: Literal["configbutler.ai/v1alpha1"] = declared_default("configbutler.ai/v1alpha1")
    kind: Literal["GitDestination"] = declared_default("GitDestination")
    spec: Annotated[GitDestinationSpec, describe("A folder on a branch, owned by this cluster.")]
    status: Annotated[
        GitDestinationStatus | None, describe("What the reverser wrote to git; written by the reverser.")
    ] = None
