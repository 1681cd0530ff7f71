"""Bidirectional sync, from changes on a gateway to git: `spec.bidirectional`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from stoker.api.field_docs import Block, FieldRule, describe, list_bounds, text_bounds
from stoker.api.meta import SecretKeyRef
from stoker.api.scalars import BranchTemplate, Duration, GlobList, HttpUrl, Limit, SizeQuantity


class GuardrailSpec(Block):
    """Limits on what is proposed to git."""

    max_file_size: Annotated[
        SizeQuantity | None, describe("Maximum size of a file that is proposed to git.")
    ] = None
    max_files_per_pr: Annotated[Limit | None, describe("Maximum number of files in one pull request.")] = (
        msgspec.field(default=None, name="maxFilesPerPR")
    )
    exclude_patterns: Annotated[
        GlobList | None, describe("Files that are never proposed to git, as globs.")
    ] = None


class ForgeSpec(Block):
    """The forge that hosts pull requests."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "self.type != 'gitea' || has(self.url)",
            "url must be given for the type gitea",
            lambda it: it.type != "gitea" or it.url is not None,
            at="url",
        ),
    )

    type: Annotated[Literal["github", "gitlab", "gitea"], describe("Type of the service.")]
    url: Annotated[HttpUrl | None, describe("Address of the service. Left out: the host of git.repo.")] = None
    token_secret_ref: Annotated[
        SecretKeyRef | None,
        describe("Token with permission to open pull requests. Left out: the credentials of git.auth."),
    ] = None


class BidirectionalSpec(Block):
    """Bidirectional sync: changes on a gateway become commits or pull requests."""

    enabled: Annotated[bool | None, describe("True enables bidirectional sync.")] = None
    watch_paths: Annotated[
        GlobList | None,
        describe(
            "Files whose changes are proposed to git, as globs below the data folder; all others are ignored."
        ),
    ] = None
    target_branch: Annotated[
        BranchTemplate | None,
        describe("Branch that changes are pushed to, with fields such as {{.Namespace}}."),
    ] = None
    debounce: Annotated[
        Duration | None, describe("Time without further changes before a change is sent.")
    ] = None
    create_pr: Annotated[bool | None, describe("True opens a pull request for the branch.")] = msgspec.field(
        default=None, name="createPR"
    )
    pr_labels: Annotated[
        Annotated[tuple[Annotated[str, text_bounds(128, least=1)], ...], list_bounds(32)] | None,
        describe("Labels of the pull request."),
    ] = None
    conflict_strategy: Annotated[
        Literal["gitWins", "gatewayWins", "manual"] | None,
        describe(
            "What happens when a file was changed both in git and on the gateway. gitWins: git overwrites "
            "the gateway, the change stays in its pull request. gatewayWins: syncs of that file wait for the "
            "pull request. manual: a user decides."
        ),
    ] = None
    guardrails: Annotated[GuardrailSpec | None, describe("Limits on what is proposed to git.")] = None
    forge: Annotated[
        ForgeSpec | None,
        describe("The forge that hosts pull requests. Left out: detected from git.repo if possible."),
    ] = None
