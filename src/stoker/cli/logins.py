"""What opens the repository and whose signatures count, read from files at each use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.cli.orders import Order
from stoker.domain.errors import Misconfigured
from stoker.domain.intent.source import AuthKind, SecretKey
from stoker.domain.secrets import Secret
from stoker.git.access import TOKEN_USER, Access, AccessReader, Login, Password, SshKey

if TYPE_CHECKING:
    from stoker.git.trusting import KeysReader
    from stoker.git.verifying import TrustedKeys


def access_reader(order: Order) -> AccessReader:
    """Reads the files of the order's login whenever git is to be let in."""
    source = order.job.source
    if source.auth.kind is AuthKind.GITHUB_APP:
        return _as_app(order)

    async def read() -> Access:
        return Access(
            _login(order),
            ca=_bytes(order, source.ca),
            proxy=source.proxy,
            require_known_hosts=order.require_known_hosts,
        )

    return read


def keys_reader(order: Order) -> KeysReader:
    """Reads the keys whose signatures count, at each use."""
    policy = order.job.source.signatures

    async def read() -> TrustedKeys:
        from stoker.git.verifying import TrustedKeys  # noqa: PLC0415 - most ask for no signatures

        return TrustedKeys(_bytes(order, policy.allowed_signers), _bytes(order, policy.gpg_keys))

    return read


def _login(order: Order) -> Login | None:
    auth, secrets = order.job.source.auth, order.secrets
    if auth.secret is None or auth.kind is AuthKind.NONE:
        return None
    if auth.kind is AuthKind.TOKEN:
        return Password(order.username or TOKEN_USER, secrets.line(auth.secret))
    if auth.kind is AuthKind.BASIC:
        username = secrets.line(SecretKey(auth.secret.name, "username"))
        return Password(username.reveal(), secrets.line(auth.secret))
    return SshKey(Secret(secrets.read(auth.secret)), _bytes(order, auth.known_hosts))


def _as_app(order: Order) -> AccessReader:
    from stoker.git.github_app import AppTokens, GitHubApp  # noqa: PLC0415 - few log in this way

    source, tokens = order.job.source, AppTokens()

    async def read() -> Access:
        auth = source.auth
        if auth.secret is None or auth.app_id is None or auth.installation_id is None:
            raise Misconfigured("a GitHub App needs its id, its installation's id and its private key")
        app = GitHubApp(auth.app_id, auth.installation_id, Secret(order.secrets.read(auth.secret)))
        return await tokens.access(app, source.url, ca=_bytes(order, source.ca), proxy=source.proxy)

    return read


def _bytes(order: Order, key: SecretKey | None) -> bytes | None:
    return None if key is None else order.secrets.read(key)
