"""Opens the forge of a source with its token, read anew for every use.

The token is that of `bidirectional.forge`, else git's password; for a GitHub App that is the app's token.
"""

from __future__ import annotations

from stoker.controller.bidirectional.proposal import ForgeFactory, ProposalAccessReader
from stoker.domain.errors import Stalled
from stoker.domain.intent.policies import BidirectionalPolicy
from stoker.domain.intent.source import SourceIntent
from stoker.domain.reasons import Reason
from stoker.forges import Forge, forge_for
from stoker.git.auth.credentials import GitPassword
from stoker.kube.client.client import KubeClient
from stoker.kube.client.secret_reader import NamespaceSecretReader


def forge_reader(client: KubeClient, access: ProposalAccessReader) -> ForgeFactory:
    async def forge(namespace: str, source: SourceIntent, policy: BidirectionalPolicy) -> Forge:
        wanted = policy.forge
        given = await access(namespace, source)
        if wanted is not None and wanted.token is not None:
            token = await NamespaceSecretReader(client, namespace).value(wanted.token)
        elif isinstance(given.login, GitPassword):
            token = given.login.password
        else:
            raise Stalled(
                "git.auth has no token for pull requests; name one in bidirectional.forge.tokenSecretRef",
                reason=Reason.INVALID_SPEC,
            )
        return forge_for(
            source.url,
            token,
            kind=wanted.kind if wanted is not None else None,
            url=wanted.url if wanted is not None else "",
            ca=given.ca,
            proxy=given.proxy,
        )

    return forge
