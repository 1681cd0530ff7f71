"""Replaces alternative spellings of fields by their canonical spelling.

Runs on plain dictionaries before anything is merged, so that a base may use one
spelling and the resource the other. Afterwards only the canonical spelling exists:

    webhook.allowedNamespaces      webhookNamespaces
    deployment.autoRollback        autoRollback
    normalize.templates            normalize.fields
    git.verify                     git.auth.gpgKey         it requires signatures and is no login
    alerting.webhooks[].on         …webhooks[].true        YAML 1.1 parses an unquoted `on` as true

If both are given, lists are joined; for other values the canonical spelling wins.
"""

from __future__ import annotations

from stoker.api.to_intent.tree_merge import SpecTree, inherit, pop_value, set_value, value_at


def resolve_aliases(spec: SpecTree) -> SpecTree:
    """Replace every alternative spelling; changes the spec in place and returns it."""
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
    """Move the keys out of the login: logins replace each other whole and would drop that policy."""
    keys = pop_value(spec, "git.auth.gpgKey.secretRef")
    if keys is None:
        return
    set_value(spec, "git.verify.gpgKeysSecretRef", value_at(spec, "git.verify.gpgKeysSecretRef") or keys)
    if value_at(spec, "git.verify.mode") not in ("commit", "tag"):
        set_value(spec, "git.verify.mode", "commit")
