"""Caches which keys the Secrets have that resources name, never their values."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stoker.kube.client.client import KubeClient
from stoker.kube.client.objects import ObjectHeaderMeta
from stoker.kube.client.resources import SECRETS
from stoker.kube.watch.store import ObjectKey

_EMPTY = b'""'


class SecretHeader(msgspec.Struct, frozen=True):
    """The keys of a Secret; their values are not even decoded."""

    metadata: ObjectHeaderMeta = ObjectHeaderMeta()
    data: dict[str, msgspec.Raw] = {}

    @property
    def keys(self) -> frozenset[str]:
        """The keys with a non-empty value."""
        return frozenset(name for name, value in self.data.items() if bytes(value) != _EMPTY)


class SecretKeyNames:
    """Caches the keys of each Secret.

    The watch reports the version of each Secret, so each version is read once.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[ObjectKey, tuple[str, frozenset[str]]] = {}

    async def of(self, secret: ObjectKey, version: str) -> frozenset[str]:
        """Return the keys with a non-empty value; raise NotFound if the Secret is gone."""
        known = self._known.get(secret)
        if known is not None and known[0] == version:
            return known[1]
        found = await self._client.get(SECRETS, secret.name, secret.namespace, into=SecretHeader)
        self._known[secret] = found.metadata.resource_version, found.keys
        return found.keys

    def forget_others(self, named: Callable[[ObjectKey], bool]) -> None:
        """Drop the entries of Secrets that no resource names any more."""
        for secret in [secret for secret in self._known if not named(secret)]:
            del self._known[secret]


class NamespaceSecretReader:
    """Reads the Secrets of one namespace."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def value(self, wanted: SecretKey) -> Secret:
        return (await self._values(wanted.name, wanted.key))[0]

    async def access(
        self,
        source: SourceIntent,
        apps: GitHubAppTokens,
        rights: TokenRights = TokenRights.READ,
        *,
        require_known_hosts: bool = False,
    ) -> RepoAccess:
        """Return login and trust for a source, from the current Secrets; `rights` applies to app tokens."""
        ca = None if source.ca is None else (await self.value(source.ca)).reveal_bytes()
        app = await self._app(source.auth)
        if app is not None:
            return await apps.access(app, source.url, rights, ca=ca, proxy=source.proxy)
        login = await self._login(source.auth)
        return RepoAccess(login, ca=ca, proxy=source.proxy, require_known_hosts=require_known_hosts)

    async def _login(self, auth: GitAuthPolicy) -> GitLogin | None:
        """Return the login, or None if the source needs none."""
        if auth.kind is GitAuthKind.NONE or auth.secret is None:
            return None
        if auth.kind is GitAuthKind.SSH:
            hosts = None if auth.known_hosts is None else await self.value(auth.known_hosts)
            return GitSshKey(await self.value(auth.secret), None if hosts is None else hosts.reveal_bytes())
        if auth.kind is GitAuthKind.BASIC:
            values = await self._values(auth.secret.name, "username", "password")
            username, password = (self._line(value, auth.secret.name) for value in values)
            return GitPassword(username.reveal(), password)
        return GitPassword(TOKEN_USER, self._line(await self.value(auth.secret), auth.secret.name))

    async def _app(self, auth: GitAuthPolicy) -> GitHubApp | None:
        if auth.kind is not GitAuthKind.GITHUB_APP or auth.secret is None:
            return None
        if auth.app_id is None or auth.installation_id is None:
            raise Stalled("git.auth.githubApp names no app or no installation", reason=Reason.INVALID_SPEC)
        return GitHubApp(auth.app_id, auth.installation_id, await self.value(auth.secret))

    async def _values(self, name: str, *keys: str) -> list[Secret]:
        try:
            found = await self._client.get(SECRETS, name, self._namespace, into=_SourceSecret)
        except NotFound:
            raise missing_secret(self._namespace, name) from None
        return [self._decoded(found, name, key) for key in keys]

    def _line(self, value: Secret, name: str) -> Secret:
        """Refuse a value of more than one line, which git could not take from an environment variable."""
        if not value.is_one_line:
            where = f"Secret {name!r} in namespace {self._namespace!r}"
            raise Stalled(f"{where} does not hold exactly one line of text", reason=Reason.INVALID_VALUE)
        return value

    def _decoded(self, found: _SourceSecret, name: str, key: str) -> Secret:
        if not found.data.get(key):
            raise missing_secret_key(self._namespace, SecretKey(name, key))
        try:
            return Secret(base64.b64decode(found.data[key]).strip())
        except binascii.Error:
            raise Stalled(
                f"key {key!r} of Secret {name!r} is not base64", reason=Reason.SECRET_NOT_FOUND
            ) from None


def missing_secret(namespace: str, name: str) -> Stalled:
    return Stalled(
        f"Secret {name!r} does not exist in namespace {namespace!r}", reason=Reason.SECRET_NOT_FOUND
    )


def missing_secret_key(namespace: str, wanted: SecretKey) -> Stalled:
    return Stalled(
        f"Secret {wanted.name!r} in namespace {namespace!r} has no key {wanted.key!r}",
        reason=Reason.SECRET_NOT_FOUND,
    )
