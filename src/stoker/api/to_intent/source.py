"""`spec.git` as a source: address, ref, login, trust."""

from __future__ import annotations

from stoker.api.spec.git import GitAuth as AuthBlock
from stoker.api.spec.git import GitSource, GitVerify
from stoker.api.to_intent.values import choice, either, secret_key
from stoker.domain.intent.source import AuthKind, GitAuth, SecretKey, SignatureMode, SignaturePolicy, Source
from stoker.domain.refs import GitRef, SourceUrl


def source_of(git: GitSource) -> Source:
    """Building the address and the ref checks them, wherever the resource came from."""
    return Source(
        url=SourceUrl(git.repo),
        ref=GitRef(git.ref),
        auth=_auth(git.auth or AuthBlock()),
        ca=secret_key(git.ca_secret_ref),
        proxy=git.proxy or "",
        allow_rewrite=either(git.allow_rewrite, True),
        signatures=_signatures(git.verify or GitVerify()),
    )


def _auth(auth: AuthBlock) -> GitAuth:
    if auth.ssh_key:
        return GitAuth(
            AuthKind.SSH,
            secret=secret_key(auth.ssh_key.secret_ref),
            known_hosts=secret_key(auth.ssh_key.known_hosts_secret_ref),
        )
    if auth.token:
        return GitAuth(AuthKind.TOKEN, secret=secret_key(auth.token.secret_ref))
    if auth.basic:
        return GitAuth(AuthKind.BASIC, secret=SecretKey(auth.basic.secret_ref.name, "password"))
    if auth.github_app:
        return GitAuth(
            AuthKind.GITHUB_APP,
            secret=secret_key(auth.github_app.private_key_secret_ref),
            app_id=auth.github_app.app_id,
            installation_id=auth.github_app.installation_id,
        )
    return GitAuth()


def _signatures(verify: GitVerify) -> SignaturePolicy:
    return SignaturePolicy(
        mode=choice(verify.mode, SignatureMode.NONE),
        allowed_signers=secret_key(verify.allowed_signers_secret_ref),
        gpg_keys=secret_key(verify.gpg_keys_secret_ref),
    )
