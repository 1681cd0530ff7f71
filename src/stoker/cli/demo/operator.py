"""The whole operator on a control plane of its own: from nothing to five gateways that follow git.

The chart, helm, the API server and its controllers, `stoker controller`, `stoker webhook` and
five agents are real; what is missing is a container runtime, for which a kubelet without
containers stands in (`stoker.testing.kubelet.process_kubelet`), and gateways, which are test gateways.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from stoker.cli.demo.stage import act, say
from stoker.domain.errors import Misconfigured
from stoker.domain.refs import CommitId
from stoker.testing.assets import finding as assets
from stoker.testing.cluster.control_plane import ControlPlane
from stoker.testing.cluster.helm import CHART
from stoker.testing.cluster.release import HOME, Release
from stoker.testing.kubelet.containers import GatewayImage, Image, Program
from stoker.testing.kubelet.process_kubelet import ProcessKubelet
from stoker.testing.repositories.bare import Repository
from stoker.testing.repositories.git_http import GitHttpServer
from stoker.testing.sites.agent_plant import project
from stoker.testing.sites.gateway_site import GATEWAY, IGNITION
from stoker.testing.sites.operated_site import OperatedSite
from stoker.testing.waiting import eventually

LINE = ("filler", "capper", "labeler", "packer", "palletizer")
NAMESPACE, RESOURCE = "bottling", "line-1"
KEY = "demo-webhook-key"
PATIENCE_SECONDS = 90.0


class OperatorDemo:
    """One cluster, one release, one resource, five gateways."""

    def __init__(self, folder: Path, stage: ExitStack) -> None:
        self._folder = folder
        self._stage = stage
        self._repository = Repository.create(folder / "repositories" / "plant.git")
        self._url = ""
        self._release: Release
        self._site: OperatedSite

    @staticmethod
    def set_up() -> None:
        """Build what is missing on this machine: an API server with its controllers, and helm."""
        if not CHART.is_dir():
            raise Misconfigured(
                "the chart is not here: this part of the demo runs in a clone of the repository"
            )
        assets.ensure(assets.ALL)
        assets.helm()

    def install(self) -> None:
        act("An empty cluster; helm installs the chart")
        plane = self._stage.enter_context(
            ControlPlane.start(self._folder / "cluster", controller_manager=True)
        )
        self._release = self._stage.enter_context(Release(plane, self._folder))
        self._release.install()
        self._release.start()
        say(f"$ helm install stoker charts/stoker --namespace {HOME} --create-namespace")
        say("the controller and the webhook run with the arguments and accounts of the chart")

    def write_the_line(self) -> None:
        act("A repository with one folder for each gateway of the line")
        self._commit(1, *LINE)
        root = self._repository.path.parent
        server = self._stage.enter_context(GitHttpServer.start(root))
        self._url = server.url("plant.git")
        say(f"{self._url}, branch main at {self._repository.tip().short}: {', '.join(LINE)}")

    def start_gateways(self) -> None:
        act("One resource, and five pods with two annotations each")
        gateways = GatewayImage()
        images: dict[str, Image] = {self._release.image: Program(), IGNITION: gateways}
        kubelet = self._stage.enter_context(
            ProcessKubelet.start(self._release.cluster, self._folder / "node", images)
        )
        self._site = site = OperatedSite.open(self._release, kubelet, gateways, NAMESPACE, self._folder)
        site.secret("hook", hmac=KEY)
        site.apply(
            "Stoker",
            RESOURCE,
            git={"repo": self._url, "ref": "main"},
            gateway=GATEWAY,
            polling={"interval": "1h"},
            webhook={"secretRef": {"name": "hook", "key": "hmac"}},
        )
        for name in LINE:
            site.gateway_pod(name, service_path=f"services/{name}")
        say('stoker.io/inject: "true", stoker.io/service-path: services/NAME')
        resource = "RESOURCE:.metadata.labels.stoker\\.io/cr-name"
        columns = f"POD:.metadata.name,{resource},AGENT:.spec.initContainers[*].name"
        say(self._kubectl("get", "pods", "-o", f"custom-columns={columns}"))

    def watch_them_sync(self) -> None:
        act("Each agent brings the files before its gateway starts, and believes what the gateway then shows")
        began = time.monotonic()
        self._site.until_synced("Stoker", RESOURCE, self._repository.tip(), len(LINE))
        self._show(began)

    def push(self) -> None:
        act("A commit for two of them; the forge's signed webhook is all that is needed, nobody polls")
        commit = self._commit(2, "filler", "packer")
        began = time.monotonic()
        self._call({"ref": "refs/heads/main", "after": str(commit)})
        self._site.until_synced("Stoker", RESOURCE, commit, len(LINE))
        self._show(began)
        for name in ("filler", "capper"):
            title = json.loads(self._site.file(name, f"projects/{name}/project.json") or "{}").get("title")
            say(f"its project is called {title!r}", by=name)

    def take_it_away(self) -> None:
        act(
            "The resource is deleted, then the release: the agents say goodbye, the gateways keep their files"
        )
        self._kubectl("delete", "stoker", RESOURCE, "--timeout=60s")
        self._release.uninstall()
        self._release.stop()
        eventually(
            lambda: not self._left(), PATIENCE_SECONDS, lambda: f"{self._left()} go away", interval=0.2
        )
        kept = sum(self._site.file(name, f"projects/{name}/project.json") is not None for name in LINE)
        say("nothing of the operator is left but the CRDs")
        say(f"{kept} of {len(LINE)} gateways run on with their files")

    def _commit(self, version: int, *names: str) -> CommitId:
        files = {
            f"services/{name}/{path}": text for name in names for path, text in project(name, version).items()
        }
        return self._repository.commit(files, message=f"Version {version} of {', '.join(names)}")

    def _call(self, event: dict[str, str]) -> None:
        """What a forge does after a push."""
        body = json.dumps(event).encode()
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
        say(f"all verified after {time.monotonic() - began:.0f} s")

    def _left(self) -> list[str]:
        mine = self._kubectl("get", "configmaps,roles,rolebindings", "-o", "name").split()
        return [one for one in mine if one != "configmap/kube-root-ca.crt"]

    def _kubectl(self, *arguments: str) -> str:
        return self._release.cluster.kubectl("-n", NAMESPACE, *arguments).stdout
