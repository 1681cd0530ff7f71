"""The reverser's part of the demo: objects that it writes to git, and a user who changes one of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from stoker.domain.errors import Stalled
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.namespace_objects import require
from stoker_testkit.demo.commits import author_of, show_commit
from stoker_testkit.demo.output import say, title
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.reverser_environment import ReverserSite
from stoker_testkit.wait_until import eventually

NAMESPACE = "recipes"
RECIPE = "lemonade"
PERSON = "alice"
PATIENCE_SECONDS = 90.0


class ReverserDemo:
    """A namespace with recipes, and the repository that the reverser writes them to."""

    def __init__(self, cluster: ClusterAccess, folder: Path, repository: Repository, url: str) -> None:
        self.site = ReverserSite(cluster, NAMESPACE, folder, url)
        self._cluster = cluster
        self._repository = repository

    def describe(self, login: str = "") -> None:
        """Create the user's rights and the reverser's resources; `login` is the git token for a Secret."""
        self._cluster.create_namespace(NAMESPACE)
        served = [self.site.path_of(kind) for kind in ("GitRepoConfig", "GitDestination", "WatchRule")]
        eventually(
            lambda: all(self._cluster.request("GET", path).status == 200 for path in served),
            PATIENCE_SECONDS,
            "the API server serves the kinds of the reverser",
            interval=0.2,
        )
        self._kubectl("create", "role", "cooks", "--verb=get,create,patch,delete", "--resource=configmaps")
        self._kubectl("create", "rolebinding", "cooks", "--role=cooks", f"--user={PERSON}")
        self._kubectl(
            "create", "configmap", RECIPE, "--from-literal=sugar=90 g", "--from-literal=temperature=80 C"
        )
        if login:
            self.site.secret("git", token=login)
        spec: dict[str, Any] = {"secretRef": {"name": "git"}} if login else {}
        self.site.repo_config(**spec)
        self.site.destination()
        self.site.rule()

    def until_known(self, tail: Callable[[], str]) -> None:
        """Wait until the API server calls the reverser's webhook: then a change has an author in git."""
        probe, tries = self.site.map_path("probe"), count(1)

        def known() -> bool:
            tried = f"try {next(tries)}"
            self._write_probe(tried)
            self.site.until_files(self._repository, {probe: tried})
            return author_of(self._repository, probe) == PERSON

        eventually(known, PATIENCE_SECONDS, lambda: f"an author in git:\n{tail()}", interval=0.2)
        self.site.delete("ConfigMap", "probe")
        self.site.until_files(self._repository, {probe: None})

    def change(self, number: int) -> None:
        title(f"{PERSON} changes a ConfigMap in the cluster: Git has a commit by {PERSON}", number)
        path, patch = self.site.map_path(RECIPE), '{"data": {"temperature": "82 C"}}'
        say(f"$ kubectl -n {NAMESPACE} patch configmap {RECIPE} --patch '{patch}'", about=PERSON)
        self._kubectl("patch", "configmap", RECIPE, "--patch", patch, user=PERSON)
        self.site.until_files(self._repository, {path: "82 C"})
        show_commit(self._repository, "refs/heads/main", path)
        author = author_of(self._repository, path)
        if author != PERSON:
            raise Stalled(f"{path} was changed by {PERSON}, and git says {author}")

    def _write_probe(self, text: str) -> None:
        """Write as the user: changes by the reverser's own user have no author."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "probe"},
            "data": {"text": text},
        }
        path = f"{self.site.path_of('ConfigMap', 'probe')}?fieldManager={PERSON}&force=true"
        kind = "application/apply-patch+yaml"
        require(self._cluster.request("PATCH", path, body, user=PERSON, content_type=kind), 200, 201)

    def _kubectl(self, *words: str, user: str = "admin") -> str:
        return self._cluster.kubectl("--namespace", NAMESPACE, *words, user=user).stdout
