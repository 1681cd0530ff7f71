"""Audit records on their way out: by syslog from real agents, as Events from a real controller."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.cli.exit_codes import ExitCode
from stoker.domain.protocol import HistoryEntryReport
from stoker_testkit.certificates import Authority
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.docs_checks.documented_metrics import documented, shown_on
from stoker_testkit.environments.agent_environment import FILES_ONLY, AgentEnvironment, project
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.environments.sample_manifests import line_manifests
from stoker_testkit.environments.sync_watch_environment import WatchedFolder
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.services.syslog_server import SyslogServer
from stoker_testkit.wait_until import eventually

PAGE = Path(__file__).parents[3] / "docs" / "observability.md"
OF_THE_AUDIT = documented(PAGE.read_text())["Audit by syslog"]
FIELDS = [
    "timestamp",
    "cr",
    "namespace",
    "gateway",
    "podName",
    "trigger",
    "commit",
    "ref",
    "filesChanged",
    "projectsSynced",
    "duration",
    "result",
    "scanResult",
]


def test_an_agent_syncs_while_its_log_server_is_away_and_sends_records_afterwards(
    plant: AgentEnvironment, tmp_path: Path
) -> None:
    authority, [port] = Authority(), free_ports(1)
    commit = plant.commit(project("filler", 1))
    plant.publish(commit, trigger="webhook", agent_spec=plant.spec(gateway=FILES_ONLY))
    pod = plant.pod(talks=False)
    syslog = {
        "STOKER_AUDIT_SYSLOG": f"tls://127.0.0.1:{port}",
        "STOKER_AUDIT_SYSLOG_FACILITY": "local3",
        "STOKER_AUDIT_SYSLOG_CA": authority.pem.decode(),
    }
    pod.start(plant.kubeconfig, env=syslog)
    plant.until_synced(pod, commit)
    pair = authority.server().save(tmp_path, "siem")
    with SyslogServer.start("tls", tls=pair, port=port) as server:
        eventually(lambda: server.messages, PATIENCE, lambda: f"a record; {server.complaints}")
        [message] = server.messages
    assert list(message.record) == FIELDS
    assert message.record == json.loads((pod.data_dir / ".sync-state" / "audit.jsonl").read_text())
    assert (message.record["commit"], message.record["trigger"]) == (commit, "webhook")
    assert (message.facility, message.severity, message.host) == (19, 6, "gateway-0")
    assert f'gateway="filler" trigger="webhook" result="{message.record["result"]}"' in message.data


def test_one_sync_sends_its_record_to_a_log_server_before_it_ends(
    tmp_path: Path, repositories: Path, git_http: GitHttpServer
) -> None:
    repository = Repository.create(repositories / "plant.git")
    commit = repository.commit({"projects/site/project.json": "{}"})
    data = tmp_path / "data"
    data.mkdir()
    source = [f"--repo={git_http.url('plant.git')}", "--ref=main", f"--cache-dir={tmp_path / 'cache'}"]
    words = ["sync", *source, f"--data-dir={data}"]
    with SyslogServer.start("unix", path=tmp_path / "log") as server:
        done = subprocess.run(
            [sys.executable, "-m", "stoker", *words, "--map=projects:projects"],
            env={**os.environ, "STOKER_AUDIT_SYSLOG": server.address},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        eventually(lambda: server.messages, PATIENCE, lambda: f"a record; {server.complaints}")
        [message] = server.messages
    assert (message.record["commit"], message.record["result"], message.record["trigger"]) == (
        commit,
        "success",
        "manual",
    )


def test_a_watched_folder_counts_sent_records_over_all_reads_of_its_file(
    tmp_path: Path, git_http: GitHttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = WatchedFolder(tmp_path, git_http)
    site.repository.commit({"s/a": "1", "t/a": "t"})
    file = tmp_path / "line.yaml"
    usual = "polling: {interval: 1h}", 'excludePatterns: ["**/.resources/**"]'
    text = line_manifests(site.url, *usual, name="line", profile="filler", destination="projects/P")
    file.write_text(text)
    with SyslogServer.start("unix", path=tmp_path / "log-server") as server:
        monkeypatch.setenv("STOKER_AUDIT_SYSLOG", server.address)
        with site.watching(f"-f{file}", flags=False) as watching:
            watching.until("a", "1")
            file.write_text(text.replace("source: s", "source: t"))
            watching.until("a", "t")
            eventually(lambda: len(server.messages) == 2, PATIENCE, lambda: f"two; {server.complaints}")
            page = watching.ask("/metrics")[1]
            assert watching.stop() == 0
    assert "ignition_sync_audit_exported_total 2.0" in page
    shown = shown_on(page)
    described = {one.name: one for one in OF_THE_AUDIT}
    assert described.keys() == {name for name in shown if name.startswith("ignition_sync_audit_")}
    for name, one in described.items():
        assert (shown[name].type, shown[name].description) == (one.type, one.description)


def test_a_wrong_audit_address_is_wrong_input_for_a_watched_folder(
    tmp_path: Path, git_http: GitHttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_AUDIT_SYSLOG", "siem.example:514")
    site = WatchedFolder(tmp_path, git_http)
    with site.watching() as watching:
        assert watching.process.wait(PATIENCE)
        assert watching.process.returncode == ExitCode.WRONG_INPUT
    assert "'siem.example:514' is none of unix:/PATH" in site.log.read_text()
    assert not site.content()


def test_a_wrong_audit_address_is_reported_at_the_start_and_keeps_no_gateway_from_its_files(
    plant: AgentEnvironment,
) -> None:
    pod = plant.pod(talks=False)
    commit = plant.commit(project("filler", 1))
    plant.publish(commit, agent_spec=plant.spec(gateway=FILES_ONLY))
    pod.start(plant.kubeconfig, "--audit-syslog=siem.example:514")
    plant.until_synced(pod, commit)
    (logged_lines,) = pod.logged("audit.unavailable")
    assert "'siem.example:514' is none of unix:/PATH, udp://HOST:PORT" in logged_lines["error"]


@pytest.fixture
def site(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Site]:
    with Site.prepare(kinds, namespace, tmp_path) as made:
        yield made


def test_syncs_are_recorded_as_events_where_that_is_configured(
    site: Site, repositories: Path, git_http: GitHttpServer
) -> None:
    repository = Repository.create(repositories / "plant.git")
    commit = repository.commit({"README.md": "one"})
    site.apply("Stoker", "line", git={"repo": git_http.url("plant.git"), "ref": "main"})
    pod = site.pod("filler-0", "line", gateway="filler")
    site.start("--audit-events")
    site.until_metadata("line", commit=commit)
    good = HistoryEntryReport("2026-11-16T00:00:02Z", str(commit), "main", 3, ("filler",), "1.20s", "success")
    bad = HistoryEntryReport("2026-11-16T00:00:01Z", str(commit), "main", result="ScanFailed")
    pod.report(commit, history=(good, bad), scan_result="projects=200 config=200")

    def audit_events() -> list[tuple[str, dict[str, object]]]:
        return [(kind, json.loads(text)) for kind, reason, text in site.events() if reason == "Audit"]

    eventually(lambda: len(audit_events()) == 2, PATIENCE, lambda: f"two records; {site.events()}")
    records = {record["result"]: (kind, record) for kind, record in audit_events()}
    kind, record = records["success"]
    assert kind == "Normal"
    assert record == {
        "timestamp": "2026-11-16T00:00:02Z",
        "gateway": "filler",
        "podName": "filler-0",
        "trigger": "spec",
        "commit": commit,
        "ref": "main",
        "filesChanged": 3,
        "projectsSynced": ["filler"],
        "duration": "1.20s",
        "result": "success",
        "scanResult": "projects=200 config=200",
    }
    assert records["ScanFailed"][0] == "Warning"
    later = HistoryEntryReport(
        "2026-11-16T00:00:09Z", str(commit), "main", 1, ("filler",), "0.10s", "success"
    )
    pod.report(commit, history=(later, good, bad))
    eventually(lambda: len(audit_events()) == 3, PATIENCE, lambda: f"one more; {site.events()}")
