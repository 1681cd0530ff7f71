"""A gateway's pod as the adapters see it: names, labels, annotations, and the gateway's identity.

Without a cluster there is no pod, and a user writes the same facts into a file. Only this
module computes the gateway's name and its status key, so that injector, controller and
agent cannot disagree about them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stoker.domain.errors import InvalidValue

PREFIX = "stoker.io/"
LEGACY_PREFIX = "ignition-sync.io/"
NAME_LABEL = "app.kubernetes.io/name"

_ORDINAL_LABEL = "apps.kubernetes.io/pod-index"
_STATEFUL_LABEL = "statefulset.kubernetes.io/pod-name"
_MAX_KEY = 253
_MAX_SHOWN = 80


class PodAnnotationKey(StrEnum):
    """Names of a pod's annotations after the prefix."""

    INJECT = "inject"
    CR_NAME = "cr-name"
    CR_KIND = "cr-kind"
    GATEWAY_NAME = "gateway-name"
    SERVICE_PATH = "service-path"
    SYNC_PROFILE = "sync-profile"
    REF_OVERRIDE = "ref-override"
    DEPLOYMENT_MODE = "deployment-mode"
    SYNC_PERIOD = "sync-period"
    EXCLUDE_PATTERNS = "exclude-patterns"
    SYSTEM_NAME = "system-name"
    SYSTEM_NAME_TEMPLATE = "system-name-template"
    TIME_ZONE = "time-zone"
    LOCALE = "locale"
    TAG_PROVIDER = "tag-provider"
    EXCLUDE_TAG_PROVIDERS = "exclude-tag-providers"
    TAG_INHERITANCE_STRATEGY = "tag-inheritance-strategy"
    REDUNDANCY_ROLE = "redundancy-role"
    PEER_GATEWAY_NAME = "peer-gateway-name"
    GATEWAY_PORT = "gateway-port"
    GATEWAY_TLS = "gateway-tls"
    DATA_VOLUME = "data-volume"
    SNAPSHOT_VOLUME = "snapshot-volume"
    APPROVED_PLAN = "approved-plan"
    AGENT_IMAGE = "agent-image"
    INJECTED = "injected"
    """Written by the injector: the digest of the injected sidecar."""


@dataclass(frozen=True, slots=True)
class PodAnnotation:
    """An annotation with its actual name, so that an error message can name it."""

    name: str
    value: str

    def refused(self, why: str) -> InvalidValue:
        shown = self.value if len(self.value) <= _MAX_SHOWN else self.value[: _MAX_SHOWN - 3] + "..."
        return InvalidValue(f"annotation {self.name} is {shown!r}, but {why}")


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The relevant fields of a gateway's pod."""

    name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def annotation(self, key: PodAnnotationKey) -> PodAnnotation | None:
        """Return an annotation; the new prefix wins over the legacy one; an empty value counts as unset."""
        for prefix in (PREFIX, LEGACY_PREFIX):
            value = self.annotations.get(prefix + key, "").strip()
            if value:
                return PodAnnotation(prefix + key, value)
        return None

    @property
    def ordinal(self) -> str:
        """The pod's ordinal in its StatefulSet; empty for every other pod."""
        if self.labels.get(_STATEFUL_LABEL) == self.name:
            # Clusters before 1.28 do not set the label of the ordinal.
            return self.labels.get(_ORDINAL_LABEL) or self.name.rpartition("-")[2]
        return self.labels.get(_ORDINAL_LABEL, "")


def gateway_name(pod: PodFacts) -> str:
    """Return the identity of a gateway: its annotation, else the usual label, else the pod's name."""
    chosen = pod.annotation(PodAnnotationKey.GATEWAY_NAME)
    if chosen is not None:
        return check_gateway_name(chosen)
    return pod.labels.get(NAME_LABEL) or pod.name


def check_gateway_name(annotation: PodAnnotation) -> str:
    """Check a gateway's name, a later folder name and template value: it must be harmless in both."""
    value = annotation.value
    if len(value) > _MAX_KEY or not value.isprintable() or re.search(r"[/\\{}]", value):
        raise annotation.refused(
            f"a gateway's name has at most {_MAX_KEY} printable characters and none of / \\ {{ }}"
        )
    if value.startswith((".", "-")) or value.endswith("."):
        raise annotation.refused("a gateway's name neither begins with '.' or '-' nor ends with '.'")
    return value


def status_key(name: str) -> str:
    """Return the key of a gateway in a ConfigMap.

    In a name that is no legal key, illegal characters are replaced and a hash is appended,
    which distinguishes it from other names with the same replacement.
    """
    safe = re.sub(r"[^-._A-Za-z0-9]|^\.", "_", name)
    if safe == name and 0 < len(name) <= _MAX_KEY:
        return name
    tail = "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
    return safe[: _MAX_KEY - len(tail)] + tail
