"""`stoker sync --watch` as a process: it follows, reacts, answers and stops in order."""

from __future__ import annotations

import hashlib
import hmac
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from stoker.cli.exit_codes import ExitCode
from stoker_testkit.environments.sample_manifests import line_manifests
from stoker_testkit.environments.sync_watch_environment import PATIENCE, SECRET, WatchedFolder, WatchProcess
from stoker_testkit.processes import free_port
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually


def resources(site: WatchedFolder, *lines: str) -> str:
    usual = "polling: {interval: 1h}", 'excludePatterns: ["**/.resources/**"]'
    return line_manifests(site.url, *usual, *lines, name="line-1", profile="filler", destination="projects/P")


@pytest.fixture
def site(tmp_path: Path, git_http: GitHttpServer) -> WatchedFolder:
    return WatchedFolder(tmp_path, git_http)


def test_it_follows_a_branch_and_ends_with_0_when_stopped(site: WatchedFolder) -> None:
    with site.watching(interval="1s") as watching:
        watching.until("a", "1")
        site.repository.commit({"s/a": "2", "s/b": "new"})
        watching.until("a", "2")
        watching.until("b", "new")
        assert watching.stop() == 0
        assert watching.events()[-1] == "watch.stopped"
        assert "Traceback" not in site.log.read_text()


def test_it_is_silent_while_nothing_happens(site: WatchedFolder) -> None:
    with site.watching(interval="1s") as watching:
        watching.until_logged("sync.done")
        before = len(site.server.requests)
        eventually(lambda: len(site.server.requests) >= before + 2, PATIENCE, "two polls")
        watching.stop()
        assert watching.events().count("sync.done") == 1
        assert {line["level"] for line in watching.lines()} == {"info"}


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_triggers_a_sync(site: WatchedFolder, number: signal.Signals) -> None:
    with site.watching() as watching:
        watching.until("a", "1")
        watching.until_logged("sync.done")
        site.repository.commit({"s/a": "2"})
        watching.signal(number)
        watching.until("a", "2")
        eventually(lambda: watching.events().count("sync.done") == 2, PATIENCE, "the second sync is logged")


def test_a_signed_webhook_triggers_a_sync(site: WatchedFolder) -> None:
    more = [f"--webhook-secret-file={site.place / 'secret'}", "--webhook-address=127.0.0.1:0"]
    with site.watching(*more) as watching:
        port = watching.until_logged("webhook.listening")["port"]
        watching.until_logged("sync.done")
        site.repository.commit({"s/a": "2"})
        body = b'{"ref": "refs/heads/main"}'

        def post(signature: str) -> int:
            headers = {"X-Hub-Signature-256": f"sha256={signature}"}
            request = urllib.request.Request(f"http://127.0.0.1:{port}/webhook", body, headers)
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own server
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code

        assert post("0" * 64) == 401
        assert site.content() == "1"
        assert post(hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()) == 202
        watching.until("a", "2")
        assert SECRET not in site.log.read_text()


def test_the_webhook_of_a_file_is_served_at_its_port_for_its_secret(site: WatchedFolder) -> None:
    port = free_port()
    webhook = f"webhook: {{port: {port}, secretRef: {{name: hook, key: hmac}}}}"
    file = site.place / "line.yaml"
    file.write_text(resources(site, webhook))
    with site.watching(f"-f{file}", f"--secret=hook/hmac={site.place / 'secret'}", flags=False) as watching:
        assert watching.until_logged("webhook.listening")["port"] == port
        watching.until_logged("sync.done")
        site.repository.commit({"s/a": "2"})
        headers = {"Authorization": f"Bearer {SECRET}"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/webhook", b"{}", headers)
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own server
            assert answer.status == 202
        watching.until("a", "2")
        assert watching.stop() == 0
    site.log = site.place / "second-log"
    with site.watching(f"-f{file}", flags=False) as watching:
        watching.until_logged("sync.done")
        assert "Secret 'hook' with key 'hmac' of spec.webhook is not given" in site.log.read_text()
        assert "webhook.listening" not in watching.events()


def test_a_repository_that_vanishes_is_reported_once_and_followed_again(site: WatchedFolder) -> None:
    with site.watching(interval="1s") as watching:
        watching.until_logged("sync.done")
        hidden = site.repository.path.rename(site.repository.path.with_name("hidden.git"))
        watching.until_logged("sync.failed")
        before = len(site.server.requests)
        watching.signal(signal.SIGUSR1)  # asked for by hand it looks at once
        eventually(lambda: len(site.server.requests) > before, PATIENCE, "another look")
        hidden.rename(site.repository.path)
        site.repository.commit({"s/a": "2"})
        watching.until("a", "2")
        assert watching.events().count("sync.failed") == 1
        assert watching.stop() == 0


def test_health_and_metrics_show_the_state_of_the_sync(site: WatchedFolder) -> None:
    with site.watching("--gateway-name=filler") as watching:
        eventually(lambda: watching.ask("/readyz")[0] == 200, PATIENCE, "it is ready")
        assert watching.ask("/healthz") == (200, "ok\n")
        assert watching.ask("/startupz") == (200, "ok\n")
        page = watching.ask("/metrics")[1]
        labels = 'cr="",gateway="filler",namespace=""'
        assert f"ignition_sync_files_changed_total{{{labels}}} 1.0" in page
        assert f'ignition_sync_syncs_total{{{labels},result="done"}} 1.0' in page
        assert f"ignition_sync_last_sync_timestamp{{{labels}}}" in page
        assert f"ignition_sync_sync_duration_seconds_count{{{labels}}} 1.0" in page


def test_it_is_not_ready_while_the_source_is_away_and_recovers(site: WatchedFolder) -> None:
    site.server.users["somebody"] = "else"
    with site.watching() as watching:
        failed = watching.until_logged("sync.failed")
        assert failed["reason"] == "SourceAuthFailed"
        code, text = watching.ask("/readyz")
        assert code == 503
        assert "SourceAuthFailed" in text
        assert watching.ask("/healthz")[0] == 200
        site.server.users.clear()
        watching.until("a", "1")
        assert watching.stop() == 0


def test_with_drift_only_reported_the_source_is_the_trouble_too(site: WatchedFolder) -> None:
    site.server.users["somebody"] = "else"
    with site.watching("--drift=report") as watching:
        assert watching.until_logged("sync.failed")["reason"] == "SourceAuthFailed"
        assert "SourceAuthFailed" in watching.ask("/readyz")[1]


def test_a_change_by_hand_is_reported_as_drift_and_as_restored(site: WatchedFolder) -> None:
    with site.watching("--drift=restore", "--drift-interval=1s") as watching:
        watching.until_logged("sync.done")
        (site.data / "projects/P/a").write_text("by hand")
        found = watching.until_logged("drift.found")
        assert (found["modified"], found["trigger"]) == (["projects/P/a"], "drift")
        gone = watching.until_logged("drift.gone")
        assert gone["pass_id"] == found["pass_id"]
        assert site.content() == "1"
        assert watching.stop() == 0
        assert watching.events().count("drift.found") == 1


def test_a_port_in_use_is_wrong_input_and_nothing_is_written(site: WatchedFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with site.watching(f"--health-address=127.0.0.1:{taken}") as watching:
            assert watching.process.wait(PATIENCE)
            assert watching.process.returncode == 2
            assert f"port {taken} is already in use" in site.log.read_text()
        assert site.content() == ""


def test_an_edited_file_is_read_again_and_a_broken_edit_changes_nothing(site: WatchedFolder) -> None:
    file = site.place / "line.yaml"
    text = resources(site)
    file.write_text(text)
    with site.watching(f"-f{file}", flags=False) as watching:
        watching.until("a", "1")
        site.repository.commit({"s/a": "2", "t/a": "t"})
        file.write_text(text.replace("spec:\n  git", "spec:\n  gti"))
        broken = watching.until_logged("file.broken")
        assert "gti" in str(broken["error"])
        watching.until("a", "2")  # it goes on with the earlier content of the file
        file.write_text(text.replace("source: s", "source: t"))
        watching.signal(signal.SIGHUP)
        watching.until("a", "t")
        assert "file.reread" in watching.events()
        assert watching.stop() == 0


def test_a_stop_in_the_middle_of_a_sync_lets_it_finish(site: WatchedFolder) -> None:
    count = 3000
    site.repository.commit({f"s/{n % 50}/{n}": str(n) for n in range(count)})
    with site.watching() as watching:
        eventually((site.data / ".sync-staging").exists, PATIENCE, "files are being staged", interval=0.001)
        assert watching.stop() == 0
        assert sum(1 for path in (site.data / "projects/P").rglob("*") if path.is_file()) == count + 1
        assert not (site.data / ".sync-staging").exists()


def test_changes_are_objects_on_standard_output_when_asked_for(site: WatchedFolder) -> None:
    with site.watching("--output=json", interval="1s") as watching:
        watching.until("a", "1")
        site.repository.commit({"s/a": "2"})
        watching.until("a", "2")
        eventually(lambda: len(_reports(watching)) == 2, PATIENCE, "two reports")
        assert [one["modified"] for one in _reports(watching)] == [[], ["projects/P/a"]]


def _reports(watching: WatchProcess) -> list[dict[str, object]]:
    return [line for line in watching.lines() if "planDigest" in line]


def beside(site: WatchedFolder, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Another process at the same data folder."""
    command = [sys.executable, "-m", "stoker", verb, f"--data-dir={site.data}", f"--repo={site.url}"]
    command += [f"--cache-dir={site.place / 'other-cache'}", "--map=s:projects/P", *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("ref", ["v1", "main"])
@pytest.mark.parametrize("mode", ["--once", "--watch"])
def test_a_second_writer_is_refused_and_the_first_is_named(site: WatchedFolder, ref: str, mode: str) -> None:
    site.repository.git("tag", "v1")
    site.repository.commit({"s/a": "2"})
    with site.watching() as watching:
        watching.until("a", "2")
        second = beside(site, "sync", f"--ref={ref}", mode)
        assert second.returncode == ExitCode.STALLED
        assert second.stdout == ""
        holder = f"process {watching.process.pid} on host {socket.gethostname()}, since 20"
        assert f"stoker sync --watch of ref main, {holder}" in second.stderr
        assert site.content() == "2"


def test_a_writer_that_was_killed_keeps_no_other_away(site: WatchedFolder) -> None:
    with site.watching() as watching:
        watching.until("a", "1")
        watching.process.kill()
    site.repository.commit({"s/a": "2"})
    assert beside(site, "sync", "--ref=main").returncode == ExitCode.DONE
    assert site.content() == "2"


def test_a_plan_and_a_rollback_work_beside_a_watch(site: WatchedFolder) -> None:
    first = site.repository.tip()
    site.repository.commit({"s/a": "2"})
    with site.watching() as watching:
        watching.until_logged("sync.done")
        assert beside(site, "plan", "--ref=main").returncode == ExitCode.DONE
        back = beside(site, "rollback", "--ref=main", f"--to={first}")
        assert back.returncode == ExitCode.DONE, back.stderr
        watching.until("a", "1")
