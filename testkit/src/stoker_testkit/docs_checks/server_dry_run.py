"""Asks a real API server about manifests of a page, and keeps none.

Each is a server-side apply as a dry run with strict fields, so what has a schema is held
against it, and our own admission judges too where it is there. `install_kinds_of_others` lets an
API server know what Argo CD, Flux and others would have brought.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stoker.api.manifests.yaml import load_documents
from stoker_testkit.assets import third_party_crds
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.wait_until import eventually

CONSTRAINTS = "constraints.gatekeeper.sh"
_MATCH = "match.gatekeeper.sh_matchcrd.yaml"
"""The schema of a constraint's match; Gatekeeper's own, though no cluster has this kind."""
_PATIENCE = 30.0


class ServerDryRun:
    """Sends manifests to the API server and keeps none."""

    def __init__(self, cluster: ClusterAccess, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._resources: dict[str, dict[str, tuple[str, bool]]] = {}

    def trouble(self, manifest: dict[str, Any]) -> str | None:
        """Why it is not taken, or for how long it will be."""
        version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
        served = self._served(version).get(kind)
        if served is None:
            return f"the API server has no {version} {kind}, and neither has FOREIGN"
        plural, namespaced = served
        head: dict[str, Any] = dict(manifest.get("metadata") or {})
        # The approver must be the user of the annotation, and that is no user of this cluster.
        head["annotations"] = {
            name: text for name, text in (head.get("annotations") or {}).items() if "/approve" not in name
        }
        body = {**manifest, "metadata": {**head, **({"namespace": self._namespace} if namespaced else {})}}
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        within = f"/namespaces/{self._namespace}" if namespaced else ""
        place = f"{group}{within}/{plural}/{head.get('name', '')}"
        answer = self._cluster.request(
            "PATCH",
            f"{place}?dryRun=All&fieldValidation=Strict&fieldManager=documents&force=true",
            body,
            content_type="application/apply-patch+yaml",
        )
        status: Any = answer.json()
        if answer.status not in (200, 201):
            return str(status.get("message"))
        # Our own admission warns of what a page leaves to its reader, such as a base that is not there yet.
        return next((one for one in answer.warnings if "deprecated" in one), None)

    def serves(self, manifest: dict[str, Any]) -> bool:
        return str(manifest["kind"]) in self._served(str(manifest["apiVersion"]))

    def _served(self, version: str) -> dict[str, tuple[str, bool]]:
        if version not in self._resources:
            path = f"/apis/{version}" if "/" in version else f"/api/{version}"
            answer = self._cluster.request("GET", path)
            listed: Any = answer.json() if answer.status == 200 else {}
            self._resources[version] = {
                one["kind"]: (one["name"], one["namespaced"])
                for one in listed.get("resources", ())
                if "/" not in one["name"]
            }
        return self._resources[version]


def install_kinds_of_others(cluster: ClusterAccess, of: str = "") -> None:
    """The definitions that the pins have, all of them or those of a group, served when this returns."""
    folder = third_party_crds.ensure()
    files = sorted(path for path in folder.glob(f"{of}*.yaml") if path.name != _MATCH)
    _install(cluster, [one for path in files for one in _definitions(path)])


def install_constraints(cluster: ClusterAccess, template: dict[str, Any]) -> None:
    """The kind that Gatekeeper would make of a template: what it selects, and the template's parameters."""
    made = template["spec"]["crd"]["spec"]
    kind = made["names"]["kind"]
    (match,) = _definitions(third_party_crds.ensure() / _MATCH)
    dummy = match["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    spec = {
        "enforcementAction": {"type": "string"},
        "match": dummy["embeddedMatch"],
        "parameters": made["validation"]["openAPIV3Schema"],
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    _install(
        cluster,
        [
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{kind.lower()}.{CONSTRAINTS}"},
                "spec": {
                    "group": CONSTRAINTS,
                    "names": {"kind": kind, "plural": kind.lower()},
                    "scope": "Cluster",
                    "versions": [version],
                },
            }
        ],
    )


def _definitions(path: Path) -> list[dict[str, Any]]:
    found: list[Any] = [one for one in load_documents(path.read_bytes()) if one]
    for one in found:
        spec = one["spec"]
        # No program of theirs runs here that could convert between versions.
        spec.pop("conversion", None)
        # A manifest of a deprecated version is then refused, and the API server has less to compile.
        spec["versions"] = [
            each for each in spec["versions"] if each["storage"] or not each.get("deprecated")
        ]
        spec["versions"] = _undescribed(spec["versions"])
    return found


def _undescribed(schema: Any) -> Any:
    """Without its prose, which is most of a definition and decides nothing."""
    if isinstance(schema, list):
        return [_undescribed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = (key for key, value in schema.items() if key != "description" or not isinstance(value, str))
    return {key: _undescribed(schema[key]) for key in kept}


def _install(cluster: ClusterAccess, definitions: list[dict[str, Any]]) -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": definitions}
    cluster.kubectl("apply", "--server-side", "--validate=false", "-f", "-", stdin=json.dumps(items))
    for one in definitions:
        group = one["spec"]["group"]
        version = next(each["name"] for each in one["spec"]["versions"] if each["served"])
        _served_at(cluster, f"/apis/{group}/{version}/{one['spec']['names']['plural']}")


def _served_at(cluster: ClusterAccess, place: str) -> None:
    eventually(lambda: cluster.request("GET", place).status == 200, _PATIENCE, place)
