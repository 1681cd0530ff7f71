"""The network of a node: an address of its own, a bridge for its pods, and no way to anywhere else.

The plug-in makes the bridge with the first pod; here are the settings of the plug-in, and
the kernel settings that it needs.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ADDRESS = "10.200.0.1"
"""The node's; servers of a test listen here, and pods reach them."""
PODS = "10.244.0.0/24"
BRIDGE = "10.244.0.1"
"""The node's end of the bridge: from here its own programs speak to pods."""
LINK = "node0"


def prepare() -> None:
    """Give the node its address. Only in a network namespace of its own."""
    for words in (
        "link set lo up",
        # A veth pair whose other end is unused: not every kernel has dummy interfaces.
        f"link add {LINK} type veth peer name {LINK}-end",
        f"addr add {ADDRESS}/32 dev {LINK}",
        f"link set {LINK} up",
        f"link set {LINK}-end up",
        # A Service's address is found a route before it is rewritten; without one nothing is sent.
        f"route add default dev {LINK} src {ADDRESS}",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def write_plugins(folder: Path, state: Path) -> None:
    """The configuration that containerd reads for every pod."""
    folder.mkdir()
    bridge = {
        "type": "bridge",
        "bridge": "pods0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(state),
            "ranges": [[{"subnet": PODS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    plugins = [bridge, {"type": "loopback"}]
    config = {"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}
    (folder / "10-pods.conflist").write_text(json.dumps(config))
