"""Converts the environment of git-sync, as its ConfigMap holds it, into an IgnitionSync.

Variable names of version 4 (`GITSYNC_REPO`) and 3 (`GIT_SYNC_REPO`) are supported. The ConfigMap does not
name the Secrets; the result names those that the quick start creates, and a remark says that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stoker.cli.migrate.result import MigrationResult, unused_setting_remarks
from stoker.domain.errors import InvalidValue, StokerError
from stoker.domain.intent.delivery import MIN_POLLING_SECONDS
from stoker.domain.quantities import parse_duration
from stoker.domain.refs import RepoUrl

_NAMES = {
    "repo": ("GITSYNC_REPO", "GIT_SYNC_REPO"),
    "ref": ("GITSYNC_REF",),
    "rev": ("GIT_SYNC_REV",),
    "branch": ("GIT_SYNC_BRANCH",),
    "period": ("GITSYNC_PERIOD", "GITSYNC_WAIT", "GIT_SYNC_PERIOD", "GIT_SYNC_WAIT"),
    "app": ("GITSYNC_GITHUB_APP_APPLICATION_ID",),
    "installation": ("GITSYNC_GITHUB_APP_INSTALLATION_ID",),
    "storage class": ("STORAGE_CLASS", "STORAGE_CLASS_NAME"),
}
# Settings of git-sync's own working folder, which has no counterpart here.
_IGNORED_SETTINGS = ("ROOT", "LINK", "DEPTH", "DEST", "ONE_TIME", "GIT", "ADD_USER", "CHMOD", "PERMISSIONS")
_DEFAULT_INTERVAL = "60s"
_SSH = ("SSH", "SSH_KEY_FILE", "SSH_KNOWN_HOSTS", "SSH_KNOWN_HOSTS_FILE")


def from_git_sync(settings: Mapping[str, str], name: str, namespace: str) -> MigrationResult:
    """Return the resource, and remarks on what a person has to check."""
    found = {what: _first_setting(settings, names) for what, names in _NAMES.items()}
    if not found["repo"]:
        raise InvalidValue("the ConfigMap names no repository: it has neither GITSYNC_REPO nor GIT_SYNC_REPO")
    repo = RepoUrl(found["repo"])
    git: dict[str, Any] = {"repo": str(repo), "ref": _ref(found)}
    remarks = []
    auth, remark = _auth(repo, found)
    if auth:
        git["auth"] = auth
    remarks.append(remark)
    if repo.scheme == "ssh":
        remarks.append(
            "git: the server's keys are not checked until spec.git.auth.sshKey.knownHostsSecretRef names a "
            "Secret with its known_hosts, which git-sync had in a file"
        )
    spec: dict[str, Any] = {
        "git": git,
        "gateway": {"apiKeySecretRef": {"name": "ignition-api-key", "key": "apiKey"}},
    }
    remarks.append("gateway: the API key is expected in Secret ignition-api-key, key apiKey")
    if found["period"]:
        interval, remark = _interval(found["period"])
        spec["polling"] = {"enabled": True, "interval": interval}
        remarks += [remark] if remark else []
    if found["storage class"]:
        spec["storage"] = {"storageClassName": found["storage class"]}
    remarks.append("pods: annotate them with stoker.io/inject and stoker.io/service-path")
    taken = [key for names in _NAMES.values() for key in names]
    taken += [f"{prefix}_{one}" for prefix in ("GITSYNC", "GIT_SYNC") for one in (*_IGNORED_SETTINGS, *_SSH)]
    remarks += unused_setting_remarks(settings, taken)
    manifest = {
        "apiVersion": "sync.ignition.io/v1alpha1",
        "kind": "IgnitionSync",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    return MigrationResult((manifest,), tuple(remarks))


def _auth(repo: RepoUrl, found: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    if found["app"] and found["installation"]:
        key = {"name": "git-sync-secret", "key": "privateKey"}
        ids = {"appId": _parse_number(found["app"]), "installationId": _parse_number(found["installation"])}
        said = "git: the app's private key is expected in Secret git-sync-secret, key privateKey"
        return {"githubApp": {**ids, "privateKeySecretRef": key}}, said
    if repo.scheme == "ssh":
        key = {"name": "git-sync-secret", "key": "ssh-privatekey"}
        return {
            "sshKey": {"secretRef": key}
        }, "git: the ssh key is expected in Secret git-sync-secret, key ssh-privatekey"
    return (
        {},
        "git: the user name and password were not converted; set spec.git.auth if the server needs a login",
    )


def _first_setting(settings: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((settings[one].strip() for one in names if settings.get(one, "").strip()), "")


def is_git_sync(settings: Mapping[str, str]) -> bool:
    """Return whether a ConfigMap is git-sync's: it names a repository."""
    return bool(_first_setting(settings, _NAMES["repo"]))


def _ref(found: Mapping[str, str]) -> str:
    """The ref. Version 3 had a branch and a revision of it, which defaulted to HEAD."""
    revision = found["rev"] if found["rev"] != "HEAD" else ""
    return found["ref"] or revision or found["branch"] or "HEAD"


def _interval(text: str) -> tuple[str, str]:
    """Return the interval and a remark on it, if any. Version 3 had seconds without a unit."""
    said = f"{text}s" if re.fullmatch(r"[0-9]+([.][0-9]+)?", text) else text
    try:
        seconds = parse_duration(said)
    except StokerError:
        return _DEFAULT_INTERVAL, f"polling: {text} is not a duration; {_DEFAULT_INTERVAL} was used"
    if seconds < MIN_POLLING_SECONDS:
        return "1s", f"polling: {text} is shorter than a second; 1s was used"
    return said, ""


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidValue(f"the id of a GitHub App or of its installation is not a number: {text[:40]!r}")
    return int(text)
