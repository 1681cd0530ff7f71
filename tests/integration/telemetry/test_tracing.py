"""One trace over several real processes: from the webhook to the status, and from a watch to a push.

The collector is a real receiver of OTLP over HTTP that decodes what it is sent.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain.pods.injection import parse_environment
from stoker.domain.protocol import SyncState
from stoker_testkit.chart.helm import Helm
from stoker_testkit.cluster.cluster_access import ClusterAccess, CommandFailed
from stoker_testkit.environments.agent_environment import AgentEnvironment, project
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.gateway.simulated_gateway import KEY
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.reverser_environment import ReverserSite
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.services.otlp_collector import TraceCollector
from stoker_testkit.wait_until import eventually

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
"""The trace of the pipeline that sends the webhook."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[TraceCollector]:
    with TraceCollector.start() as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def operated(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Site]:
    with Site.prepare(kinds, namespace, tmp_path) as made:
        yield made


def call(
    port: int, namespace: str, traceparent: str, body: dict[str, object], key: str = planted("webhook-key")
) -> None:
    content = json.dumps(body).encode()
    signature = hmac.new(key.encode(), content, hashlib.sha256).hexdigest()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/webhook/{namespace}/plant",
        content,
        {
            "Content-Type": "application/json",
            "X-Hub-Signature-256": f"sha256={signature}",
            "traceparent": traceparent,
        },
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - the same
        assert answer.status == 202


def test_one_trace_from_the_webhook_to_the_status(
    operated: Site, plant: AgentEnvironment, git_http: GitHttpServer, collector: TraceCollector
) -> None:
    first = plant.commit(project("filler", 1))
    [port] = free_ports(1)
    operated.secret("hook", hmac=planted("webhook-key"))
    operated.secret("gw", key=KEY)
    spec = {
        "git": {"repo": git_http.url("plant.git"), "ref": "main"},
        "polling": {"enabled": False},
        "webhook": {"secretRef": {"name": "hook", "key": "hmac"}},
        "gateway": {"port": 8088, "tls": False, "apiKeySecretRef": {"name": "gw", "key": "key"}},
    }
    operated.apply("Stoker", "plant", **spec)  # type: ignore[arg-type]
    operated.pod("gateway-0", "plant", gateway="filler")
    operated.start(f"--receiver-bind-address=127.0.0.1:{port}")
    operated.until_metadata("plant", commit=first)
    pod = plant.pod(sync_period="1")
    plant.join_gateway(pod)
    operated.until("Stoker", "plant", "Ready", "GatewaysSynced")

    second = plant.commit(project("filler", 2))
    call(port, operated.namespace, CALLER, {"ref": "refs/heads/main", "after": str(second)})
    plant.maps.until_report("filler", sync_status=SyncState.SYNCED, synced_commit=second, verified=True)
    operated.until("Stoker", "plant", "Ready", "GatewaysSynced")
    trace = CALLER.split("-")[1]
    agent = collector.until("agent.pass", lambda one: one.attributes.get("stoker.commit") == str(second))
    assert agent.trace == trace
    wanted = {
        "webhook.receive": "stoker-controller",
        "webhook.annotate": "stoker-controller",
        "controller.reconcile": "stoker-controller",
        "git.resolve": "stoker-controller",
        "metadata.publish": "stoker-controller",
        "agent.pass": "stoker-agent",
        "git.fetch": "stoker-agent",
        "files.plan": "stoker-agent",
        "files.stage": "stoker-agent",
        "files.merge": "stoker-agent",
        "gateway.scan": "stoker-agent",
        "gateway.verify": "stoker-agent",
        "status.report": "stoker-agent",
        "status.write": "stoker-controller",
    }
    for name, service in wanted.items():
        found = collector.until(name, lambda one: one.trace == trace)
        assert found.service == service, name
        assert found.start <= found.end, name
    assert collector.path_of(agent) == [
        "webhook.receive",
        "webhook.annotate",
        "controller.reconcile",
        "agent.pass",
    ]
    received = collector.until("webhook.receive", lambda one: one.trace == trace)
    assert received.parent == CALLER.split("-")[2]
    assert received.attributes["stoker.source"] == "generic"
    last = eventually(
        lambda: [
            one
            for one in collector.named("controller.reconcile")
            if one.trace == trace and one.start > agent.start
        ],
        PATIENCE,
        "the pass that gathers the report belongs to the trace",
    )
    assert last[0].service == "stoker-controller"
    assert collector.complaints == []
    assert not [one for one in collector.spans if planted("webhook-key") in str(one.attributes)]


@pytest.mark.long
def test_what_is_no_traceparent_begins_a_trace_of_its_own(
    operated: Site, repositories: Path, git_http: GitHttpServer, collector: TraceCollector
) -> None:
    repository = Repository.create(repositories / "plant.git")
    repository.commit({"README.md": "one"})
    [port] = free_ports(1)
    operated.secret("hook", hmac=planted("webhook-key"))
    webhook = {"secretRef": {"name": "hook", "key": "hmac"}}
    source = {"repo": git_http.url("plant.git"), "ref": "main"}
    operated.apply("Stoker", "plant", git=source, webhook=webhook, gateway={"filesOnly": True})
    operated.start(f"--receiver-bind-address=127.0.0.1:{port}")
    operated.until("Stoker", "plant", "Ready", "RefResolved")
    call(port, operated.namespace, '00-evil" or 1=1-00f067aa0ba902b7-01', {"ref": "refs/heads/main"})
    received = collector.until("webhook.receive")
    assert received.parent == ""
    sent_traceparent = operated.get("Stoker", "plant")["metadata"]["annotations"]["stoker.io/traceparent"]
    assert sent_traceparent.split("-")[1] == received.trace

    operated.annotate("Stoker", "plant", traceparent="x" * 500, nudged_at="2026-11-16T00:00:00Z")
    tip = repository.commit({"README.md": "two"})
    call(port, operated.namespace, "", {"ref": "refs/heads/main"})
    metadata = operated.until_metadata("plant", commit=tip)
    assert metadata.traceparent.split("-")[1] != received.trace
    assert collector.until(
        "controller.reconcile", lambda one: one.attributes.get("stoker.commit") == str(tip)
    )


def test_one_trace_from_a_watch_to_the_push(
    site: ReverserSite, prod: Repository, collector: TraceCollector
) -> None:
    site.follow_maps()
    site.start()
    site.until("WatchRule", "maps", "Initialized")
    site.config_map("colours", {"first": "red"})
    site.until_files(prod, {site.map_path("colours"): "red"})
    push = collector.until("git.push")
    [change] = [one for one in collector.named("reverser.change") if one.id == push.parent] or [
        collector.until("reverser.change", lambda one: one.id == push.parent)
    ]
    event = collector.until("watch.event", lambda one: one.trace == push.trace)
    assert (event.parent, change.parent) == (change.id, "")
    assert change.service == "gitops-reverser"
    assert event.start <= push.start <= push.end <= change.end
    seen = collector.until("watch.event", lambda one: "colours" in one.attributes["stoker.objects"])
    assert seen.attributes["stoker.objects"].startswith("CREATE ")


def test_without_a_collector_nothing_of_it_is_loaded() -> None:
    code = (
        "import sys; from stoker.telemetry import tracing; tracing.begin('x', {});"
        "ctx = tracing.span('a', parent='b', c=1); ctx.__enter__().say(d=2);"
        "print(tracing.traceparent() == '', [m for m in sys.modules if m.startswith('opentelemetry')])"
    )
    assert _printed(code) == "True []\n"


@pytest.mark.parametrize(
    "more",
    [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}],
)
def test_the_usual_variables_turn_it_off(more: dict[str, str]) -> None:
    code = (
        "from stoker.telemetry import tracing;"
        f"tracing.begin('x', {{'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://127.0.0.1:1', **{more!r}}});"
        "print(tracing.is_tracing())"
    )
    assert _printed(code) == "False\n"


def _printed(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_the_chart_configures_the_collector_for_all_processes_and_agents(tmp_path: Path) -> None:
    values = {
        "tracing": {"endpoint": "http://collector:4318", "env": {"OTEL_TRACES_SAMPLER_ARG": "0.1"}},
        "audit": {"events": True, "syslog": {"address": "tls://siem:6514", "ca": "-----BEGIN\nx\n"}},
        "reverser": {"enabled": True},
    }
    objects = Helm(tmp_path).template(values)
    pods = {
        one["metadata"]["name"].removeprefix("stoker-"): one["spec"]["template"]["spec"]["containers"][0]
        for one in objects
        if one["kind"] == "Deployment"
    }
    for container in pods.values():
        fields = {one["name"]: one.get("value") for one in container["env"]}
        assert fields["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    given = [
        sorted(word.removeprefix("--agent-env=") for word in container["args"] if "--agent-env" in word)
        for container in pods.values()
    ]
    assert [list(map("=".join, parse_environment(words))) for words in given if words] == 2 * [
        [
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318",
            "OTEL_TRACES_SAMPLER_ARG=0.1",
            "STOKER_AUDIT_SYSLOG=tls://siem:6514",
            "STOKER_AUDIT_SYSLOG_CA=-----BEGIN\nx\n",
            "STOKER_AUDIT_SYSLOG_FACILITY=audit",
        ]
    ], "the injector and the check for outdated agents get the same"
    assert sum("--audit-events" in container["args"] for container in pods.values()) == 1
    quiet = json.dumps(Helm(tmp_path).template())
    assert "OTEL_" not in quiet
    assert "--agent-env" not in quiet
    with pytest.raises(CommandFailed):
        Helm(tmp_path).template({"tracing": {"env": {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=x"}}})
