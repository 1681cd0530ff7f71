"""The source of content and its verification: `spec.git`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from stoker.api.field_docs import Block, FieldRule, describe
from stoker.api.meta import LocalRef, SecretKeyRef
from stoker.api.scalars import ProxyUrl, SourceAddress, SourceRef

_AppId = Annotated[int, Meta(ge=1, le=1 << 53)]


class SshKeyAuth(Block):
    """A private key for ssh."""

    secret_ref: Annotated[
        SecretKeyRef, describe("The private key in OpenSSH or PEM form; the usual key is ssh-privatekey.")
    ]
    known_hosts_secret_ref: Annotated[
        SecretKeyRef | None,
        describe(
            "Lines of known_hosts; several keys and key types per host are fine. Without it any host key is "
            "accepted with a warning, unless the installation requires known hosts."
        ),
    ] = None


class GitHubAppAuth(Block):
    """An installed GitHub App; its tokens can also open pull requests."""

    app_id: Annotated[_AppId, describe("The id of the app, a number.")]
    installation_id: Annotated[_AppId, describe("The id of its installation in the organisation, a number.")]
    private_key_secret_ref: Annotated[
        SecretKeyRef,
        describe(
            "The app's private key in PEM form. Only the controller reads it; gateways get short-lived "
            "tokens."
        ),
    ]


class TokenAuth(Block):
    """A token for https."""

    secret_ref: Annotated[SecretKeyRef, describe("The token; the usual key is token.")]


class BasicAuth(Block):
    """A user name and password for https."""

    secret_ref: Annotated[LocalRef, describe("A Secret with the keys username and password.")]


class GpgKeyAuth(Block):
    """Keys that commits must be signed with."""

    secret_ref: Annotated[SecretKeyRef, describe("Public keys in ASCII armour; the usual key is publicKey.")]


class GitAuthSpec(Block):
    """How to log in to the git server."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "[has(self.sshKey), has(self.githubApp), has(self.token), has(self.basic)].filter(it, it).size() "
            "<= 1",
            "auth takes at most one of sshKey, githubApp, token and basic",
            lambda it: sum(kind is not None for kind in (it.ssh_key, it.github_app, it.token, it.basic)) <= 1,
        ),
    )

    ssh_key: Annotated[SshKeyAuth | None, describe("Log in over ssh with a private key.")] = None
    github_app: Annotated[GitHubAppAuth | None, describe("Log in as an installed GitHub App.")] = None
    token: Annotated[TokenAuth | None, describe("Log in over https with a token.")] = None
    basic: Annotated[BasicAuth | None, describe("Log in over https with a user name and password.")] = None
    gpg_key: Annotated[
        GpgKeyAuth | None,
        describe("Alias of verify.gpgKeysSecretRef with verify.mode commit; may be combined with a login."),
    ] = None


class GitVerifySpec(Block):
    """Signatures that a commit must have before it is used."""

    mode: Annotated[
        Literal["none", "commit", "tag"] | None,
        describe("Which object must have a valid signature: none, the commit, or the tag that names it."),
    ] = None
    allowed_signers_secret_ref: Annotated[
        SecretKeyRef | None,
        describe("A file in the form of ssh's allowed signers, for signatures made with ssh keys."),
    ] = None
    gpg_keys_secret_ref: Annotated[
        SecretKeyRef | None, describe("Public keys in ASCII armour, for signatures made with OpenPGP.")
    ] = None


class GitAccessSpec(Block):
    """Access to a git server; several resources can inherit it."""

    auth: Annotated[
        GitAuthSpec | None,
        describe(
            "How to log in; at most one of sshKey, githubApp, token and basic. Left out: no login. A "
            "resource that sets it replaces the inherited login as a whole."
        ),
    ] = None
    verify: Annotated[
        GitVerifySpec | None,
        describe("Required signatures. A commit that fails the check is not applied."),
    ] = None
    ca_secret_ref: Annotated[
        SecretKeyRef | None, describe("Certificates in PEM form to trust for https besides the system's.")
    ] = None
    proxy: Annotated[
        ProxyUrl | None,
        describe(
            "Proxy for https, such as http://proxy:3128 or socks5h://proxy:1080. Left out: the proxy of the "
            "process environment. Hosts in NO_PROXY are always reached directly; an ssh address cannot use a "
            "proxy."
        ),
    ] = None
    allow_rewrite: Annotated[
        bool | None,
        describe(
            "True accepts force-pushed branches and moved tags. If false, the resource stalls when the new "
            "commit does not descend from the last one."
        ),
    ] = None


class GitSourceSpec(GitAccessSpec):
    """The repository and the ref to follow."""

    repo: Annotated[
        SourceAddress,
        describe(
            "The repository: https://, http://, ssh://, git@host:path, or file:///path of a repository on "
            "the machine of stoker sync (refused in a cluster). Or a read-only source: oci://host/name, an "
            "artifact in a registry (with ?plainHttp=true without TLS), or "
            "s3://bucket/prefix?endpoint=https://host&region=name, objects in a bucket. Credentials are not "
            "allowed here."
        ),
    ]
    ref: Annotated[
        SourceRef,
        describe(
            "Branch, tag or commit id to follow; a short name means the branch first, then the tag, and "
            "refs/tags/… pins a tag. For oci:// a tag, or sha256: and a digest; for s3:// a prefix below "
            "that of the address, or HEAD for the address itself. Stoker never writes this field; webhooks "
            "use annotations."
        ),
    ]
