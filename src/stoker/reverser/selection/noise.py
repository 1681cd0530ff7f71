"""Recognize objects that a controller recreates by itself and that would only fill the history.

Ingest and export call it once for each selected object, before the object is rendered. Each answer is a
reason in words, for `--explain`. A kind is always its group and its plural: a `Service` of another API group
is not the core `Service`.

In doubt an object is written: to leave out an object that a person made would be worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.domain.protocol.names import CR_KIND_LABEL, CR_NAME_LABEL
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.preset import GroupResource

CONFIG_MAPS = GroupResource("", "configmaps")
SECRETS = GroupResource("", "secrets")
_SERVICES = GroupResource("", "services")
_RBAC = "rbac.authorization.k8s.io"

LEADER_ANNOTATION = "control-plane.alpha.kubernetes.io/leader"
HELM_RELEASE_NAME = "sh.helm.release.v1."
HELM_RELEASE_TYPE = "helm.sh/release.v1"

# ConfigMaps that a controller creates in every namespace, or that the control plane manages for itself.
_GENERATED_MAPS = {
    "kube-root-ca.crt": "the control plane puts it into every namespace",
    "openshift-service-ca.crt": "the control plane puts it into every namespace",
    "istio-ca-root-cert": "the mesh puts it into every namespace",
    "linkerd-identity-trust-roots": "the mesh keeps it",
}
_SERVER_MANAGED_MAPS = {
    ("kube-system", "extension-apiserver-authentication"): "the API server keeps it",
    ("kube-system", "kube-apiserver-legacy-service-account-token-tracking"): "the API server keeps it",
    ("kube-public", "cluster-info"): "it changes with every token to join the cluster",
}


def noise_reason(obj: Mapping[str, Any], key: ManifestKey) -> str | None:
    """Return why the object gets no file; None if it gets a file."""
    metadata = obj.get("metadata") or {}
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    kind = GroupResource(key.group, key.resource)
    if kind == CONFIG_MAPS and (why := _noisy_map_reason(key, labels)):
        return why
    if LEADER_ANNOTATION in annotations:
        return "it is where controllers elect their leader"
    if (owner := _controller_of(metadata)) is not None:
        return f"{owner} owns it and makes it again"
    if kind in (CONFIG_MAPS, SECRETS) and is_helm_release(obj, key):
        return "it is a release of Helm, which keeps its own history"
    return _server_managed_reason(kind, key, labels, annotations)


def is_helm_release(obj: Mapping[str, Any], key: ManifestKey) -> bool:
    """Return whether this Secret or ConfigMap stores a Helm release."""
    labels = (obj.get("metadata") or {}).get("labels") or {}
    return (
        obj.get("type") == HELM_RELEASE_TYPE
        or key.name.startswith(HELM_RELEASE_NAME)
        or labels.get("OWNER") == "TILLER"
    )


def _noisy_map_reason(key: ManifestKey, labels: Mapping[str, str]) -> str | None:
    if CR_NAME_LABEL in labels and CR_KIND_LABEL in labels:
        return "controller and agents of this product speak through it"
    return _GENERATED_MAPS.get(key.name) or _SERVER_MANAGED_MAPS.get((key.namespace, key.name))


def _controller_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the controlling owner; an owner that is only used for garbage collection does not count."""
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return f"{owner.get('kind', '')} {owner.get('name', '')}"
    return None


def _server_managed_reason(
    kind: GroupResource, key: ManifestKey, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> str | None:
    if kind == _SERVICES and (key.namespace, key.name) == ("default", "kubernetes"):
        return "the API server keeps it"
    if kind.group == _RBAC and labels.get("kubernetes.io/bootstrapping") == "rbac-defaults":
        # A user who takes over such a role sets autoupdate to false; the role then belongs to the user.
        if annotations.get("rbac.authorization.kubernetes.io/autoupdate") == "true":
            return "the API server keeps it as long as its annotation autoupdate is true"
    elif kind.group == "apiregistration.k8s.io" and "kube-aggregator.kubernetes.io/automanaged" in labels:
        return "the API server registers it by itself"
    return None
