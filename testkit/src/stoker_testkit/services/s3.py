"""A real object store: versitygw, which serves a folder as S3, ready in a second.

    with S3.start(folder) as store:
        store.create_bucket("plant")
        storage = buckets.s3(store.bucket("plant"), "site", store.credentials)

Each bucket is a folder and each object a file below `store.objects`, so a test can
look at them and damage them. `pause` takes the server away and `resume`
brings it back at the same address with all that it had.
"""

from __future__ import annotations

import secrets
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from stoker.domain.intent.policies import SnapshotBucketPolicy
from stoker.domain.secrets import Secret
from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.processes import Process, on_free_ports
from stoker_testkit.secret_leaks.tracked_credentials import known
from stoker_testkit.stoppable import Stoppable

READY_SECONDS = 30.0


class S3(Stoppable):
    """One running object store with one user."""

    def __init__(self, folder: Path, binary: Path) -> None:
        self.objects = folder / "buckets"
        self.url = ""
        self.credentials = {
            "accessKeyId": Secret(secrets.token_hex(8)),
            "secretAccessKey": Secret(known("bucket-key", secrets.token_urlsafe(16))),
        }
        self._folder = folder
        self._binary = binary
        self._port = 0
        self._process: Process | None = None

    @classmethod
    def start(cls, folder: Path) -> Self:
        """Start it in an empty folder and return when it answers."""
        store = cls(folder, assets.versitygw())
        for inside in (store.objects, folder / "metadata"):
            inside.mkdir(parents=True)
        try:
            on_free_ports(1, lambda ports: store._start(ports[0]))
        except BaseException:
            store.stop()
            raise
        return store

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    pause = stop

    def resume(self) -> None:
        self._start(self._port)

    def create_bucket(self, name: str) -> None:
        (self.objects / name).mkdir()

    def bucket(self, name: str, *, key_prefix: str = "") -> SnapshotBucketPolicy:
        return SnapshotBucketPolicy(name=name, key_prefix=key_prefix, endpoint=self.url, region="us-east-1")

    def _start(self, port: int) -> None:
        self._port = port
        self.url = f"http://127.0.0.1:{port}"
        self._process = Process.start(
            "versitygw",
            [
                *(self._binary, "--port", f"127.0.0.1:{port}", "--quiet"),
                # Metadata in files of their own: not every filesystem has extended attributes.
                *("posix", "--sidecar", self._folder / "metadata", self.objects),
            ],
            log=self._folder / "versitygw.log",
            env={
                "ROOT_ACCESS_KEY": self.credentials["accessKeyId"].reveal(),
                "ROOT_SECRET_KEY": self.credentials["secretAccessKey"].reveal(),
            },
            cwd=self._folder,
        )
        self._process.wait_ready(self._answers, READY_SECONDS)

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.url, timeout=2.0).close()  # noqa: S310 - the address is our own
        except urllib.error.HTTPError as error:
            error.close()  # it asks for a signature: it is there
        except OSError:
            return False
        return True
