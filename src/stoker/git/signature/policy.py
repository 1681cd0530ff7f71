"""Decides which commits of a source are accepted: required signatures, and whether history may be rewritten.

A source checks the rules after it has fetched a commit and before it reads any of its files. A commit is
refused unless the rules are proven to hold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from stoker.domain.errors import Misconfigured
from stoker.domain.intent.source import SignatureMode
from stoker.domain.refs import CommitId, GitRef
from stoker.git.remote.remote import Remote

if TYPE_CHECKING:
    from stoker.git.signature.verify import TrustedKeys

TrustedKeysReader: TypeAlias = "Callable[[], Awaitable[TrustedKeys]]"
"""Reads the keys again for each commit, because keys are added and removed."""


class CommitRules(NamedTuple):
    """The rules for commits of one source; the default accepts any commit."""

    signatures: SignatureMode = SignatureMode.NONE
    keys: TrustedKeysReader | None = None
    allow_rewrite: bool = True

    async def check(
        self, remote: Remote, repository: Path, commit: CommitId, ref: GitRef, before: CommitId | None
    ) -> None:
        """Raise unless the commit may be applied; `before` is the commit of this ref applied last."""
        if self.signatures is not SignatureMode.NONE:
            from stoker.git.signature.verify import check_signature  # noqa: PLC0415 - most require no signatures

            if self.keys is None:
                raise Misconfigured("signatures are required, and no keys to check them with are given")
            await check_signature(
                remote, repository, mode=self.signatures, ref=ref, commit=commit, keys=await self.keys()
            )
        if not self.allow_rewrite and before is not None:
            from stoker.git.signature.ancestry import check_descent  # noqa: PLC0415 - most allow it

            await check_descent(remote, repository, ancestor=before, commit=commit, ref=ref)
