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

from stoker.api.to_intent.tree_merge import SpecTree, inherit, pop_value, set_value, value_at


def resolve_aliases(spec: SpecTree) -> SpecTree:
    """The spec itself, changed in place: every second spelling is gone from it."""
    _rename_field(spec, "webhookNamespaces", "webhook.allowedNamespaces")
    _rename_field(spec, "autoRollback", "deployment.autoRollback")
    _rename_field(spec, "normalize.fields", "normalize.templates")
    _move_signature_policy(spec)
    webhooks = value_at(spec, "alerting.webhooks")
    for webhook in webhooks if isinstance(webhooks, list) else ():
        _rename_field(webhook, "true", "on")
    return spec


def _rename_field(tree: SpecTree, second: str, first: str) -> None:
    value = pop_value(tree, second)
    if value is not None:
        set_value(tree, first, inherit(value_at(tree, first), value))


def _move_signature_policy(spec: SpecTree) -> None:
    """Logins replace each other whole; a demand for signatures must not get lost on the way."""
    keys = pop_value(spec, "git.auth.gpgKey.secretRef")
    if keys is None:
        return
    set_value(spec, "git.verify.gpgKeysSecretRef", value_at(spec, "git.verify.gpgKeysSecretRef") or keys)
    if value_at(spec, "git.verify.mode") not in ("commit", "tag"):
        set_value(spec, "git.verify.mode", "commit")
