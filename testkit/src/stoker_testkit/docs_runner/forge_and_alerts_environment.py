"""Environments with a cluster for pages about other services: a forge, alert receivers, and helm's rollback.

They are the plant of `stages` with one thing more. `forge` has the repository on a real Gitea,
`alerts` has the services that a page sends to, and `release` follows helm also when
it takes a revision back or the whole release away, as nodes would.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.docs_runner.cluster_environment import LOOK_SECONDS, PATIENCE, Cluster
from stoker_testkit.docs_runner.cluster_manifests import NAMESPACE, RESOURCE
from stoker_testkit.docs_runner.reader_environment import REPOSITORY, TOKEN
from stoker_testkit.forges.gitea import GiteaRepository, GiteaServer
from stoker_testkit.services.alert_receivers import ROUTING_KEY, AlertServices
from stoker_testkit.wait_until import eventually

STAGES = ("forge", "alerts", "release")
KINDS = (
    "deployments",
    "jobs",
    "services",
    "configmaps",
    "secrets",
    "leases",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "clusterroles",
    "clusterrolebindings",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "poddisruptionbudgets",
    "networkpolicies",
)
"""The kinds of a release, or of a resource of ours."""
SERVER = "https://git.example.net"
# The reader's helm, before it is that of `stages`: pods of an uninstall are run, and programs end with it.
HELM = """#!/bin/sh
case "$1" in
(uninstall)
    rm -f '{left}'
    : > '{leaving}'
    '{helm}' "$@"
    echo $? > '{left}'
    while [ -e '{leaving}' ]; do sleep 0.1; done
    exit "$(cat '{left}')";;
(rollback)
    for kind in mutating validating; do
        kubectl delete ${{kind}}webhookconfigurations stoker-webhook stoker-reverser --ignore-not-found
    done >/dev/null
    '{helm}' "$@" || exit $?
    : > '{asked}'
    while [ -e '{asked}' ]; do sleep 0.1; done
    exit 0;;
esac
exec '{installing}' "$@"
"""
# The login is the reader's, and is on no command line.
MERGE = """#!/bin/sh
login=$(printf 'protocol={scheme}\\nhost={host}\\n\\n' | git credential fill |
    sed -n 's/^username=//p; s/^password=//p' | paste -s -d :)
for _ in $(seq 100); do  # a forge looks for conflicts before it lets anybody merge
    printf 'user = "%s"\\n' "$login" |
        curl --config - --silent --fail --header 'Content-Type: application/json' \\
            --data '{{"Do": "merge"}}' '{address}/pulls/1/merge' && exit 0
    sleep 0.2
done
exit 1
"""


class ForgeAndAlerts(Cluster):
    """All of these stages, by their names."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.services = self._stack.enter_context(AlertServices.start())
        self.forge: GiteaRepository | None = None
        self._home = folder / "home"
        self._going, self._gone = folder / "leaving", folder / "left"
        self._plain = dict(self.names)
        self._put_helm(folder)
        self._usher = threading.Thread(target=self._see_off, name="usher", daemon=True)
        self._usher.start()

    def set_up(self, stage: str) -> None:
        """Bring it to where plays on this stage begin."""
        prepare: dict[str, Callable[[], None]] = {
            "forge": self._on_a_forge,
            "alerts": self._with_services,
            "release": self._with_release,
        }
        self.names, self.token = dict(self._plain), TOKEN
        prepare[stage]()

    @property
    def programs(self) -> list[str]:
        """Those of the release that run."""
        return sorted(self._release.running)

    def data(self, gateway: str) -> Path:
        """The data folder of a gateway."""
        return self.gateways.started[NAMESPACE, gateway].data_dir

    def ready_pods(self) -> list[str]:
        """The pods of the plant that are ready."""
        state = '{.status.conditions[?(@.type=="Ready")].status}'
        template = f'{{range .items[*]}}{{.metadata.name}} {state}{{"\\n"}}{{end}}'
        printed = self.cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", f"jsonpath={template}").stdout
        return [line.split()[0] for line in printed.splitlines() if line.endswith(" True")]

    def status(self) -> dict[str, Any]:
        """The status of the plant's resource."""
        printed = self.cluster.kubectl("-n", NAMESPACE, "get", "stoker", RESOURCE, "-o", "json").stdout
        status: dict[str, Any] = json.loads(printed)["status"]
        return status

    def left_behind(self) -> list[str]:
        """The objects in the cluster that have our name."""
        printed = self.cluster.kubectl("get", ",".join(KINDS), "--all-namespaces", "-o", "name").stdout
        return [line for line in printed.splitlines() if "stoker" in line]

    def stop(self) -> None:
        self._leaving.set()
        self._usher.join()
        super().stop()

    def _have_release(self, *values: str) -> None:
        """Its controller knows where PagerDuty is; no page could say that."""
        if not self._release.running:
            setting = f"controller.extraArgs={{--pagerduty-url={self.services.pagerduty_url}}}"
            super()._have_release("--set", setting, *values)

    def _on_a_forge(self) -> None:
        self._clear()
        if self.forge is None:
            self.forge = self._carried_over()
        gitea = self.forge.forge
        self.token = gitea.token
        self.names |= {REPOSITORY: self.forge.clone_url, SERVER: gitea.url, "debounce: 30s": "debounce: 1s"}
        self._fill()

    def _with_services(self) -> None:
        self._with_release()
        # As an editor leaves them: with a line's end.
        for name, text in (
            ("slack-url", self.services.url("slack")),
            ("pagerduty-key", ROUTING_KEY),
            ("teams-url", self.services.url("teams")),
        ):
            (self.folder / name).write_text(f"{text}\n")

    def _with_release(self) -> None:
        self._clear()
        self._fill()

    def _carried_over(self) -> GiteaRepository:
        """The plant's repository on a forge, where the reader and another user may merge."""
        gitea = self._stack.enter_context(GiteaServer.start(self._folder / "gitea"))
        gitea.request("POST", "/user/repos", {"name": "config", "default_branch": "main"})
        made = GiteaRepository(gitea, "config")
        parts = urlsplit(made.clone_url)
        login = f"{parts.scheme}://{gitea.user}:{gitea.token}@{parts.netloc}{parts.path}"
        with (self._home / ".git-credentials").open("a") as kept:
            kept.write(f"{login}\n")
        source = self._folder / "repositories" / "plant" / "config.git"
        self._git("-C", str(source), "push", "--quiet", made.clone_url, "main", "v12")
        address = f"{gitea.url}/api/v1/repos/{gitea.user}/{made.name}"
        merge = MERGE.format(scheme=parts.scheme, host=parts.netloc, address=address)
        self.reader.script("another-user-merges", merge)
        return made

    def _git(self, *words: str) -> None:
        subprocess.run(["git", *words], env=self.environment, check=True, timeout=PATIENCE)

    # What nodes would do when a release is rolled back or uninstalled.

    def _put_helm(self, folder: Path) -> None:
        helm, installing = folder / "helm", folder / "helm-installs"
        helm.rename(installing)
        places = {"leaving": self._going, "left": self._gone, "asked": self._asked}
        helm.write_text(HELM.format(helm=assets.helm(), installing=installing, **places))
        helm.chmod(0o700)

    def _see_off(self) -> None:
        while not self._leaving.wait(LOOK_SECONDS):
            if self._going.exists():
                try:
                    self._follow_uninstall()
                except Exception as error:  # told with the play that it spoils
                    self._trouble = repr(error)
                finally:
                    self._going.unlink()

    def _follow_uninstall(self) -> None:
        """Run what the chart does before it goes; when all of it is gone, no program runs."""
        self._release.remove_finalizers(self._gone.exists)
        eventually(lambda: self._gone.exists() and self._gone.read_text(), PATIENCE, "helm has ended")
        if self._gone.read_text().strip() == "0":
            self._release.stop()
