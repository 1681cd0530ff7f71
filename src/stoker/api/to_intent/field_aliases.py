"""One spelling for what the papers spell in two ways.

Runs on plain dictionaries before anything is merged, so that a base may use one
spelling and the resource the other; behind it only the first of each pair exists:

    webhook.allowedNamespaces      webhookNamespaces       C-077
    deployment.autoRollback        autoRollback            C-118
    normalize.templates            normalize.fields        C-091
    git.verify                     git.auth.gpgKey         a demand for signatures, not a way to log in
    alerting.webhooks[].on         …webhooks[].true        YAML 1.1 reads an unquoted `on` as true

Where both are given, lists are joined, and for the rest the first spelling wins.
"""

from __future__ import annotations

from stoker.api.to_intent.tree_merge import SpecTree, found, inherited, put, taken


def one_spelling(spec: SpecTree) -> SpecTree:
    """The spec itself, changed in place: every second spelling is gone from it."""
    _renamed(spec, "webhookNamespaces", "webhook.allowedNamespaces")
    _renamed(spec, "autoRollback", "deployment.autoRollback")
    _renamed(spec, "normalize.fields", "normalize.templates")
    _signatures_apart_from_login(spec)
    webhooks = found(spec, "alerting.webhooks")
    for webhook in webhooks if isinstance(webhooks, list) else ():
        _renamed(webhook, "true", "on")
    return spec


def _renamed(tree: SpecTree, second: str, first: str) -> None:
    value = taken(tree, second)
    if value is not None:
        put(tree, first, inherited(found(tree, first), value))


def _signatures_apart_from_login(spec: SpecTree) -> None:
    """Logins replace each other whole; a demand for signatures must not get lost on the way."""
    keys = taken(spec, "git.auth.gpgKey.secretRef")
    if keys is None:
        return
    put(spec, "git.verify.gpgKeysSecretRef", found(spec, "git.verify.gpgKeysSecretRef") or keys)
    if found(spec, "git.verify.mode") not in ("commit", "tag"):
        put(spec, "git.verify.mode", "commit")
