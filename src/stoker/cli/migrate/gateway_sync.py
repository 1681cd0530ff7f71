"""Converts a `GatewaySync`, the kind of the Go operator, into a Stoker and its SyncProfiles.

The profiles of a GatewaySync are part of it, and two GatewaySyncs may use the same profile name; SyncProfiles
are objects of a namespace. So each SyncProfile is named after its GatewaySync and its profile, and a remark
lists the annotations that the pods need.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stoker.cli.migrate.result import ManifestDict, MigrationResult
from stoker.domain.errors import InvalidValue

_STRICTNESS = ("proceed", "wait", "fail")
_KNOWN_SPEC_FIELDS = ("git", "polling", "gateway", "sync", "agent", "paused")
_DEFAULTS = ("excludePatterns", "vars", "syncPeriod", "designerSessionPolicy", "dryRun", "paused")
_PROFILE = ("mappings", *_DEFAULTS)
_MAPPING = ("source", "destination", "type", "required", "template", "patches")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_STEP = re.compile(r"(?:\\.|[^.\\])+")


def from_gateway_sync(found: Mapping[str, Any]) -> MigrationResult:
    """Return the resources, and remarks on what a person has to check."""
    metadata, spec = _block_at(found, "metadata"), _block_at(found, "spec")
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace", "default"))
    sync = _block_at(spec, "sync")
    defaults, profiles = _block_at(sync, "defaults"), _block_at(sync, "profiles")
    if not name or not profiles:
        raise InvalidValue("this is not a GatewaySync: it has no name, or no spec.sync.profiles")
    remarks = list(_unknown_field_remarks(spec, _KNOWN_SPEC_FIELDS, "spec"))
    remarks += _unknown_field_remarks(defaults, _DEFAULTS, "spec.sync.defaults")
    made = [
        _profile(f"{name}-{one}", namespace, {**defaults, **_block_at(profiles, one)}, defaults, one, remarks)
        for one in profiles
    ]
    stoker = {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "Stoker",
        "metadata": {"name": name, "namespace": namespace},
        "spec": _stoker_spec(spec, defaults, [_block_at(profiles, one) for one in profiles], remarks),
    }
    remarks.append(
        f"pods: in place of stoker.io/profile: NAME annotate them with stoker.io/sync-profile: {name}-NAME"
    )
    return MigrationResult((stoker, *made), tuple(remarks))


def _stoker_spec(
    spec: Mapping[str, Any],
    defaults: Mapping[str, Any],
    profiles: list[Mapping[str, Any]],
    remarks: list[str],
) -> ManifestDict:
    made: ManifestDict = {"git": _git(_block_at(spec, "git"), remarks)}
    if spec.get("polling"):
        made["polling"] = dict(_block_at(spec, "polling"))
    made["gateway"] = _gateway(_block_at(spec, "gateway"), remarks)
    if defaults.get("excludePatterns"):
        made["excludePatterns"] = _list_at(defaults, "excludePatterns")
    said = (one.get("designerSessionPolicy", defaults.get("designerSessionPolicy")) for one in profiles)
    policies = {str(one) for one in said if one is not None}
    if len(policies) > 1:
        remarks.append(
            f"designerSessionPolicy differs between profiles ({', '.join(sorted(policies))}); here it "
            "applies to the whole resource, so the strictest was used"
        )
    if policies:
        made["ignition"] = {"designerSessionPolicy": max(policies, key=_strictness)}
    if spec.get("paused"):
        made["paused"] = True
    if spec.get("agent"):
        remarks.append(
            "spec.agent was left out: its image is another program, and the agent of Stoker has its own "
            "defaults"
        )
    return made


def _git(git: Mapping[str, Any], remarks: list[str]) -> ManifestDict:
    made = {key: value for key, value in git.items() if key in ("repo", "ref", "auth")}
    remarks.extend(_unknown_field_remarks(git, ("repo", "ref", "auth"), "spec.git"))
    app = _block_at(_block_at(git, "auth"), "githubApp")
    if app.get("apiBaseURL"):
        auth = {key: value for key, value in app.items() if key != "apiBaseURL"}
        made["auth"] = {"githubApp": auth}
        remarks.append(
            "spec.git.auth.githubApp.apiBaseURL was left out: the API is found by the repository's host"
        )
    return made


def _gateway(gateway: Mapping[str, Any], remarks: list[str]) -> ManifestDict:
    key = _block_at(gateway, "apiKeySecretRef")
    api = _block_at(gateway, "api")
    if not key and api.get("secretName"):
        key = {"name": api["secretName"], "key": api.get("secretKey", "apiKey")}
    if not {"port", "tls"} <= gateway.keys():
        remarks.append(
            "spec.gateway has no port or no tls; the default of the Go operator was used: 8088 without TLS"
        )
    made: ManifestDict = {"port": gateway.get("port", 8088), "tls": gateway.get("tls", False)}
    return {**made, "apiKeySecretRef": dict(key)} if key else made


def _profile(
    name: str,
    namespace: str,
    wanted: Mapping[str, Any],
    defaults: Mapping[str, Any],
    title: str,
    remarks: list[str],
) -> ManifestDict:
    remarks.extend(_unknown_field_remarks(wanted, _PROFILE, f"profile {title}"))
    patches: list[ManifestDict] = []
    spec: ManifestDict = {
        "mappings": [_mapping(one, title, patches, remarks) for one in _list_at(wanted, "mappings")]
    }
    if patches:
        spec["patches"] = patches
    variables = {**_block_at(defaults, "vars"), **_block_at(wanted, "vars")}
    if variables:
        spec["vars"] = variables
    own = wanted.get("excludePatterns")
    if own and own is not defaults.get("excludePatterns"):  # those of the defaults are in the Stoker
        spec["excludePatterns"] = _list_at(wanted, "excludePatterns")
    for key in ("syncPeriod", "dryRun", "paused"):
        if wanted.get(key) is not None:
            spec[key] = wanted[key]
    return {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "SyncProfile",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _mapping(one: Any, title: str, patches: list[ManifestDict], remarks: list[str]) -> ManifestDict:
    if not isinstance(one, dict):
        raise InvalidValue(f"profile {title} has a mapping that is not an object")
    source, destination = (str(one.get(key, "")).strip("/") or "." for key in ("source", "destination"))
    remarks.extend(_unknown_field_remarks(one, _MAPPING, f"mapping {source} of profile {title}"))
    kind = one.get("type")
    if kind is None:
        kind = "dir"
        remarks.append(f"mapping {source} of profile {title} has no type; dir was used")
    made: ManifestDict = {"source": source, "destination": destination, "type": kind}
    made |= {key: True for key in ("required", "template") if one.get(key)}
    for patch in _list_at(one, "patches"):
        if not isinstance(patch, dict):
            raise InvalidValue(f"mapping {source} of profile {title} has a patch that is not an object")
        file = patch.get("file", "")
        place = destination if not file else f"{destination}/{file}".removeprefix("./")
        wanted = {_json_path(str(key)): value for key, value in _block_at(patch, "set").items()}
        patches.append({"file": place, "set": wanted})
    return made


def _json_path(dotted: str) -> str:
    """Convert `a.b.0` to `.a.b[0]`; `a\\.b` is a key with a dot in it."""
    steps = [re.sub(r"\\(.)", r"\1", one) for one in _STEP.findall(dotted)]
    return "".join(
        f"[{one}]" if one.isdigit() else f".{one}" if _PLAIN_KEY.fullmatch(one) else f'.["{one}"]'
        for one in steps
    )


def _unknown_field_remarks(block: Mapping[str, Any], known: tuple[str, ...], where: str) -> Iterator[str]:
    return (f"{where}.{key} is unknown and was left out" for key in block if key not in known)


def _block_at(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = of.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidValue(f"{key} of the GatewaySync is not an object")
    return found


def _list_at(of: Mapping[str, Any], key: str) -> list[Any]:
    found = of.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise InvalidValue(f"{key} of the GatewaySync is not a list")
    return list(found)


def _strictness(policy: str) -> int:
    return _STRICTNESS.index(policy) if policy in _STRICTNESS else 0
