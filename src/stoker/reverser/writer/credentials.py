"""Read the credentials of a repository from the Secret of its GitRepoConfig, again for each use.

The keys of the Secret are `username` and `password`, or `token`, or `ssh-privatekey` (also `identity`) with
`known_hosts`; in addition `ca.crt` for a server with a private CA. No value is cached, so a rotated Secret
applies from the next call on.
"""

from __future__ import annotations

from stoker.domain.intent.source import SecretKey
from stoker.git.auth.credentials import RepoAccess, RepoAccessReader, fixed_access
from stoker.git.auth.secret_login import auth_by_keys, git_login, login_keys
from stoker.kube.client.client import KubeClient
from stoker.kube.client.secret_reader import NamespaceSecretReader
from stoker.reverser.manifest.named_secrets import SecretRef


def access_reader(
    client: KubeClient, login: SecretRef | None, *, require_known_hosts: bool = False
) -> RepoAccessReader:
    """Return a reader that gets the login from its Secret whenever git needs it."""
    if login is None:
        return fixed_access(RepoAccess(require_known_hosts=require_known_hosts))
    reader, name = NamespaceSecretReader(client, login.namespace), login.name

    async def read() -> RepoAccess:
        found = await reader.all_values(name)
        auth = auth_by_keys(name, [each.key for each in found])
        return RepoAccess(
            git_login(auth, reader.required(found, login_keys(auth))),
            ca=found.get(SecretKey(name, "ca.crt")),
            require_known_hosts=require_known_hosts,
        )

    return read
