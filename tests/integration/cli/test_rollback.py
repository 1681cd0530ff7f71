"""`stoker rollback`: back to a snapshot or a commit, in a folder or by the field of a resource."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stoker.cli.exit_codes import ExitCode
from stoker.ignition.sync.pending_work import STATE_FILE
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.sample_manifests import COPIES, line_manifests
from stoker_testkit.repositories.bare_repository import Repository


def stoker(*arguments: str) -> tuple[int, dict[str, Any], str]:
    command = [sys.executable, "-m", "stoker", *arguments, "--output=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


@dataclass
class Site:
    """A folder that was synced to two commits."""

    place: Path
    repository: Repository

    @property
    def file(self) -> Path:
        return self.place / "data" / "projects" / "a"

    def run(self, verb: str, *more: str, rollback: str = "") -> tuple[int, dict[str, Any], str]:
        text = line_manifests(self.repository.path.as_uri(), COPIES, rollback)
        (self.place / "line.yaml").write_text(text)
        files = f"--filename={self.place / 'line.yaml'}", f"--cache-dir={self.place / 'cache'}"
        return stoker(verb, f"--data-dir={self.place / 'data'}", *files, *more)

    def back(self, *more: str) -> tuple[int, dict[str, Any], str]:
        """With the folder alone."""
        return stoker("rollback", f"--data-dir={self.place / 'data'}", *more)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path, Repository.create(tmp_path / "repo.git"))
    (tmp_path / "data").mkdir()
    for text in ("one", "two"):
        site.repository.commit({"s/a": text})
        code, _, warnings = site.run("sync")
        assert code == ExitCode.DONE
        assert "snapshots.storage.pvc.claimName has no effect" in warnings
    return site


def test_a_folder_is_rolled_back_stays_and_is_released(site: Site) -> None:
    code, listed, _ = site.back("--list")
    (snapshot,) = listed["snapshots"]
    assert code == ExitCode.DONE
    assert (snapshot["files"], snapshot["bytes"], snapshot["trouble"]) == (1, 3, "")
    code, output, _ = site.back(f"--to={snapshot['id']}")
    assert (code, output["modified"], output["commit"]) == (ExitCode.DONE, ["projects/a"], snapshot["commit"])
    assert site.file.read_text() == "one"
    code, output, _ = site.run("sync")
    assert (code, output["reason"]) == (ExitCode.STALLED, "RolledBack")
    assert site.run("plan")[0] == ExitCode.DONE, "looking is allowed"
    code, output, _ = site.back("--release")
    assert (code, len(output["released"])) == (ExitCode.DONE, 1)
    assert site.run("sync")[0] == ExitCode.DONE
    assert site.file.read_text() == "two"


def test_a_rollback_that_asks_the_gateway_nothing_leaves_a_scan_pending(site: Site) -> None:
    (snapshot,) = site.back("--list")[1]["snapshots"]
    pending = site.place / "data" / ".sync-state" / STATE_FILE
    pending.unlink()  # as if the gateway had been asked since the last sync
    assert site.run("rollback", f"--to={snapshot['id']}")[0] == ExitCode.DONE
    assert site.file.read_text() == "one"
    assert json.loads(pending.read_text())["scan"] is True


def test_people_read_where_the_folder_is_and_not_where_the_ref_is(site: Site) -> None:
    (snapshot,) = site.back("--list")[1]["snapshots"]
    command = [sys.executable, "-m", "stoker", "rollback", f"--data-dir={site.place / 'data'}"]
    done = subprocess.run([*command, f"--to={snapshot['id']}"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"back at {snapshot['commit'][:8]}: 1 modified"


def test_a_folder_is_rolled_back_to_a_commit(site: Site) -> None:
    (snapshot,) = site.back("--list")[1]["snapshots"]
    first = snapshot["commit"]
    code, output, _ = site.run("rollback", f"--to={first}")
    assert (code, output["commit"], site.file.read_text()) == (ExitCode.DONE, first, "one")
    assert site.run("sync")[1]["reason"] == "RolledBack"
    assert site.back("--release")[0] == ExitCode.DONE


@pytest.mark.parametrize("field", ["toSnapshot", "toCommit"])
def test_a_resource_on_disk_can_ask_for_it_as_in_a_cluster(site: Site, field: str) -> None:
    (snapshot,) = site.back("--list")[1]["snapshots"]
    to = snapshot["id" if field == "toSnapshot" else "commit"]
    asked = f"rollback: {{{field}: {to}}}"
    for _ in range(2):
        assert site.run("sync", rollback=asked)[0] == ExitCode.DONE
        assert site.file.read_text() == "one"
    assert site.run("sync")[0] == ExitCode.DONE, "the field is gone"
    assert site.file.read_text() == "two"


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ((), ExitCode.WRONG_INPUT),
        (("--to=nonsense",), ExitCode.WRONG_INPUT),
        (("--to=../../etc-20200101-000000",), ExitCode.WRONG_INPUT),
        (("--to=line-20200101-000000", "--release"), ExitCode.WRONG_INPUT),
        (("--to=line-20200101-000000",), ExitCode.STALLED),
        (("--list", "line"), ExitCode.WRONG_INPUT),
        (("--to=line-20200101-000000", "--replace"), ExitCode.WRONG_INPUT),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    site: Site, flags: tuple[str, ...], code: ExitCode
) -> None:
    ended, output, _ = site.back(*flags)
    assert (ended, bool(output["message"])) == (code, True)
    assert site.file.read_text() == "two"


def test_in_a_cluster_it_writes_the_field_and_empties_it(kinds: ClusterAccess, namespace: str) -> None:
    spec = {
        "git": {"repo": "https://git.example.net/plant.git", "ref": "main"},
        "gateway": {"filesOnly": True},
    }
    body = {"apiVersion": "stoker.io/v1alpha1", "kind": "Stoker", "metadata": {"name": "line"}, "spec": spec}
    path = f"/apis/stoker.io/v1alpha1/namespaces/{namespace}/stokers"
    kinds.request("POST", path, body)
    where = f"--namespace={namespace}", "line", f"--kubeconfig={kinds.kubeconfig('admin')}"

    def field() -> object:
        return json.loads(kinds.request("GET", f"{path}/line").body)["spec"].get("rollback")

    assert stoker("rollback", *where, "--to=filler-20260212-103005")[0] == ExitCode.DONE
    assert field() == {"toSnapshot": "filler-20260212-103005"}
    again = stoker("rollback", *where, "--to=filler-20260212-103005")
    assert again[0] == ExitCode.DONE, "that is where it is"
    code, output, _ = stoker("rollback", *where, f"--to={'a' * 40}")
    assert (code, output["reason"]) == (ExitCode.STALLED, "RolledBack")
    assert "already rolled back to filler-20260212-103005" in output["message"]
    assert field() == {"toSnapshot": "filler-20260212-103005"}
    assert stoker("rollback", *where, f"--to={'a' * 40}", "--replace")[0] == ExitCode.DONE
    assert field() == {"toCommit": "a" * 40}
    assert stoker("rollback", *where, "--release")[0] == ExitCode.DONE
    assert not field()
