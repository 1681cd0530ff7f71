"""`stoker verify` and `stoker plan --diff`: what differs, without the network or line by line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.cli.exit_codes import ExitCode
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.sample_ignition_repository import resource

FILES = {"s/a": "one\ntwo\n", "s/b/c": "three\n", "s/run": "x"}


class Site:
    """A data folder that was synced once, from a repository that is gone when it is verified."""

    def __init__(self, place: Path) -> None:
        self.repository = Repository.create(place / "plant.git")
        self.repository.commit(FILES)
        self.cache = place / "cache"
        self.data = place / "data"
        (self.data / "projects/other").mkdir(parents=True)
        (self.data / "projects/other/theirs").write_text("theirs")

    def stoker(self, verb: str, *more: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "stoker", verb, f"--data-dir={self.data}", *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    def sync(self, verb: str = "sync", *more: str) -> tuple[int, str, str]:
        where = (f"--repo={self.repository.path.as_uri()}", "--ref=main", "--map=s:projects/P")
        return self.stoker(verb, *where, f"--cache-dir={self.cache}", *more)

    def verify(self) -> tuple[int, dict[str, Any]]:
        code, output, _ = self.stoker("verify", "--output=json", f"--cache-dir={self.cache}")
        return code, json.loads(output)

    @property
    def place(self) -> Path:
        return self.data / "projects/P"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_folder_that_was_never_synced_is_held_back(site: Site) -> None:
    code, output = site.verify()
    assert code == ExitCode.STALLED
    assert set(output) == {"reason", "message"}
    assert str(site.data) in output["message"]


@pytest.mark.parametrize("name", ["nowhere", "projects/other/theirs"])
def test_what_is_no_data_folder_is_wrong_input(site: Site, name: str) -> None:
    site.data = site.data / name
    code, output = site.verify()
    assert code == ExitCode.WRONG_INPUT
    assert name in output["message"]


def test_a_folder_as_it_was_left_is_clean(site: Site) -> None:
    assert site.sync()[0] == ExitCode.DONE
    code, output = site.verify()
    assert code == ExitCode.DONE
    assert output == {
        "commit": site.repository.tip(),
        "modified": [],
        "missing": [],
        "extra": [],
        "errors": [],
    }


def test_drift_is_named_file_by_file_without_the_repository(site: Site) -> None:
    assert site.sync()[0] == ExitCode.DONE
    site.repository.path.rename(site.repository.path.with_name("gone"))
    (site.place / "a").write_text("other\n")
    (site.place / "b/c").unlink()
    (site.place / "new").write_text("new")
    (site.data / "projects/other/theirs").write_text("whatever")  # not ours to look at
    before = {path: path.stat().st_mtime_ns for path in site.data.rglob("*")}
    code, output = site.verify()
    assert code == ExitCode.DIFFERENT
    assert output["modified"] == ["projects/P/a"]
    assert output["missing"] == ["projects/P/b/c"]
    assert output["extra"] == ["projects/P/new"]
    assert {path: path.stat().st_mtime_ns for path in site.data.rglob("*")} == before
    code, text, _ = site.stoker("verify")
    assert code == ExitCode.DIFFERENT
    assert {"modified projects/P/a", "missing projects/P/b/c", "extra projects/P/new"} <= set(
        text.splitlines()
    )


def test_a_file_that_was_only_touched_is_no_drift(site: Site) -> None:
    assert site.sync()[0] == ExitCode.DONE
    (site.place / "a").touch()
    assert site.verify()[0] == ExitCode.DONE


def test_what_a_gateway_does_to_its_own_resources_is_no_drift(site: Site) -> None:
    view = resource({"view.json": '{"a": 1}'})
    site.repository.commit(
        {f"s/view/{name}": text for name, text in view.items()} | {"s/view/thumbnail.png": "x"}
    )
    assert site.sync()[0] == ExitCode.DONE
    site.repository.path.rename(site.repository.path.with_name("gone"))
    manifest = site.place / "view/resource.json"
    document = json.loads(manifest.read_text())
    document["attributes"]["lastModification"] = {"actor": "anna", "timestamp": "2026-01-02T03:04:05Z"}
    document["attributes"]["lastModificationSignature"] = "0" * 64
    manifest.write_text(json.dumps(document, sort_keys=True))
    (site.place / "view/thumbnail.png").write_text("drawn anew")
    before = {path: path.read_bytes() for path in site.data.rglob("*") if path.is_file()}
    code, found = site.verify()
    assert (code, found["modified"]) == (ExitCode.DONE, [])
    assert {path: path.read_bytes() for path in site.data.rglob("*") if path.is_file()} == before

    (site.place / "view/view.json").write_text('{"a": 2}')
    files = ["resource.json", "thumbnail.png", "view.json"]
    assert site.verify()[1]["modified"] == [f"projects/P/view/{name}" for name in files], (
        "it rides with its view"
    )
    (site.place / "view/view.json").write_text('{"a": 1}')
    manifest.write_text(json.dumps({**document, "scope": "D"}))
    assert "projects/P/view/resource.json" in site.verify()[1]["modified"], "that means something"
    manifest.write_text(json.dumps(document))
    assert site.verify()[0] == ExitCode.DONE
    shutil.rmtree(site.cache)
    code, found = site.verify()
    assert (code, len(found["modified"])) == (ExitCode.DIFFERENT, 2), "what cannot be compared is reported"
    assert not site.cache.exists(), "nothing is made"


def test_a_sync_restores_it_unless_it_trusts_the_ledger(site: Site) -> None:
    assert site.sync()[0] == ExitCode.DONE
    (site.place / "a").write_text("other\n")
    assert site.sync("sync", "--trust-ledger")[0] == ExitCode.DONE
    assert (site.place / "a").read_text() == "other\n"
    assert site.sync()[0] == ExitCode.DONE
    assert (site.place / "a").read_text() == "one\ntwo\n"
    assert site.verify()[0] == ExitCode.DONE


def test_a_plan_shows_the_change_line_by_line(site: Site) -> None:
    assert site.sync()[0] == ExitCode.DONE
    site.repository.commit({"s/a": "one\n2\n", "s/b/c": None, "s/new": "n\n"})
    code, text, _ = site.sync("plan", "--diff", "--exit-code")
    assert code == ExitCode.DIFFERENT
    lines = text.splitlines()
    assert {"-two", "+2", "+n", "-three"} <= set(lines)
    assert any(line.startswith("+++ ") and "projects/P/a" in line for line in lines)
    assert (site.place / "a").read_text() == "one\ntwo\n"


def test_drift_that_a_resource_ignores_is_not_reported(site: Site, tmp_path: Path) -> None:
    site.repository.commit({"s/state.json": '{"seen": 1, "kept": 1}', "s/log.txt": "1"})
    assert site.sync()[0] == ExitCode.DONE
    place = tmp_path / "line.yaml"
    place.write_text(
        yaml.safe_dump_all(
            [
                {
                    "apiVersion": "stoker.io/v1alpha1",
                    "kind": "Stoker",
                    "metadata": {"name": "line"},
                    "spec": {
                        "git": {"repo": site.repository.path.as_uri(), "ref": "main"},
                        "gateway": {"filesOnly": True, "apiKeySecretRef": {"name": "none", "key": "none"}},
                        "drift": {
                            "ignore": [
                                {"path": "**/*.txt"},
                                {"path": "**/*.json", "jsonPointer": "/seen"},
                            ]
                        },
                    },
                },
                {
                    "apiVersion": "stoker.io/v1alpha1",
                    "kind": "SyncProfile",
                    "metadata": {"name": "line"},
                    "spec": {"mappings": [{"source": "s", "destination": "projects/P"}]},
                },
            ]
        )
    )
    (site.place / "state.json").write_text('{"seen": 2, "kept": 1}')
    (site.place / "log.txt").unlink()
    plain = ("--output=json", f"--cache-dir={site.cache}")
    code, output, _ = site.stoker("verify", *plain)
    assert (code, json.loads(output)["missing"]) == (ExitCode.DIFFERENT, ["projects/P/log.txt"])
    code, output, _ = site.stoker("verify", *plain, f"--filename={place}")
    assert (code, json.loads(output)["modified"]) == (ExitCode.DONE, []), output
    (site.place / "state.json").write_text('{"seen": 2, "kept": 2}')
    code, output, _ = site.stoker("verify", *plain, f"--filename={place}")
    assert (code, json.loads(output)["modified"]) == (ExitCode.DIFFERENT, ["projects/P/state.json"])
