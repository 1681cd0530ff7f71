"""Which commits of a source are accepted: who must have signed them, and whether history may be rewritten.

Asked after a commit was fetched and before anything of it is looked at. Whatever is
not shown counts as refused.
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
"""Read anew for each commit: keys are added and taken away."""


class CommitRules(NamedTuple):
    """What a commit must be; the default accepts any."""

    signatures: SignatureMode = SignatureMode.NONE
    keys: TrustedKeysReader | None = None
    allow_rewrite: bool = True

    async def check(
        self, remote: Remote, repository: Path, commit: CommitId, ref: GitRef, before: CommitId | None
    ) -> None:
        """Raise unless the commit may be applied; `before` is the one of the same ref applied last."""
        if self.signatures is not SignatureMode.NONE:
            from stoker.git.signature.verify import check_signature  # noqa: PLC0415 - most ask for no signatures

            if self.keys is None:
                raise Misconfigured("signatures are required, and no keys to check them with are given")
            await check_signature(
                remote, repository, mode=self.signatures, ref=ref, commit=commit, keys=await self.keys()
            )
        if not self.allow_rewrite and before is not None:
            from stoker.git.signature.ancestry import check_descent  # noqa: PLC0415 - most allow it

            await check_descent(remote, repository, ancestor=before, commit=commit, ref=ref)
