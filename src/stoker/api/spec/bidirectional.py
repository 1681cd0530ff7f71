"""Bidirectional sync, from changes on a gateway to git: `spec.bidirectional`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from stoker.api.field_docs import Block, FieldRule, describe, list_bounds, text_bounds
from stoker.api.meta import SecretKeyRef
from stoker.api.scalars import BranchTemplate, Duration, GlobList, HttpUrl, Limit, SizeQuantity


class GuardrailSpec(Block):
    """What never flows back."""

    max_file_size: Annotated[SizeQuantity | None, describe("Largest file that is sent to git.")] = None
    max_files_per_pr: Annotated[Limit | None, describe("Most files in one pull request.")] = msgspec.field(
        default=None, name="maxFilesPerPR"
    )
    exclude_patterns: Annotated[GlobList | None, describe("Files that are never sent to git, as globs.")] = (
        None
    )


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

    type: Annotated[Literal["github", "gitlab", "gitea"], describe("What kind of service it is.")]
    url: Annotated[
        HttpUrl | None, describe("Address of the service; left out: that of the host in git.repo.")
    ] = None
    token_secret_ref: Annotated[
        SecretKeyRef | None,
        describe("Token that may open pull requests. Left out: the credentials of git.auth."),
    ] = None


class BidirectionalSpec(Block):
    """How changes on a gateway become commits or pull requests."""

    enabled: Annotated[bool | None, describe("Whether anything flows back.")] = None
    watch_paths: Annotated[
        GlobList | None,
        describe("What may flow back, as globs below the data folder; nothing else ever does."),
    ] = None
    target_branch: Annotated[
        BranchTemplate | None,
        describe("Branch that changes are pushed to, with fields such as {{.Namespace}}."),
    ] = None
    debounce: Annotated[Duration | None, describe("Quiet time after the last change before it is sent.")] = (
        None
    )
    create_pr: Annotated[bool | None, describe("Whether a pull request is opened for the branch.")] = (
        msgspec.field(default=None, name="createPR")
    )
    pr_labels: Annotated[
        Annotated[tuple[Annotated[str, text_bounds(128, least=1)], ...], list_bounds(32)] | None,
        describe("Labels of the pull request."),
    ] = None
    conflict_strategy: Annotated[
        Literal["gitWins", "gatewayWins", "manual"] | None,
        describe(
            "When both sides changed a file. gitWins: git overwrites the gateway, the change stays in its "
            "pull "
            "request. gatewayWins: syncs of that file wait for the pull request. manual: a person decides."
        ),
    ] = None
    guardrails: Annotated[GuardrailSpec | None, describe("What never flows back.")] = None
    forge: Annotated[
        ForgeSpec | None,
        describe("The service that holds pull requests; left out: told from git.repo where possible."),
    ] = None
