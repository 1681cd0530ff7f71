"""The cluster of the operator's stories: on a real node, or with processes where there can be none.

A story asks an environment for sites and for what only a cluster's administrator can do; it does not know
which of the two it is played on.
"""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stoker_testkit.chart.process_release import ProcessRelease
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.environments.operator_environment import IGNITION, GatewaySite
from stoker_testkit.environments.operator_process_environment import OperatorSite
from stoker_testkit.kubelet.process_containers import GatewayImage, Image, Program
from stoker_testkit.kubelet.process_kubelet import ProcessKubelet
from stoker_testkit.node import cni_network, image_archives, node_release
from stoker_testkit.node.node_release import NodeRelease
from stoker_testkit.node.operator_node_environment import NodeSite
from stoker_testkit.node.real_node import RealNode
from stoker_testkit.node.unshare import STATE
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually

PATIENCE = 120.0
REVERSER = {"reverser": {"enabled": True}}


class TimedSteps:
    """The steps and their durations, printed as they happen."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        now = time.monotonic()
        print(f"{now - self._began:8.1f} s  {what} took {now - began:.1f} s", flush=True)  # noqa: T201 - for people who wait


class OperatorCluster(Stoppable):
    """A cluster with the operator in it, both replicas of everything where there are replicas."""

    cluster: ClusterAccess
    address = "127.0.0.1"
    """The address on which servers of a story listen, so that pods reach them."""

    @property
    @abstractmethod
    def receiver(self) -> str:
        """The address for webhooks of git servers."""

    @abstractmethod
    def site(self, namespace: str, folder: Path) -> GatewaySite:
        """A new namespace for gateways."""

    @abstractmethod
    def lose_controller(self) -> None:
        """Take away the controller that works, without a word, and wait until another one does."""

    @abstractmethod
    def lose_webhook(self) -> None:
        """Take away a webhook; pods that are made then still get their agents."""

    @abstractmethod
    def describe(self) -> str:
        """All that may say why something does not come."""


class NodeOperatorCluster(OperatorCluster):
    """A real node."""

    address = cni_network.ADDRESS

    def __init__(self, node: RealNode, release: NodeRelease) -> None:
        self.node = node
        self.release = release
        self.cluster = node.plane

    @classmethod
    def open(cls, folder: Path, steps: TimedSteps) -> NodeOperatorCluster:
        with ExitStack() as failing:
            product, gateway = image_archives.product_archive(), folder / "test-gateway.tar"
            image_archives.write_test_gateway(gateway, product)
            with steps.step("starting the node, with our image on it"):
                node = failing.enter_context(RealNode.start(folder, [product, gateway]))
            values = node_release.values(**REVERSER, **node_release.narrow_network(node))
            stage = cls(node, NodeRelease(node, values))
            with steps.step("helm install"):
                stage.release.install()
            with steps.step("two replicas of each becoming ready"):
                stage.release.until_running()
            with steps.step("the API server asking the webhook through its Service"):
                stage.release.until_asked()
            failing.pop_all()
        return stage

    @property
    def receiver(self) -> str:
        return self.release.receiver

    def site(self, namespace: str, folder: Path) -> NodeSite:
        return NodeSite.open(self.release, namespace, folder)

    def lose_controller(self) -> None:
        before = eventually(self.release.leader, PATIENCE, self.describe)
        self.release.delete_pod(before, grace=0)
        eventually(lambda: self.release.leader() not in ("", before), PATIENCE, self.describe, interval=0.2)

    def lose_webhook(self) -> None:
        self.release.delete_pod(self.release.pods("webhook")[0]["metadata"]["name"])

    def describe(self) -> str:
        return self.release.describe()

    def stop(self) -> None:
        self.node.stop()


class ProcessOperatorCluster(OperatorCluster):
    """Processes of this machine; one of each, because they share its ports."""

    def __init__(self, release: ProcessRelease, kubelet: ProcessKubelet, gateways: GatewayImage) -> None:
        self.release = release
        self.cluster = release.cluster
        self._kubelet = kubelet
        self._gateways = gateways
        self._running = ExitStack()

    @classmethod
    def open(cls, folder: Path, steps: TimedSteps) -> ProcessOperatorCluster:
        with ExitStack() as running:
            with steps.step("starting a control plane"):
                plane = running.enter_context(ControlPlane.start(folder / "plane", controller_manager=True))
            release = running.enter_context(ProcessRelease(plane, folder, REVERSER))
            with steps.step("helm install"):
                release.install()
            with steps.step("the programs becoming ready"):
                release.start()
            gateways = GatewayImage()
            known: dict[str, Image] = {release.image: Program(), IGNITION: gateways}
            kubelet = running.enter_context(ProcessKubelet.start(plane, folder / "node", known))
            stage = cls(release, kubelet, gateways)
            stage._running = running.pop_all()
        return stage

    @property
    def receiver(self) -> str:
        return self.release.receiver

    def site(self, namespace: str, folder: Path) -> OperatorSite:
        return OperatorSite.open(self.release, self._kubelet, self._gateways, namespace, folder)

    def lose_controller(self) -> None:
        self.release.running.pop("controller").kill()
        self.release.start("controller")

    def lose_webhook(self) -> None:
        self.release.stop_program("webhook")
        self.release.start("webhook")

    def describe(self) -> str:
        return self.release.log_tail()

    def stop(self) -> None:
        self._running.close()


def open_stage(folder: Path) -> OperatorCluster:
    """The real node inside `stoker_testkit.node.unshare`, processes elsewhere."""
    steps = TimedSteps()
    state = os.environ.get(STATE)
    return (
        NodeOperatorCluster.open(Path(state), steps) if state else ProcessOperatorCluster.open(folder, steps)
    )
