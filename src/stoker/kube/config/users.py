"""Makes credentials of the user entry of a kubeconfig.

A certificate may be combined with any other method. Of the others, a token file takes precedence over a
token in the kubeconfig, and both over a plug-in. If the kubeconfig is from another person (`own` is false),
an entry that names a command or a file is refused: the command would run with our permissions, and the
file's content, perhaps our own token, would be sent to a server of their choice.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from stoker.domain.clock import Clock
from stoker.domain.errors import Misconfigured
from stoker.domain.secrets import Secret
from stoker.kube.config.credentials import (
    FileCredentials,
    KubeCredentials,
    RequestIdentity,
    StaticCredentials,
    basic_header,
    bearer_header,
    bearer_header_from_file,
)
from stoker.kube.config.exec_plugin import API_VERSIONS, ExecCredentials, ExecPlugin
from stoker.kube.config.files import read_bounded
from stoker.kube.config.kubeconfig import KubeconfigEntry, KubeconfigExec, KubeconfigUser
from stoker.kube.config.tls import ClientCertificate


@dataclass(frozen=True, slots=True)
class KubeconfigLogin:
    """A user of a kubeconfig, and the context needed to log in as that user."""

    name: str
    entry: KubeconfigEntry[KubeconfigUser]
    own: bool
    clock: Clock
    environ: Mapping[str, str]

    @property
    def user(self) -> KubeconfigUser:
        return self.entry.value

    @property
    def where(self) -> str:
        return f"the user {self.name!r} of {self.entry.file}"

    def credentials(self, cluster: Mapping[str, object]) -> KubeCredentials:
        """Return the credentials; `cluster` is the cluster information for a plug-in."""
        self._refuse_what_is_not_possible()
        if self.user.exec is not None and not (self.user.token or self.user.token_file or self.user.username):
            plugin = self._plugin(self.user.exec, cluster)
            return ExecCredentials(
                plugin, clock=self.clock, environ=self.environ, certificate=self._certificate()
            )
        if self.user.token_file or self.user.client_certificate or self.user.client_key:
            return FileCredentials(self._identity, self.clock)
        return StaticCredentials(self._identity())

    def impersonation(self) -> tuple[tuple[str, str], ...]:
        """Return the headers for the `as` fields.

        Without them the request would have more permissions than intended.
        """
        user = self.user
        if not user.impersonate:
            if user.impersonate_uid or user.impersonate_groups or user.impersonate_extra:
                raise Misconfigured(f"{self.where} says as which group or uid to act, but not as whom")
            return ()
        headers = [("Impersonate-User", user.impersonate)]
        headers += [("Impersonate-Uid", user.impersonate_uid)] if user.impersonate_uid else []
        headers += [("Impersonate-Group", group) for group in user.impersonate_groups or ()]
        for key, values in (user.impersonate_extra or {}).items():
            headers += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
        if not all(value.isprintable() for _, value in headers):
            raise Misconfigured(f"{self.where} asks to act as a name that cannot stand in a header")
        return tuple(headers)

    def _refuse_what_is_not_possible(self) -> None:
        user = self.user
        if user.auth_provider is not None:
            raise Misconfigured(
                f"{self.where} uses an auth-provider, which Kubernetes removed in 1.26; use an exec plug-in"
            )
        if (user.token or user.token_file) and (user.username or user.password):
            raise Misconfigured(f"{self.where} has both a token and a password, and only one can be used")
        files = (user.token_file, user.client_certificate, user.client_key)
        if not self.own and (user.exec is not None or any(files)):
            raise Misconfigured(
                f"{self.where} names a command or a file, which a kubeconfig that is not one's own must not"
            )

    def _identity(self) -> RequestIdentity:
        user = self.user
        authorization: Secret | None = None
        if user.token_file:
            authorization = bearer_header_from_file(self.entry.resolve(user.token_file))
        elif user.token:
            authorization = bearer_header(user.token, self.where)
        elif user.username:
            authorization = basic_header(user.username, user.password or Secret(""))
        return RequestIdentity(authorization, self._certificate())

    def _certificate(self) -> ClientCertificate | None:
        user = self.user
        chain = self._pem("client certificate", user.client_certificate, user.client_certificate_data)
        key_data = user.client_key_data.reveal() if user.client_key_data else ""
        key = self._pem("client key", user.client_key, key_data)
        if chain is None and key is None:
            return None
        if chain is None or key is None:
            raise Misconfigured(f"{self.where} has a client certificate without its key, or the reverse")
        certificate = ClientCertificate(chain, Secret(key))
        certificate.refuse_unless_valid(self.clock.now(), self.where)
        return certificate

    def _pem(self, what: str, path: str, data: str) -> bytes | None:
        if data:
            return decode_base64(data, f"the {what} of {self.where}")
        if path:
            file = self.entry.resolve(path)
            return read_bounded(file, f"the {what} {file} of {self.where}")
        return None

    def _plugin(self, entry: KubeconfigExec, cluster: Mapping[str, object]) -> ExecPlugin:
        if entry.api_version not in API_VERSIONS:
            raise Misconfigured(
                f"{self.where} uses a plug-in of {entry.api_version or 'no version'}, known are"
                f" {' and '.join(API_VERSIONS)}"
            )
        if entry.interactive_mode == "Always":
            raise Misconfigured(
                f"{self.where} uses a plug-in that needs a terminal (interactiveMode: Always)"
            )
        if not entry.command:
            raise Misconfigured(f"{self.where} uses a plug-in without a command")
        named_by_path = "/" in entry.command
        return ExecPlugin(
            command=str(self.entry.resolve(entry.command)) if named_by_path else entry.command,
            api_version=entry.api_version,
            where=self.where,
            args=tuple(entry.args or ()),
            env={variable.name: variable.value for variable in entry.env or ()},
            install_hint=entry.install_hint,
            cluster=cluster if entry.provide_cluster_info else None,
        )


def decode_base64(data: str, what: str) -> bytes:
    """Decode one of the `…-data` fields."""
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise Misconfigured(f"{what} is not base64") from None
