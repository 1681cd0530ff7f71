"""Changes made on a gateway that flow back to git: `spec.bidirectional`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from stoker.api.field_docs import Block, FieldRule, about, items, text
from stoker.api.meta import SecretKeyRef
from stoker.api.scalars import BranchTemplate, Duration, GlobList, HttpUrl, Limit, SizeQuantity


class GuardrailSpec(Block):
    """What never flows back."""

    max_file_size: Annotated[SizeQuantity | None, about("Largest file that is sent to git.")] = None
    max_files_per_pr: Annotated[Limit | None, about("Most files in one pull request.")] = msgspec.field(
        default=None, name="maxFilesPerPR"
    )
    exclude_patterns: Annotated[GlobList | None, about("Files that are never sent to git, as globs.")] = None


class ForgeSpec(Block):
    """The service that holds pull requests."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "self.type != 'gitea' || has(self.url)",
            "url must be given for the type gitea",
            lambda it: it.type != "gitea" or it.url is not None,
            at="url",
        ),
    )

    type: Annotated[Literal["github", "gitlab", "gitea"], about("What kind of service it is.")]
    url: Annotated[
        HttpUrl | None, about("Address of the service; left out: that of the host in git.repo.")
    ] = None
    token_secret_ref: Annotated[
        SecretKeyRef | None,
        about("Token that may open pull requests. Left out: the credentials of git.auth."),
    ] = None


class BidirectionalSpec(Block):
    """How changes on a gateway become commits or pull requests."""

    enabled: Annotated[bool | None, about("Whether anything flows back.")] = None
    watch_paths: Annotated[
        GlobList | None, about("What may flow back, as globs below the data folder; nothing else ever does.")
    ] = None
    target_branch: Annotated[
        BranchTemplate | None, about("Branch that changes are pushed to, with fields such as {{.Namespace}}.")
    ] = None
    debounce: Annotated[Duration | None, about("Quiet time after the last change before it is sent.")] = None
    create_pr: Annotated[bool | None, about("Whether a pull request is opened for the branch.")] = (
        msgspec.field(default=None, name="createPR")
    )
    pr_labels: Annotated[
        Annotated[tuple[Annotated[str, text(128, least=1)], ...], items(32)] | None,
        about("Labels of the pull request."),
    ] = None
    conflict_strategy: Annotated[
        Literal["gitWins", "gatewayWins", "manual"] | None,
        about(
            "When both sides changed a file. gitWins: git overwrites the gateway, the change stays in its "
            "pull "
            "request. gatewayWins: syncs of that file wait for the pull request. manual: a person decides."
        ),
    ] = None
    guardrails: Annotated[GuardrailSpec | None, about("What never flows back.")] = None
    forge: Annotated[
        ForgeSpec | None,
        about("The service that holds pull requests; left out: told from git.repo where possible."),
    ] = None
