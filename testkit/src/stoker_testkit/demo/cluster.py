"""The demo with the whole operator: an empty cluster, a release of the chart, five gateways.

The chart, helm, the API server and its controllers, `stoker controller`, `stoker webhook`, `stoker reverser`
and five agents are real. Two things are replaced: a kubelet without containers
(`stoker_testkit.kubelet.process_kubelet`) runs in place of a container runtime, and test gateways run in
place of gateways.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from stoker.domain.errors import Misconfigured
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.chart.helm import CHART
from stoker_testkit.chart.process_release import HOME, ProcessRelease
from stoker_testkit.chart.reverser_process import start_reverser
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.demo.cluster_to_git import PERSON, ReverserDemo
from stoker_testkit.demo.commits import PATIENCE_SECONDS, merge_change
from stoker_testkit.demo.dashboards import DemoDashboard
from stoker_testkit.demo.output import say, show_command, stoker, title
from stoker_testkit.environments.agent_environment import project
from stoker_testkit.environments.operator_environment import GATEWAY, IGNITION
from stoker_testkit.environments.operator_process_environment import OperatorSite
from stoker_testkit.kubelet.process_containers import GatewayImage, Image, Program
from stoker_testkit.kubelet.process_kubelet import ProcessKubelet
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.sample_ignition_repository import VIEWS, view
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

LINE = ("filler", "capper", "labeler", "packer", "palletizer")
NAMESPACE, RESOURCE = "plant", "line-1"
VALUES = {"reverser": {"enabled": True}, "dashboard": {"enabled": True}}
KEY = planted("demo-webhook-key")


class ClusterDemo:
    """One cluster, one release, one resource, five gateways."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._repository = Repository.create(folder / "repositories" / "plant.git")
        self._url = ""
        self._release: ProcessRelease
        self._site: OperatorSite
        self._recipes: ReverserDemo
        self._dashboard: DemoDashboard

    @staticmethod
    def build() -> None:
        """Build what this machine lacks: an API server with its controllers, and helm."""
        if not CHART.is_dir():
            raise Misconfigured(
                "the chart was not found: run the demo with --cluster in a clone of the repository"
            )
        assets.ensure(assets.ALL)
        assets.helm()

    def install(self) -> None:
        title("Setting up an empty Kubernetes cluster; helm installs the chart")
        plane = self._stack.enter_context(
            ControlPlane.start(self._folder / "cluster", controller_manager=True)
        )
        self._release = self._stack.enter_context(ProcessRelease(plane, self._folder, VALUES))
        self._release.install()
        self._release.start("controller", "webhook")
        self._open_repositories(plane)
        chosen = [f"--set={part}.enabled=true" for part in VALUES]
        show_command(
            ["helm", "install", "stoker", "charts/stoker", f"--namespace={HOME}", *chosen], self._folder
        )
        say("controller, webhook and reverser run with the arguments and service accounts of the chart")
        port = self._release.ports["controller"]["dashboard-bind-address"]
        self._dashboard = DemoDashboard(port, plane.token("admin"))
        self._show_dashboard()

    def start_gateways(self) -> None:
        title("One Stoker resource, and five gateway pods with two annotations each")
        gateways = GatewayImage()
        images: dict[str, Image] = {self._release.image: Program(), IGNITION: gateways}
        kubelet = self._stack.enter_context(
            ProcessKubelet.start(self._release.cluster, self._folder / "node", images)
        )
        self._site = site = OperatorSite.open(self._release, kubelet, gateways, NAMESPACE, self._folder)
        site.secret("hook", hmac=KEY)
        site.apply(
            "Stoker",
            RESOURCE,
            git={"repo": self._url, "ref": "main"},
            gateway=GATEWAY,
            polling={"interval": "1h"},
            webhook={"secretRef": {"name": "hook", "key": "hmac"}},
            bidirectional={
                "enabled": True,
                "watchPaths": ["projects/**"],
                "debounce": "1s",
                "createPR": False,
            },
            deployment={"autoRollback": {"enabled": True, "triggers": ["projectLoadError"]}},
        )
        for name in LINE:
            site.gateway_pod(name, service_path=f"services/{name}")
        say('stoker.io/inject: "true", stoker.io/service-path: services/NAME')
        resource = "RESOURCE:.metadata.labels.stoker\\.io/cr-name"
        columns = f"POD:.metadata.name,{resource},AGENT:.spec.initContainers[*].name"
        say(self._kubectl("get", "pods", "-o", f"custom-columns={columns}"))
        began = time.monotonic()
        site.until_synced("Stoker", RESOURCE, self._repository.tip(), len(LINE))
        self._show(began)
        self._recipes.until_known(self._recipes.site.tail)

    def push(self, number: int) -> None:
        title("A push that changes two gateways: a signed webhook triggers the sync", number)
        commit = self._commit(2, "filler", "packer")
        began = time.monotonic()
        self._call(commit)
        self._site.until_synced("Stoker", RESOURCE, commit, len(LINE))
        self._show(began)
        self._dashboard.show_synced("filler", commit)
        for name in ("filler", "capper"):
            self._say_project(name)

    def change_on_a_gateway(self, number: int) -> None:
        title("A designer saves a view on a gateway: Git has a branch with the change", number)
        branch, folder = f"gateway-changes/{NAMESPACE}/labeler", f"projects/labeler/{VIEWS}/v0"
        for name, text in view("Labeler overview, with a counter of jams").items():
            self._site.gateway("labeler").save(f"{folder}/{name}", text.encode())
        say(f"saved {folder}/view.json", about="labeler")
        edited = f"services/labeler/{folder}/view.json"
        tip = merge_change(self._repository, branch, edited, lambda: self._site.describe("Stoker", RESOURCE))
        self._call(tip)
        self._site.until_synced("Stoker", RESOURCE, tip, len(LINE))
        say(self._kubectl("get", "stokers"))

    def change_in_the_cluster(self, number: int) -> None:
        self._recipes.change(number)
        self._dashboard.show_written(PERSON)

    def break_one(self, number: int) -> None:
        title("A commit with a project that the filler cannot load: it is rolled back", number)
        cleaning, began = "services/filler/projects/cleaning/project.json", time.monotonic()
        bad = self._commit(3, "filler", more={cleaning: "[]\n"})
        say(f"{bad.short}: its new project.json is not valid. The gateway is asked twice.", about="git")
        self._call(bad)
        message = self._site.until(
            "Stoker", RESOURCE, "AutoRollbackPerformed", str(Reason.AUTO_ROLLBACK), PATIENCE_SECONDS
        )
        say(f"AutoRollbackPerformed after {time.monotonic() - began:.0f} s: {message}")
        say(self._status())
        reason = str(Reason.AUTO_ROLLBACK)
        self._dashboard.show_gateway("filler", reason, lambda one: one.reason == reason)
        self._say_project("filler")
        good = self._commit(3, "filler", more={cleaning: '{"title": "Cleaning", "enabled": true}\n'})
        began = time.monotonic()
        self._call(good)
        self._site.until_synced("Stoker", RESOURCE, good, len(LINE))
        self._show(began)
        self._say_project("filler")

    def uninstall(self) -> None:
        title("Uninstalling: the resource, then the release. The gateways keep their files.")
        self._kubectl("delete", "stoker", RESOURCE, "--timeout=60s")
        self._recipes.site.stop()
        self._release.uninstall()
        self._release.stop()
        eventually(
            lambda: not self._left(), PATIENCE_SECONDS, lambda: f"{self._left()} go away", interval=0.2
        )
        kept = sum(self._site.file(name, f"projects/{name}/project.json") is not None for name in LINE)
        say("only the CRDs are left of the operator")
        say(f"{kept} of {len(LINE)} gateways still run with their files")

    def show_what_stays(self) -> None:
        say(f"$ export KUBECONFIG={self._release.cluster.kubeconfig(namespace=NAMESPACE)}")
        say(f"$ stoker status --namespace {NAMESPACE} --watch")
        say(f"$ git clone {self._repository.path}")
        self._show_dashboard()

    def _show_dashboard(self) -> None:
        say(self._dashboard.link, about="dashboard")

    def _open_repositories(self, plane: ControlPlane) -> None:
        self._commit(1, *LINE)
        state = Repository.create(self._repository.path.parent / "cluster.git")
        server = self._stack.enter_context(GitHttpServer.start(self._repository.path.parent))
        self._url = server.url("plant.git")
        say(f"{self._url}, branch main at {self._repository.tip().short}: {', '.join(LINE)}", about="git")
        folder = self._folder / "reverser"
        folder.mkdir()
        self._recipes = ReverserDemo(plane, folder, state, server.url("cluster.git"))
        self._recipes.describe()
        reverser = start_reverser(self._release.cluster, self._release.pods["reverser"], folder)
        self._recipes.site.running.append(reverser)
        self._stack.enter_context(self._recipes.site)

    def _commit(self, version: int, *names: str, more: Mapping[str, str] | None = None) -> CommitId:
        files = {
            f"services/{name}/{path}": text for name in names for path, text in project(name, version).items()
        }
        message = f"Version {version} of {', '.join(names)}"
        return self._repository.commit({**files, **(more or {})}, message=message)

    def _say_project(self, name: str) -> None:
        project_title = json.loads(self._site.file(name, f"projects/{name}/project.json") or "{}").get(
            "title"
        )
        say(f"its project has the title {project_title!r}", about=name)

    def _call(self, commit: CommitId) -> None:
        """Send the webhook that a forge sends after a push."""
        body = json.dumps({"ref": "refs/heads/main", "after": str(commit)}).encode()
        request = urllib.request.Request(  # noqa: S310 - the address is our own
            f"{self._release.receiver}/webhook/{NAMESPACE}/{RESOURCE}",
            data=body,
            headers={
                "Content-Type": "application/json",
                "X-GitHub-Event": "push",
                "X-Hub-Signature-256": f"sha256={hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()}",
            },
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=PATIENCE_SECONDS) as answer:
            say(f"POST {request.full_url}: {answer.status} {answer.read().decode().strip()}")

    def _show(self, began: float) -> None:
        say(self._kubectl("get", "stokers"))
        say(f"all gateways verified after {time.monotonic() - began:.0f} s")

    def _status(self) -> str:
        config = str(self._release.cluster.kubeconfig())
        return stoker("status", RESOURCE, "--namespace", NAMESPACE, "--kubeconfig", config)

    def _left(self) -> list[str]:
        mine = self._kubectl("get", "configmaps,roles,rolebindings", "-o", "name").split()
        return [one for one in mine if one != "configmap/kube-root-ca.crt"]

    def _kubectl(self, *arguments: str) -> str:
        return self._release.cluster.kubectl("-n", NAMESPACE, *arguments).stdout
