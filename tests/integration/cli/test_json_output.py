"""`--output json`: every verb has it or says why not, and prints what the reference page says."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from stoker.cli.commands import cli
from stoker.cli.exit_codes import ExitCode
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.namespace_objects import PlainObjects
from stoker_testkit.environments.sample_manifests import COPIES, line_manifests
from stoker_testkit.processes import Process
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.wait_until import eventually

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
WITHOUT = {
    "controller": "a server; it logs",
    "webhook": "a server; it logs",
    "agent": "a server; it logs",
    "reverser": "a server; it logs",
    "fetcher": "a server; it logs",
    "testing gateway": "a server",
    "demo": "a story for a person",
    "completion": "a script for a shell",
    "migrate": "writes manifests, to the file that --output names",
}
COMMIT = "c" * 40
STATUS = {
    "observedGeneration": 1,
    "approval": {"state": "Pending", "commit": COMMIT, "ref": "main", "digest": "d" * 64},
    "discoveredGateways": [
        {
            "name": "filler",
            "podName": "filler-0",
            "syncStatus": "Synced",
            "syncHistory": [{"timestamp": "2026-05-01T08:00:00Z", "commit": COMMIT, "result": "success"}],
        }
    ],
}


def leaves(group: click.Group = cli, *before: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, *before, name)
        else:
            yield " ".join((*before, name)), command


def prints_json(command: click.Command) -> bool:
    outputs = (one.type for one in command.params if "--output" in one.opts)
    return any(isinstance(one, click.Choice) and "json" in one.choices for one in outputs)


def documented() -> dict[str, tuple[set[str], set[str]]]:
    """Command to the keys that it always prints, and those that it sometimes does."""
    part = PAGE[PAGE.index("\n## JSON\n") :]
    rows = re.findall(r"^\| `([^`]+)` \| (.*?) \| ?(.*?) ?\|$", part[: part.index("\n## ", 2)], re.MULTILINE)
    keys = re.compile(r"`(\w+)`")
    return {name: (set(keys.findall(always)), set(keys.findall(more))) for name, always, more in rows}


DOCUMENTED = documented()


def test_every_verb_has_it_or_is_one_of_a_few_with_a_reason() -> None:
    found = dict(leaves())
    assert {name for name, command in found.items() if not prints_json(command)} == WITHOUT.keys()
    names = {row.partition(" --")[0].removesuffix(" NAME") for row in DOCUMENTED}
    assert names == found.keys() - WITHOUT.keys(), "each has a row on the page, and nothing else does"
    part = PAGE[PAGE.index("Without it are") :].partition("\n\n")[0]
    assert all(f"`{name}`" in part for name in WITHOUT), "and those without are named there"


@dataclass
class JsonOutputSite:
    """A folder that can be synced, and a resource in a cluster."""

    place: Path
    repository: Repository
    objects: PlainObjects

    @property
    def files(self) -> list[str]:
        return [
            f"--data-dir={self.place / 'data'}",
            f"--filename={self.place / 'line.yaml'}",
            f"--cache-dir={self.place / 'cache'}",
        ]

    @property
    def named(self) -> list[str]:
        return [*self.cluster, f"--namespace={self.objects.namespace}", "line"]

    @property
    def cluster(self) -> list[str]:
        return [f"--kubeconfig={self.objects.cluster.kubeconfig()}"]

    def synced(self) -> None:
        for content in "12":
            self.repository.commit({"s/a": content})
            assert run("sync", *self.files)[0] == ExitCode.DONE

    def snapshot(self) -> str:
        return str(run("rollback", "--list", *self.files)[1]["snapshots"][0]["id"])


@pytest.fixture
def site(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> JsonOutputSite:
    repository = Repository.create(tmp_path / "plant.git")
    (tmp_path / "line.yaml").write_text(line_manifests(repository.path.as_uri(), COPIES))
    (tmp_path / "data").mkdir()
    objects = PlainObjects(kinds, namespace)
    spec = {"git": {"repo": "https://git.example.net/plant/config.git", "ref": "main"}}
    objects.post(
        "/apis/stoker.io/v1alpha1",
        "stokers",
        {"apiVersion": "stoker.io/v1alpha1", "kind": "Stoker", "metadata": {"name": "line"}, "spec": spec},
    )
    objects.patch(f"{objects.path_of('Stoker', 'line')}/status", {"status": STATUS})
    objects.post("/api/v1", "configmaps", {"metadata": {"name": "settings"}, "data": {"a": "b"}})
    return JsonOutputSite(tmp_path, repository, objects)


def run(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code, and the one object on the one line of standard output."""
    done = CliRunner().invoke(cli, [*arguments, "--output=json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    (line,) = done.stdout.splitlines()
    return done.exit_code, json.loads(line)


def sync(site: JsonOutputSite) -> list[str]:
    site.repository.commit({"s/a": "1"})
    return ["sync", *site.files]


def plan(site: JsonOutputSite) -> list[str]:
    site.repository.commit({"s/a": "1"})
    return ["plan", *site.files]


def verify(site: JsonOutputSite) -> list[str]:
    site.synced()
    return ["verify", f"--data-dir={site.place / 'data'}", f"--cache-dir={site.place / 'cache'}"]


def back(site: JsonOutputSite) -> list[str]:
    site.synced()
    return ["rollback", f"--to={site.snapshot()}", *site.files]


def listed(site: JsonOutputSite) -> list[str]:
    site.synced()
    return ["rollback", "--list", *site.files]


CASES: dict[str, Callable[[JsonOutputSite], list[str]]] = {
    "sync": sync,
    "plan": plan,
    "plan NAME": lambda site: ["plan", *site.named],
    "verify": verify,
    "rollback --to": back,
    "rollback --list": listed,
    "rollback --release": lambda site: ["rollback", "--release", *site.files],
    "rollback NAME": lambda site: ["rollback", f"--to={COMMIT}", *site.named],
    "doctor": lambda site: ["doctor", *site.named],
    "export": lambda site: [
        "export",
        f"--to={site.place / 'out'}",
        f"--namespace={site.objects.namespace}",
        *site.cluster,
    ],
    "export --explain": lambda site: [
        "export",
        "--explain",
        "configmaps",
        f"{site.objects.namespace}/settings",
        *site.cluster,
    ],
    "status": lambda site: ["status", *site.named],
    "history": lambda site: ["history", *site.named],
    "diff": lambda site: ["diff", *site.named],
    "approve": lambda site: ["approve", *site.named],
    "pause": lambda site: ["pause", *site.named],
    "resume": lambda site: ["resume", *site.named],
}


def test_each_row_of_the_page_is_tried() -> None:
    assert DOCUMENTED.keys() == {*CASES, "dev watch"}


@pytest.mark.parametrize("row", CASES)
def test_a_verb_prints_the_keys_of_the_page(row: str, site: JsonOutputSite) -> None:
    _, output = run(*CASES[row](site))
    always, sometimes = DOCUMENTED[row]
    assert always <= output.keys() <= always | sometimes


def test_dev_watch_prints_an_object_for_each_change(tmp_path: Path) -> None:
    (tmp_path / "copy/s").mkdir(parents=True)
    (tmp_path / "copy/s/a").write_text("1")
    (tmp_path / "data").mkdir()
    command = [
        sys.executable,
        "-m",
        "stoker",
        "dev",
        "watch",
        f"--repo={tmp_path / 'copy'}",
        "--map=s:projects",
    ]
    command += [f"--data-dir={tmp_path / 'data'}", "--output=json"]
    log = tmp_path / "log"
    with Process.start("dev watch", command, log=log) as process:
        eventually(lambda: log.read_text().endswith("\n"), 30.0, process.tail)
        (tmp_path / "copy/s/a").write_text("2")
        eventually(lambda: log.read_text().count("\n") == 2, 30.0, process.tail)
    first, second = map(json.loads, log.read_text().splitlines())
    assert first.keys() == DOCUMENTED["dev watch"][0]
    assert (first["added"], second["modified"]) == (["projects/a"], ["projects/a"])


@pytest.mark.parametrize("name", [name for name, command in leaves() if prints_json(command)])
def test_a_refusal_is_an_object_too(name: str) -> None:
    code, output = run(*name.split(), "--no-such-option")
    assert code == ExitCode.WRONG_INPUT
    assert output.keys() == {"reason", "message"}
    assert "--no-such-option" in output["message"]
