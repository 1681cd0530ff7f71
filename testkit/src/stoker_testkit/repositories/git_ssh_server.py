"""A real git server over ssh: the machine's own sshd, on a port of its own.

Serves the bare repositories of a folder to holders of an authorized key, as the
user who runs it, root or not. The login is forced into `git shell`, so that a
key opens repositories and nothing else. Host keys can be replaced while it runs,
which is what a client with pinned keys must notice.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from stoker.domain.errors import Misconfigured
from stoker_testkit.processes import Process, on_free_ports
from stoker_testkit.repositories.ssh_keys import KeyKind, make_ssh_key
from stoker_testkit.stoppable import Stoppable

READY_SECONDS = 15.0
PRIVILEGE_SEPARATION = Path("/run/sshd")
# The folders of sshd, which are not on the PATH of ordinary users.
_SBIN = ("/usr/sbin", "/usr/local/sbin", "/sbin")


class GitSshServer(Stoppable):
    """sshd in front of the bare repositories below `root`; its own files are in `folder`."""

    def __init__(self, root: Path, folder: Path, kinds: Sequence[KeyKind]) -> None:
        self.root = root
        self.folder = folder
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self.known_hosts = folder / "known_hosts"
        self._authorized_keys = folder / "authorized_keys"
        self._kinds = tuple(kinds)
        self._certificates: tuple[Path, ...] = ()
        self._sshd = find_sshd((*os.get_exec_path(), *_SBIN))
        self._port = 0
        self._process: Process

    @classmethod
    def start(cls, root: Path, folder: Path, *, host_keys: Sequence[KeyKind] = tuple(KeyKind)) -> Self:
        """Start one on a free port of 127.0.0.1, with a host key of each kind and no authorized key."""
        for needed in (root, folder):
            needed.mkdir(parents=True, exist_ok=True)
        server = cls(root, folder, host_keys)
        server._authorized_keys.touch(mode=0o600)
        public_lines = server._make_host_keys()
        on_free_ports(1, lambda ports: server._serve(ports[0]))
        server.known_hosts.write_text("".join(f"{server.address} {line}\n" for line in public_lines))
        return server

    @property
    def address(self) -> str:
        """The host as a known_hosts file names it."""
        return f"[127.0.0.1]:{self._port}"

    def url(self, repository: str) -> str:
        """The address of a repository, named by its path below the root."""
        return f"ssh://{self.user}@127.0.0.1:{self._port}{self.root / repository}"

    def authorized_key(self, name: str = "client", kind: KeyKind = KeyKind.ED25519) -> Path:
        """A new client key that opens the server."""
        key = make_ssh_key(self.folder / name, kind)
        with self._authorized_keys.open("a") as file:
            file.write(f"{key.public_line} {name}\n")
        return key.private

    def stranger_key(self, name: str = "stranger", kind: KeyKind = KeyKind.ED25519) -> Path:
        """A new client key that the server does not know."""
        return make_ssh_key(self.folder / name, kind).private

    def revoke(self, name: str) -> None:
        """Take the authorization of a key back."""
        file = self._authorized_keys
        kept = [line for line in file.read_text().splitlines(keepends=True) if line.split()[-1] != name]
        file.write_text("".join(kept))

    def environment(self, key: Path, known_hosts: Path | None = None) -> dict[str, str]:
        """The environment in which git uses this key and checks the host against these keys."""
        options = (
            f"IdentityFile={key}",
            "IdentitiesOnly=yes",
            f"UserKnownHostsFile={known_hosts or self.known_hosts}",
            "GlobalKnownHostsFile=/dev/null",
            "StrictHostKeyChecking=yes",
            "BatchMode=yes",
        )
        command = ["ssh", "-F", "none", *(part for option in options for part in ("-o", option))]
        return {"GIT_SSH_COMMAND": shlex.join(command)}

    def replace_host_keys(self) -> None:
        """Come back at the same address with other host keys; `known_hosts` keeps the old ones."""
        self._process.stop()
        self._make_host_keys()
        self._serve(self._port)

    def present_certificate(self, certificate: Path) -> None:
        """Come back at the same address with a certificate for one of the host keys."""
        self._process.stop()
        self._certificates = (*self._certificates, certificate)
        self._serve(self._port)

    def stop(self) -> None:
        self._process.stop()

    def _make_host_keys(self) -> list[str]:
        return [make_ssh_key(self._host_key(kind), kind).public_line for kind in self._kinds]

    def _host_key(self, kind: KeyKind) -> Path:
        return self.folder / f"host_{kind}"

    def _serve(self, port: int) -> None:
        self._port = port
        if os.geteuid() == 0:
            # Root's sshd confines its network half to this folder, which on a machine
            # does not exist unless an ssh service has run since the last boot.
            PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        config = self.folder / "sshd_config"
        config.write_text("".join(f"{line}\n" for line in self._settings()))
        argv: tuple[str | Path, ...] = (self._sshd, "-D", "-e", "-f", config, *self._newer_options(config))
        self._process = Process.start("sshd", argv, log=self.folder / "sshd.log")
        try:
            self._process.wait_ready(self._greets, READY_SECONDS)
        except BaseException:
            self._process.kill()
            raise

    def _settings(self) -> Sequence[str]:
        git = shutil.which("git") or "git"
        return (
            "ListenAddress 127.0.0.1",
            f"Port {self._port}",
            *(f'HostKey "{self._host_key(kind)}"' for kind in self._kinds),
            *(f'HostCertificate "{certificate}"' for certificate in self._certificates),
            f'AuthorizedKeysFile "{self._authorized_keys}"',
            f"AllowUsers {self.user}",
            "AuthenticationMethods publickey",
            "PermitRootLogin prohibit-password",
            "StrictModes no",  # temporary folders are below one that every user may write to
            "UsePAM no",
            "PidFile none",
            "PrintMotd no",
            "LogLevel VERBOSE",
            "AcceptEnv GIT_PROTOCOL",
            "DisableForwarding yes",
            f'ForceCommand {git} shell -c "$SSH_ORIGINAL_COMMAND"',
        )

    def _newer_options(self, config: Path) -> tuple[str, ...]:
        """Those that an older sshd would refuse to start with.

        A newer one refuses an address for a while after a wrong key, and here all clients share one.
        """
        option = ("-o", "PerSourcePenalties=no")
        known = subprocess.run([self._sshd, "-t", "-f", config, *option], capture_output=True, check=False)
        return option if known.returncode == 0 else ()

    def _greets(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1.0) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False


def find_sshd(folders: Sequence[str]) -> Path:
    """Its absolute path, by which it starts itself anew for every connection."""
    found = shutil.which("sshd", path=os.pathsep.join(folders))
    if found is None:
        raise Misconfigured("there is no sshd on this machine; install the package openssh-server")
    return Path(found).absolute()
