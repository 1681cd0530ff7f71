"""Where the cluster is written to: `GitRepoConfig` and `GitDestination`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal

from stoker.api.field_docs import Block, FieldRule, about, declared, items, matching, text
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
            text(
                63,
                matching(r"[*]|[a-z0-9]([-a-z0-9]*[a-z0-9])?", "must be a namespace, or * for all of them"),
                least=1,
            ),
        ],
        ...,
    ],
    items(256, unique=True),
]


def allows_namespace(owner: str, namespace: str, allowed: Collection[str] | None) -> bool:
    """Whether what is in the owner's namespace, with this `allowedNamespaces`, may be used from another."""
    return owner == namespace or not {namespace, "*"}.isdisjoint(allowed or ())


class PushStrategy(Block):
    """When commits are pushed; whichever limit is reached first."""

    interval: Annotated[Duration | None, about("Longest time that a commit waits for its push.")] = None
    max_commits: Annotated[Limit | None, about("Most commits that wait for a push.")] = None


class SigningSpec(Block):
    """The key that commits are signed with."""

    secret_ref: Annotated[
        LocalRef,
        about(
            "A Secret with a private ssh key under ssh-privatekey (or identity); status shows its public "
            "half."
        ),
    ]


class GitRepoConfigSpec(Block):
    """A repository and the branches that may be written."""

    repo_url: Annotated[
        RepoAddress,
        about(
            "The repository: https://, http://, ssh://, git@host:path or file:///path. No credentials here."
        ),
    ]
    allowed_branches: Annotated[
        Annotated[tuple[RefName, ...], items(64, least=1, unique=True)],
        about("Branches that destinations may write to, by their full names."),
    ]
    secret_ref: Annotated[
        LocalRef | None,
        about(
            "A Secret to log in with. Keys: username and password, or token, or ssh-privatekey (also "
            "identity) "
            "with known_hosts."
        ),
    ] = None
    push: Annotated[PushStrategy | None, about("When commits are pushed.")] = None
    signing: Annotated[SigningSpec | None, about("Sign every commit. Left out: commits are not signed.")] = (
        None
    )
    allowed_namespaces: Annotated[
        _AllowedNamespaces | None,
        about(
            "Other namespaces whose GitDestinations may write here with this login and signing key; * allows "
            "all. Left out: only its own namespace."
        ),
    ] = None
    suspend: Annotated[bool | None, about("True stops all writing to this repository.")] = None


class GitRepoConfigStatus(ConditionedStatus):
    """Whether the repository can be used."""

    signing_public_key: Annotated[
        Annotated[str, text(4096)] | None,
        about("Public half of the signing key, in the form that forges and allowed signers take."),
    ] = None


class GitRepoConfig(CustomResource):
    """A git repository that the state of the cluster may be written to."""

    api_version: Literal["configbutler.ai/v1alpha1"] = declared("configbutler.ai/v1alpha1")
    kind: Literal["GitRepoConfig"] = declared("GitRepoConfig")
    spec: Annotated[GitRepoConfigSpec, about("The repository and the branches that may be written.")]
    status: Annotated[
        GitRepoConfigStatus | None, about("Whether the repository can be used; written by the reverser.")
    ] = None


class EncryptionSpec(Block):
    """Who can read encrypted Secrets."""

    recipients: Annotated[
        Annotated[
            tuple[
                Annotated[
                    str, text(128, matching(r"age1[0-9a-z]{10,120}", "must be an age recipient: age1…"))
                ],
                ...,
            ],
            items(64, least=1, unique=True),
        ],
        about("Public keys of age, such as age1…; each of them can decrypt the files."),
    ]


class BatchSpec(Block):
    """When changes become a commit; whichever limit is reached first."""

    max_files: Annotated[Limit | None, about("Most files in one commit.")] = None
    max_bytes: Annotated[SizeQuantity | None, about("Most content in one commit.")] = None
    max_wait: Annotated[Duration | None, about("Longest time that a change waits for its commit.")] = None


class FileDeletionBudget(Block):
    """How many files may be deleted within ten minutes; beyond either limit deletions are held."""

    files: Annotated[Count | None, about("Number of files; 50 if left out.")] = None
    percent: Annotated[
        Percent | None,
        about("Share of the destination's files in percent, from the eleventh deletion on; 50 if left out."),
    ] = None


class CommitSpec(Block):
    """What commits look like."""

    template: Annotated[
        Annotated[str, text(4096)] | None,
        about(
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

    repo_ref: Annotated[NamespacedRef, about("The GitRepoConfig of the repository.")]
    branch: Annotated[
        RefName, about("Branch to write to; it must be among the allowed ones of the repository.")
    ]
    base_folder: Annotated[
        CleanPath,
        about("Folder that this destination owns; no other destination may lie inside or around it."),
    ]
    exclusive_mode: Annotated[
        bool,
        about(
            "Whether a folder that belongs to another cluster or installation is refused. If not, a warning "
            "is given."
        ),
    ] = declared(False)
    prune: Annotated[
        Literal["Always", "OnEvent", "Never"],
        about(
            "When a file is deleted. Always: when its object is gone, however that is noticed. OnEvent: only "
            "when the "
            "deletion was seen. Never: it stays. What was kept is counted in status."
        ),
    ] = declared("Always")
    deletion_budget: Annotated[
        FileDeletionBudget | None,
        about(
            "How many files may be deleted within ten minutes without approval. Beyond it deletions are held "
            "until the annotation approved-plan names the plan's digest; writes go on."
        ),
    ] = None
    secret_policy: Annotated[
        Literal["Include", "Redact", "Encrypt", "Exclude"],
        about(
            "How Secrets are written, where the installation reads Secrets at all. Exclude: not at all. "
            "Redact: without their values. Encrypt: for the recipients. Include: in clear, with a warning. "
            "Secrets that the installation's own resources name are never written."
        ),
    ] = declared("Exclude")
    encryption: Annotated[EncryptionSpec | None, about("Who can read encrypted Secrets.")] = None
    batch: Annotated[BatchSpec | None, about("When changes become a commit.")] = None
    commit: Annotated[CommitSpec | None, about("What commits look like.")] = None
    allowed_namespaces: Annotated[
        _AllowedNamespaces | None,
        about(
            "Other namespaces whose WatchRules may write here; * allows all. Left out: only its own "
            "namespace. ClusterWatchRules are the cluster administrator's and need no entry."
        ),
    ] = None
    suspend: Annotated[bool | None, about("True stops all writing to this destination.")] = None


class WrittenCommit(Block):
    """A commit that was pushed."""

    commit: Annotated[Annotated[str, text(64)], about("Id of the commit.")]
    author: Annotated[
        Annotated[str, text(253)] | None, about("Who made the changes in it; absent: nobody knows.")
    ] = None
    subject: Annotated[Annotated[str, text(256)] | None, about("The first line of its message.")] = None
    time: Annotated[Timestamp | None, about("When it was pushed.")] = None
    waited: Annotated[
        Annotated[str, text(32)] | None,
        about("How long the first of its changes had been seen by then, such as 1.9s."),
    ] = None


class HeldDeletions(Block):
    """Deletions beyond the budget; they wait for an approval."""

    count: Annotated[Count, about("How many files would be deleted.")]
    digest: Annotated[Annotated[str, text(64)], about("Value for the annotation approved-plan.")]
    paths: Annotated[
        Annotated[tuple[Annotated[str, text(4096)], ...], items(10)] | None,
        about("The first of the files, in the order of their names."),
    ] = None


class WrittenFolder(Block):
    """A folder that a destination writes."""

    repository: Annotated[str, text(2048), about("Host and path of the repository, in one spelling.")]
    branch: Annotated[str, text(255), about("The branch.")]
    base_folder: Annotated[str, text(4096), about("The folder on it.")]


class GitDestinationStatus(ConditionedStatus):
    """What was written."""

    folder: Annotated[
        WrittenFolder | None,
        about(
            "The folder that it writes. Another destination whose folder overlaps it is refused, also an "
            "older one that points there only later."
        ),
    ] = None
    last_commit: Annotated[Annotated[str, text(64)] | None, about("The newest commit that was pushed.")] = (
        None
    )
    last_push_time: Annotated[Timestamp | None, about("When it was pushed.")] = None
    recent_commits: Annotated[
        Annotated[tuple[WrittenCommit, ...], items(10)] | None,
        about(
            "The last commits of this destination that were pushed, the newest first.",
            stability="experimental",
        ),
    ] = None
    pending_changes: Annotated[
        Count | None,
        about(
            "Changes that were seen and are not in git yet, as far as they have waited for a moment.",
            stability="experimental",
        ),
    ] = None
    pending_since: Annotated[
        Timestamp | None,
        about("When the first of them was seen.", stability="experimental"),
    ] = None
    orphans_kept: Annotated[
        Count | None,
        about(
            "Files whose objects are gone and that stay: by the prune policy, because the folder's marker "
            "names another installation, or because the file does not describe that object."
        ),
    ] = None
    held_deletions: Annotated[
        HeldDeletions | None, about("Deletions that wait for an approval; absent: none.")
    ] = None


class GitDestination(CustomResource):
    """A folder on a branch of a repository that rules write to."""

    api_version: Literal["configbutler.ai/v1alpha1"] = declared("configbutler.ai/v1alpha1")
    kind: Literal["GitDestination"] = declared("GitDestination")
    spec: Annotated[GitDestinationSpec, about("A folder on a branch, owned by this cluster.")]
    status: Annotated[GitDestinationStatus | None, about("What was written; written by the reverser.")] = None
