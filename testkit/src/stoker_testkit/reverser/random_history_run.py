"""Several random histories at once, with random faults, and the check of all of them.

Histories are many and a kill costs seconds, so some of them share the replicas and what
happens to these; each has its own namespaces and folder, two or three share a branch.
When all users are done and the faults are over, git has to become what the
cluster is, before a deadline. Then the histories of the branches are judged.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from stoker.reverser.manifest.path import ManifestKey, manifest_path
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.api_users import ADMIN, PEOPLE, ApiUserIdentity, Person, let_people_in
from stoker_testkit.reverser.branch_history_check import (
    REVERSER,
    BranchHistoryCheck,
    blobs_of,
    commits_of,
    differences,
)
from stoker_testkit.reverser.fork_server import ReverserForkServer
from stoker_testkit.reverser.random_faults import RandomFaults
from stoker_testkit.reverser.random_history import KINDS, LABEL, History
from stoker_testkit.reverser.replicas import HOME, ReplicaFleet
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import ConditionTimeout, eventually

GROUP = "configbutler.ai/v1alpha1"
BRANCHES = 3
DEEDS_BEFORE = 5
LEAST_DEEDS, MOST_DEEDS = 15, 80
GUSTS = 6
LONGEST_LULL = 3.0
PATIENCE = 90.0
LONGEST_PAUSE = 0.5


class RandomHistoryEnvironment(Stoppable):
    """A cluster, a git server and a fleet, for one run after the other."""

    def __init__(self, cluster: ClusterAccess, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self._stack = ExitStack()
        let_people_in(cluster)
        self._identities = [ApiUserIdentity.of(name, cluster, folder) for name in (ADMIN, *PEOPLE)]
        cluster.create_namespace(HOME)
        self.git_http = self._stack.enter_context(GitHttpServer.start(folder / "repositories"))
        self.git = self._stack.enter_context(FaultProxy.start(self.git_http.url("")))
        self.fork_server = self._stack.enter_context(ReverserForkServer())
        self.fleet = self._stack.enter_context(ReplicaFleet(cluster, self.fork_server, folder))

    def stop(self) -> None:
        self._stack.close()

    @contextmanager
    def people(self) -> Iterator[dict[str, Person]]:
        """Everybody, with connections for one thread."""
        people = {identity.name: Person(identity) for identity in self._identities}
        try:
            yield people
        finally:
            for person in people.values():
                person.close()


class RandomHistoryRun:
    """The histories of these seeds."""

    def __init__(self, environment: RandomHistoryEnvironment, seeds: Sequence[int]) -> None:
        self.environment = environment
        self.name = f"run-{seeds[0]}"
        self.repository = Repository.create(environment.git_http.root / f"{self.name}.git")
        self.histories = [
            History(seed, f"line-{turn % BRANCHES}", self.repository) for turn, seed in enumerate(seeds)
        ]
        self._chance = random.Random(seeds[0])  # noqa: S311 - the same each time
        self.faults = RandomFaults(self._chance, environment.fleet, environment.git)
        self.authors: Counter[str] = Counter()
        self._failed: dict[int, BaseException] = {}
        self._over = threading.Event()

    def run_and_check(self, *, with_faults: bool = True) -> None:
        """Play all of it, and raise with everything that there is to know if something is wrong.

        In calm weather connections to git are cut and nothing else happens, no stranger pushes either: then
        only what a failed push lost can be missing, and no other change repairs it by chance.
        """
        with self.environment.people() as people:
            self._set_up(people, with_faults)
            self.faults.do_due_work()
            wrong: dict[int, list[str]] = {}
            if not with_faults or self._chance.random() < 0.8:
                wrong = self._await(people[ADMIN])  # otherwise the faults begin before anything was written
            if not wrong:
                self._cross(with_faults)
                wrong = {seed: [repr(error)] for seed, error in self._failed.items()}
                wrong = wrong or self._await(people[ADMIN])
            self._judge(wrong)
            if complaints := self.environment.fleet.complaints():
                wrong.setdefault(self.histories[0].seed, []).extend(complaints)
            if wrong:
                raise AssertionError(self._report(wrong))
            self._tear_down(people[ADMIN])

    def _cross(self, with_faults: bool) -> None:
        players = [
            threading.Thread(target=self._play, args=(history, with_faults), name=history.name)
            for history in self.histories
        ]
        for player in players:
            player.start()
        try:
            for _ in range(GUSTS):
                for _ in range(self._chance.choice((1, 1, 2, 3)) if with_faults else 0):
                    self.faults.inject_fault()
                    time.sleep(self._chance.uniform(0.0, 0.5))
                if not with_faults:
                    self.faults.cut_git()
                self._lull()
        finally:
            self._over.set()
            for player in players:
                player.join()
            self.faults.end_faults()

    def _lull(self) -> None:
        """Let the fleet get somewhere before the next mishap, but not always, and not for long."""
        before = self._written()
        until = time.monotonic() + self._chance.choice((0.2, LONGEST_LULL, LONGEST_LULL))
        while time.monotonic() < until and self._written() == before:
            self.faults.do_due_work()
            time.sleep(0.1)

    def _written(self) -> bytes:
        """The reverser's commits that lead to the tips of the branches, recognized by their number."""
        return self.repository.git("rev-list", "--count", "--branches=line-*", f"--committer={REVERSER}")

    def _await(self, admin: Person) -> dict[int, list[str]]:
        """Wait for git to become what the cluster is; what it has not become by the deadline."""
        deadline = time.monotonic() + PATIENCE
        found = {history.seed: self._settled(history, admin, deadline) for history in self.histories}
        self.faults.record(
            "git is what the cluster is" if not any(found.values()) else "git is not the cluster"
        )
        return {seed: wrong for seed, wrong in found.items() if wrong}

    # Before and after.

    def _set_up(self, people: Mapping[str, Person], with_faults: bool) -> None:
        admin = people[ADMIN]
        url = f"http://{self.environment.git.address}/{self.repository.path.name}"
        branches = sorted({history.branch for history in self.histories})
        self._apply(admin, "gitrepoconfigs", self.name, {"repoUrl": url, "allowedBranches": branches}, HOME)
        for history in self.histories:
            if with_faults and history.chance.random() < 0.4:
                history.push()  # the branch is there already
            self._make_rooms(admin, history)
            for _ in range(DEEDS_BEFORE):
                history.act(people)
            history.end(people)
            self._follow(admin, history)

    def _make_rooms(self, admin: Person, history: History) -> None:
        for namespace in history.namespaces:
            labels = {LABEL: history.name}
            admin.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})

    def _follow(self, admin: Person, history: History) -> None:
        """Everything that makes the reverser write a history."""
        spec: dict[str, Any] = {
            "repoRef": {"name": self.name},
            "branch": history.branch,
            "baseFolder": history.base,
            "secretPolicy": "Include",
            "allowedNamespaces": list(history.namespaces),
            # A history deletes most of what it made; the limits have tests of their own.
            "deletionBudget": {"files": 100_000, "percent": 100},
            "batch": {"maxWait": history.chance.choice(("0s", "0s", "300ms")), "maxFiles": 5},
        }
        self._apply(admin, "gitdestinations", history.name, spec, HOME)
        to = {"name": history.name, "namespace": HOME}
        for namespace in history.namespaces:
            rules = [{"resources": ["configmaps", "secrets"]}]
            self._apply(admin, "watchrules", "all", {"destinationRef": to, "rules": rules}, namespace)
        labelled = {"matchLabels": {LABEL: history.name}}
        wide = [
            {"scope": "Namespaced", "resources": ["deployments.apps"], "namespaceSelector": labelled},
            {"scope": "Cluster", "resources": ["clusterroles"], "labelSelector": labelled},
        ]
        self._apply(admin, "clusterwatchrules", history.name, {"destinationRef": to, "rules": wide})

    def _apply(
        self, admin: Person, plural: str, name: str, spec: dict[str, Any], namespace: str = ""
    ) -> None:
        kinds = {
            "gitrepoconfigs": "GitRepoConfig",
            "gitdestinations": "GitDestination",
            "watchrules": "WatchRule",
            "clusterwatchrules": "ClusterWatchRule",
        }
        body = {"apiVersion": GROUP, "kind": kinds[plural], "metadata": {"name": name}, "spec": spec}
        admin.send("POST", _address(plural, namespace), body)

    def _tear_down(self, admin: Person) -> None:
        for history in self.histories:
            admin.send("DELETE", f"{_address('clusterwatchrules')}/{history.name}")
            for namespace in history.namespaces:
                admin.send("DELETE", f"{_address('watchrules', namespace)}/all")
            admin.send("DELETE", f"{_address('gitdestinations', HOME)}/{history.name}")
            for folder in {life.folder for life in history.lives.values()}:
                chosen = f"?labelSelector={LABEL}" if folder.endswith("clusterroles") else ""
                admin.send("DELETE", f"{folder}{chosen}")
        admin.send("DELETE", f"{_address('gitrepoconfigs', HOME)}/{self.name}")

    # The histories.

    def _play(self, history: History, with_faults: bool) -> None:
        pace = random.Random(history.seed)  # noqa: S311 - the same each time
        try:
            with self.environment.people() as people:
                for deed in range(MOST_DEEDS):
                    if self._over.is_set() and deed >= LEAST_DEEDS:
                        break
                    history.act(people)
                    if with_faults and pace.random() < 0.12:
                        history.push()
                    time.sleep(pace.choice((0.0, LONGEST_PAUSE / 4, LONGEST_PAUSE)) * pace.random())
                history.end(people)
        except Exception as error:  # reported with everything else
            self._failed[history.seed] = error

    def _settled(self, history: History, admin: Person, deadline: float) -> list[str]:
        """The differences at the deadline."""
        wanted = self._wanted(history, admin)
        known = {path: life.steps[-1].blob for path, life in history.lives.items()}
        if wanted != {path: blob for path, blob in known.items() if blob is not None}:
            return [f"the cluster differs from the recorded history: {wanted} and {known}"]

        def found() -> list[str]:
            self.faults.check_replicas()
            return differences(history, blobs_of(self.repository, history.branch), wanted)

        try:
            eventually(lambda: not found(), deadline - time.monotonic(), interval=0.1)
        except ConditionTimeout:
            return found()
        return []

    def _wanted(self, history: History, admin: Person) -> dict[str, str]:
        """The files that the cluster is to have, from a fresh look at it."""
        wanted: dict[str, str] = {}
        for folder in sorted({life.folder for life in history.lives.values()}):
            listed = admin.send("GET", folder)
            for item in listed["items"]:
                kind = next(each for each in KINDS if KINDS[each] == listed["kind"].removesuffix("List"))
                obj = {"apiVersion": listed["apiVersion"], "kind": KINDS[kind], **item}
                blob = history.blob_of(obj)
                key = ManifestKey(*kind, item["metadata"].get("namespace", ""), item["metadata"]["name"])
                if blob is not None:
                    wanted[manifest_path(key, history.base)] = blob
        return wanted

    def _judge(self, wrong: dict[int, list[str]]) -> None:
        for branch in sorted({history.branch for history in self.histories}):
            aboard = [history for history in self.histories if history.branch == branch]
            judge = BranchHistoryCheck(aboard)
            for sentence in judge.hear(commits_of(self.repository, branch)):
                blamed = next((each for each in aboard if each.base in sentence), aboard[0])
                wrong.setdefault(blamed.seed, []).append(sentence)
            self.authors += judge.authors

    def _report(self, wrong: dict[int, list[str]]) -> str:
        seeds = [history.seed for history in self.histories]
        lines = [f"{self.name}, seeds {seeds}: see {self.environment.folder}"]
        for history in self.histories:
            if history.seed in wrong:
                commits = [str(each) for each in commits_of(self.repository, history.branch)]
                mine = [line for line in commits if history.base in line]
                lines += [f"seed {history.seed} on {history.branch}:", *wrong[history.seed]]
                lines += ["  what happened:", *(f"    {line}" for line in history.recorded)]
                lines += ["  what git holds:", *(f"    {line}" for line in mine)]
        return "\n".join([*lines, "the faults:", *(f"    {line}" for line in self.faults.recorded)])


def _address(plural: str, namespace: str = "") -> str:
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{GROUP}{where}/{plural}"
