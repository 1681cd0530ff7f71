"""`spec.git` as a source: address, ref, login, trust."""

from __future__ import annotations

from stoker.api.spec.git import GitAuthSpec as AuthBlock
from stoker.api.spec.git import GitSourceSpec, GitVerifySpec
from stoker.api.to_intent.values import parse_choice, secret_key, value_or_default
from stoker.domain.intent.source import (
    GitAuthKind,
    GitAuthPolicy,
    SecretKey,
    SignatureMode,
    SignaturePolicy,
    SourceIntent,
)
from stoker.domain.refs import GitRef, SourceUrl


def source_of(git: GitSourceSpec) -> SourceIntent:
    """Return the source; the constructors check address and ref, wherever the resource came from."""
    return SourceIntent(
        url=SourceUrl(git.repo),
        ref=GitRef(git.ref),
        auth=_auth(git.auth or AuthBlock()),
        ca=secret_key(git.ca_secret_ref),
        proxy=git.proxy or "",
        allow_rewrite=value_or_default(git.allow_rewrite, True),
        signatures=_signatures(git.verify or GitVerifySpec()),
    )


def _auth(auth: AuthBlock) -> GitAuthPolicy:
    if auth.ssh_key:
        return GitAuthPolicy(
            GitAuthKind.SSH,
            secret=secret_key(auth.ssh_key.secret_ref),
            known_hosts=secret_key(auth.ssh_key.known_hosts_secret_ref),
        )
    if auth.token:
        return GitAuthPolicy(GitAuthKind.TOKEN, secret=secret_key(auth.token.secret_ref))
    if auth.basic:
        return GitAuthPolicy(GitAuthKind.BASIC, secret=SecretKey(auth.basic.secret_ref.name, "password"))
    if auth.github_app:
        return GitAuthPolicy(
            GitAuthKind.GITHUB_APP,
            secret=secret_key(auth.github_app.private_key_secret_ref),
            app_id=auth.github_app.app_id,
            installation_id=auth.github_app.installation_id,
        )
    return GitAuthPolicy()


def _signatures(verify: GitVerifySpec) -> SignaturePolicy:
    return SignaturePolicy(
        mode=parse_choice(verify.mode, SignatureMode.NONE),
        allowed_signers=secret_key(verify.allowed_signers_secret_ref),
        gpg_keys=secret_key(verify.gpg_keys_secret_ref),
    )
