"""The connections that NetworkPolicies allow, by the rules of their API.

    policies = NetworkPolicies(objects)
    policies.lets_in(pod, 9443, Peer("10.0.0.1"))

No network of a test enforces policies, so this reads them as one that does would: a pod
that no policy selects is open; a selected one lets through what any rule of any policy
names. Selectors by expression are not needed here, and are refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PolicyPeer:
    """The other end: an address, and where it is a pod's, its labels and those of its namespace."""

    address: str
    labels: Labels | None = None
    namespace: str = ""
    namespace_labels: Labels | None = None


@dataclass(frozen=True, slots=True)
class PolicyPod:
    """The end that policies are for."""

    labels: Labels
    namespace: str


class NetworkPolicies:
    """All policies of a cluster; other objects are passed over."""

    def __init__(self, objects: Iterable[Mapping[str, Any]]) -> None:
        self._policies = [one for one in objects if one["kind"] == "NetworkPolicy"]

    def lets_in(self, pod: PolicyPod, port: int, peer: PolicyPeer, protocol: str = "TCP") -> bool:
        return self._lets("Ingress", pod, port, peer, protocol)

    def lets_out(self, pod: PolicyPod, port: int, peer: PolicyPeer, protocol: str = "TCP") -> bool:
        return self._lets("Egress", pod, port, peer, protocol)

    def _lets(self, way: str, pod: PolicyPod, port: int, peer: PolicyPeer, protocol: str) -> bool:
        chosen = [one for one in self._selecting(pod) if way in one["spec"]["policyTypes"]]
        rules = [rule for one in chosen for rule in one["spec"].get(way.lower(), ())]
        ends = "from" if way == "Ingress" else "to"
        return not chosen or any(
            _fits_port(rule.get("ports"), port, protocol) and _fits_peer(rule.get(ends), peer, pod.namespace)
            for rule in rules
        )

    def _selecting(self, pod: PolicyPod) -> Iterator[Mapping[str, Any]]:
        for one in self._policies:
            if one["metadata"]["namespace"] == pod.namespace and _matches(
                one["spec"]["podSelector"], pod.labels
            ):
                yield one


def _fits_port(ports: Iterable[Mapping[str, Any]] | None, port: int, protocol: str) -> bool:
    """An empty rule means every port."""
    return not ports or any(
        each.get("protocol", "TCP") == protocol and each.get("port", port) == port for each in ports
    )


def _fits_peer(peers: Iterable[Mapping[str, Any]] | None, peer: PolicyPeer, home: str) -> bool:
    """An empty rule means every peer."""
    return not peers or any(_is(each, peer, home) for each in peers)


def _is(rule: Mapping[str, Any], peer: PolicyPeer, home: str) -> bool:
    if "ipBlock" in rule:
        network = ipaddress.ip_network(rule["ipBlock"]["cidr"])
        return ipaddress.ip_address(peer.address) in network
    if peer.labels is None:
        return False  # selectors mean pods
    if "namespaceSelector" in rule:
        if not _matches(rule["namespaceSelector"], peer.namespace_labels or {}):
            return False
    elif peer.namespace != home:
        return False
    return _matches(rule.get("podSelector", {}), peer.labels)


def _matches(selector: Mapping[str, Any], labels: Labels) -> bool:
    if selector.keys() - {"matchLabels"}:
        raise ValueError(f"only matchLabels is read here, not {', '.join(selector)}")
    wanted = selector.get("matchLabels", {})
    return all(labels.get(name) == value for name, value in wanted.items())
