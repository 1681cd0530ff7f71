"""A namespace whose gateways and agents are processes, run by a kubelet without containers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from stoker_testkit.chart.process_release import ProcessRelease
from stoker_testkit.environments.operator_environment import GatewaySite
from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.kubelet.process_containers import GatewayImage
from stoker_testkit.kubelet.process_kubelet import ProcessKubelet


@dataclass
class OperatorSite(GatewaySite):
    """One namespace."""

    release: ProcessRelease = field(kw_only=True)
    kubelet: ProcessKubelet = field(kw_only=True)
    image: GatewayImage = field(kw_only=True)

    @classmethod
    def open(
        cls,
        release: ProcessRelease,
        kubelet: ProcessKubelet,
        image: GatewayImage,
        namespace: str,
        folder: Path,
    ) -> OperatorSite:
        """Make the namespace with the key of its gateways."""
        release.cluster.create_namespace(namespace)
        site = cls(release.cluster, namespace, folder, release=release, kubelet=kubelet, image=image)
        site.secret("ignition-api-key", apiKey=KEY)
        kubelet.schedule(namespace)
        return site

    def gateway(self, pod: str) -> SimulatedGateway:
        return self.image.started[self.namespace, pod]

    def file(self, pod: str, path: str) -> str | None:
        try:
            return (self.gateway(pod).data_dir / path).read_text()
        except (FileNotFoundError, KeyError):
            return None

    def crash(self, pod: str) -> None:
        self.kubelet.kill(self.namespace, pod)

    def agent_log(self, pod: str) -> str:
        return "\n".join(self.kubelet.log(self.namespace, pod).splitlines()[-12:])

    def controller_log(self) -> str:
        return self.release.log_tail("controller")

    def check(self) -> None:
        troubles = {
            pod: why for pod, why in self.kubelet.trouble().items() if pod.startswith(f"{self.namespace}/")
        }
        assert not troubles, troubles  # noqa: S101 - a pod that cannot run is a test that cannot pass
