"""The addresses that a process of the cluster connects to on behalf of a resource."""

from __future__ import annotations

import ipaddress

import pytest

from stoker.domain.egress import EgressPolicy, is_service, is_service_of
from stoker.domain.errors import Misconfigured

POLICY = EgressPolicy.of([], ["10.96.0.0/12", "fd12::/48"], {"KUBERNETES_SERVICE_HOST": "172.20.0.1"})

REFUSED = [
    ("127.0.0.1", "loopback"),
    ("127.255.0.3", "loopback"),
    ("::1", "loopback"),
    ("0.0.0.0", "unspecified"),  # noqa: S104 - as an address to connect to
    ("0.1.2.3", "unspecified"),
    ("::", "unspecified"),
    ("169.254.169.254", "link-local"),
    ("169.254.1.1", "link-local"),
    ("fe80::1", "link-local"),
    ("fec0::1", "link-local"),
    ("100.100.100.200", "metadata"),
    ("168.63.129.16", "metadata"),
    ("192.0.0.192", "metadata"),
    ("fd00:ec2::254", "metadata"),
    ("fd20:ce::254", "metadata"),
    ("224.0.0.251", "multicast"),
    ("ff02::fb", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "reserved"),
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:169.254.169.254", "link-local"),
    ("::127.0.0.1", "loopback"),
    ("2002:7f00:1::", "loopback"),
    ("2002:a9fe:a9fe::1", "link-local"),
    ("64:ff9b::127.0.0.1", "loopback"),
    ("64:ff9b::a9fe:a9fe", "link-local"),
    ("64:ff9b:1::a9fe:a9fe", "link-local"),
    ("64:ff9b:1:a9fe:a9:fe00::", "link-local"),
    ("64:ff9b:1:a9:fe:a9fe::", "link-local"),
    ("64:ff9b:1:0:7f:0:100:0", "loopback"),
    ("::ffff:0:a9fe:a9fe", "link-local"),
    ("2001:0:a9fe:a9fe::1", "link-local"),
    ("2001:db8::5efe:7f00:1", "loopback"),
    ("2001:db8::200:5efe:7f00:1", "loopback"),
    ("10.96.0.1", "cluster's own ranges"),
    ("::ffff:10.96.0.1", "cluster's own ranges"),
    ("fd12::7", "cluster's own ranges"),
    ("172.20.0.1", "API server"),
    ("64:ff9b::172.20.0.1", "API server"),
]
ALLOWED = [
    "10.0.0.7",
    "172.16.4.4",
    "192.168.1.10",
    "100.64.0.1",
    "fd00::7",
    "140.82.121.4",
    "2606:50c0:8000::153",
    "::ffff:192.168.1.10",
    "64:ff9b::140.82.121.4",
    "64:ff9b:1::140.82.121.4",
]


@pytest.mark.parametrize(("address", "why"), REFUSED)
def test_refused_addresses(address: str, why: str) -> None:
    refusal = POLICY.refuses_address(ipaddress.ip_address(address))
    assert refusal is not None
    assert why in refusal


@pytest.mark.parametrize("address", ALLOWED)
def test_private_and_public_addresses_are_allowed(address: str) -> None:
    assert POLICY.refuses_address(ipaddress.ip_address(address)) is None


def test_a_literal_is_judged_as_the_address_that_it_is() -> None:
    for host in ("127.0.0.1", "[::1]", "fe80::1%eth0", "169.254.169.254."):
        assert POLICY.refuses_name(host) is not None, host
    assert POLICY.refuses_name("10.0.0.7") is None


@pytest.mark.parametrize(
    "host",
    [
        *("2130706433", "127.1", "0x7f.0.0.1", "0177.0.0.1", "0", "2852039166", "0xa9fea9fe"),
        *("①②⑦.0.0.1", "127。0。0。1", "%31%32%37.0.0.1", "ⓛocalhost", "%6cocalhost", "localhost.."),
        *("kubernetes。default。svc", "gitea.git.\uff53vc", "gitea%2egit%2esvc"),
    ],
)
def test_a_proxy_gets_no_refused_host_in_another_notation(host: str) -> None:
    assert POLICY.refuses_name(host) is not None


@pytest.mark.parametrize(
    "host",
    [
        "kubernetes.default.svc",
        "KUBERNETES.default.svc.",
        "kubernetes",
        "kubernetes.default",
        "gitea.git.svc",
        "gitea.git.svc.cluster.local",
        "gitea.git.svc.corp.internal",
        "10-1-2-3.git.pod.cluster.local",
        "localhost",
        "x.localhost",
    ],
)
def test_names_of_the_cluster_and_of_the_machine_are_refused(host: str) -> None:
    assert POLICY.refuses_name(host) is not None


@pytest.mark.parametrize("host", ["forge.example.com", "svc-7.example.com", "gitea", "forge.plant.local"])
def test_other_names_are_resolved_first(host: str) -> None:
    assert POLICY.refuses_name(host) is None


def test_the_installation_allows_networks_hosts_and_domains() -> None:
    policy = EgressPolicy.of(["127.0.0.0/8", "::1", "gitea.git.svc", "*.tools.svc"], ["10.96.0.0/12"])
    assert policy.refuses_address(ipaddress.ip_address("127.0.0.1")) is None
    assert policy.refuses_address(ipaddress.ip_address("::1")) is None
    assert policy.refuses_name("localhost") is None
    assert policy.refuses_name("Gitea.git.svc.") is None
    assert policy.refuses_name("minio.tools.svc") is None
    assert policy.refuses_name("tools.svc") is not None
    assert policy.refuses_name("other.git.svc") is not None
    assert policy.allows_host("gitea.git.svc")
    assert not policy.allows_host("evil-gitea.git.svc")
    assert not policy.allows_host("kubernetes.default.svc%2f.tools.svc")
    assert policy.refuses_name("kubernetes.default.svc%2f.tools.svc") is not None
    assert policy.refuses_address(ipaddress.ip_address("10.96.0.9")) is not None


def test_services_of_a_namespace_may_be_named_and_no_others() -> None:
    assert POLICY.refuses_name("filler.plant.svc", services_of="plant") is None
    assert POLICY.refuses_name("filler-0.filler.plant.svc.cluster.local", services_of="plant") is None
    assert POLICY.refuses_name("filler.otherplant.svc", services_of="plant") is not None
    assert POLICY.refuses_name("plant.git.svc", services_of="plant") is not None
    assert POLICY.refuses_name("kubernetes.default.svc", services_of="default") is not None
    inside = ipaddress.ip_address("10.96.4.4")
    assert POLICY.refuses_address(inside, in_cluster=True) is None
    assert POLICY.refuses_address(ipaddress.ip_address("127.0.0.1"), in_cluster=True) is not None
    assert POLICY.refuses_address(ipaddress.ip_address("172.20.0.1"), in_cluster=True) is not None


def test_an_agent_calls_services_of_its_own_namespace() -> None:
    agent = EgressPolicy.of([], namespace="plant")
    assert agent.refuses_name("minio.plant.svc") is None
    assert agent.may_be_called("minio.plant.svc.cluster.local")
    assert agent.refuses_name("minio.tools.svc") is not None


def test_names_of_services() -> None:
    assert is_service("a.b.svc")
    assert not is_service("a.svc2.com")
    assert is_service_of("a.b.svc.cluster.local", "b")
    assert not is_service_of("a.b", "b")
    assert not is_service_of("a.b.svc", "")


@pytest.mark.parametrize("host", ["a.svc.dev", "a.svc.example.dev", "svc.dev", "dev.svc", "xdev.svc"])
def test_a_public_name_that_ends_like_a_namespace_is_no_service_of_it(host: str) -> None:
    assert not is_service_of(host, "dev")
    assert POLICY.refuses_name(host, services_of="dev") is not None


@pytest.mark.parametrize("entry", ["", "10.0.0.0/99", "https://forge", "a b", "1.2.3", "*", "-x.example"])
def test_an_entry_that_is_neither_network_nor_host_is_refused(entry: str) -> None:
    with pytest.raises(Misconfigured, match="--egress-allow"):
        EgressPolicy.of([entry])


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(Misconfigured, match="--egress-cluster-range"):
        EgressPolicy.of([], ["everything"])
