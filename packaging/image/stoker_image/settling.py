"""What the scripts of the packages would have done at their installation.

A user, the bundle of certificate authorities, a few links, and a record of each
package where scanners look for it when there is no dpkg.
"""

from __future__ import annotations

from stoker_image.contents import APPLETS
from stoker_image.trees import Node, Tree

USER = 65532
# Mount points and what a runtime expects to be there.
KEPT_FOLDERS = frozenset({"dev", "etc", "proc", "root", "run", "sys", "tmp", "usr/sbin", "var/tmp"})

_PASSWD = f"""\
root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/bin/false
stoker:x:{USER}:{USER}:stoker:/tmp:/usr/bin/false
"""
_GROUP = f"root:x:0:\ntty:x:5:\nnogroup:x:65534:\nstoker:x:{USER}:\n"
_NSSWITCH = """\
passwd: files
group: files
shadow: files
hosts: files dns
networks: files
protocols: files
services: files
"""


def settle(tree: Tree, architecture: str) -> None:
    for name in ("bin", "sbin", "lib"):
        tree.raw_link(name, f"usr/{name}")
    if architecture == "amd64":
        tree.raw_link("lib64", "usr/lib64")
    for path in KEPT_FOLDERS:
        tree.folder(path, 0o1777 if path in {"tmp", "var/tmp"} else 0o755)
    tree.link("var/run", "/run")
    tree.file("etc/passwd", _PASSWD)
    tree.file("etc/group", _GROUP)
    tree.file("etc/nsswitch.conf", _NSSWITCH)
    tree.link("etc/localtime", "/usr/share/zoneinfo/Etc/UTC")
    tree.file("etc/timezone", "Etc/UTC\n")
    _trust(tree)
    for name in APPLETS.split():
        if f"usr/bin/{name}" not in tree:
            tree.link(f"usr/bin/{name}", "busybox")


def record(tree: Tree, name: str, control: str) -> None:
    """Where scanners of images look for the packages of an image without dpkg."""
    status = control.rstrip("\n").replace("\n", "\nStatus: install ok installed\n", 1) + "\n"
    tree.file(f"var/lib/dpkg/status.d/{name}", status)


def _trust(tree: Tree) -> None:
    authorities = [
        node.content.strip() + b"\n"
        for path, node in tree
        if path.startswith("usr/share/ca-certificates/") and path.endswith(".crt")
    ]
    tree.put("etc/ssl/certs/ca-certificates.crt", Node(0o644, b"".join(authorities)))
    # Where OpenSSL as Debian builds it looks when nobody says otherwise.
    tree.link("usr/lib/ssl/cert.pem", "/etc/ssl/certs/ca-certificates.crt")
    tree.link("usr/lib/ssl/certs", "/etc/ssl/certs")
