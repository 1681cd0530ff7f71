"""A namespace in which credentials are canaries, and the search of all that it leaves.

Logs, metrics, every object of the namespace (of Secrets all but the data), every object of
every repository, caches, data folders, buckets and temporary files. Only folders in which
credentials are because they are mounted there, or are a server's own, are left out.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.secret_leaks.canary_tokens import Canaries, CommandLineSearch

ENOUGH = 10
MOUNTED = ("etc", "var", "sshd", "keys")
"""Folders with credentials that are mounted there, or are a server's own."""


@dataclass
class LeakScanNamespace:
    """The planted credentials, and every place that the environment writes to."""

    cluster: ClusterAccess
    namespace: str
    folder: Path
    canaries: Canaries = field(default_factory=Canaries)
    pages: dict[str, str] = field(default_factory=dict)

    def scrape(self, name: str, port: int) -> None:
        url = f"http://127.0.0.1:{port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as page:
            self.pages[name] = page.read().decode()

    def objects(self) -> list[Any]:
        """Everything in the namespace, with who wrote which field of it."""
        listable = ("api-resources", "--namespaced=true", "--verbs=list", "-o", "name")
        kinds = self.cluster.kubectl(*listable).stdout.split()
        listed = self.cluster.kubectl(
            "get", ",".join(kinds), "-n", self.namespace, "-o", "json", "--show-managed-fields"
        )
        items: list[Any] = json.loads(listed.stdout)["items"]
        return items

    def found(self, lines: CommandLineSearch) -> list[str]:
        """All that was seen of any canary, or was not looked at."""
        canaries, items = self.canaries, self.objects()
        findings = [] if {"Secret", "Event"} <= {one["kind"] for one in items} else ["no objects were found"]
        findings += [] if lines.seen > ENOUGH else ["hardly any command line was seen"]
        findings += lines.found()
        for one in items:
            findings += canaries.in_objects(f"{one['kind']} {one['metadata']['name']}", one)
        for name, page in self.pages.items():
            findings += canaries.in_text(f"the metrics of {name}", page)
        for place in self.places():
            findings += (
                canaries.in_folder(place)
                if place.is_dir()
                else canaries.in_text(str(place), place.read_bytes())
            )
        return findings

    def places(self) -> Iterator[Path]:
        yield from (one for one in self.folder.iterdir() if one.name not in (*MOUNTED, "pod"))
        pod = self.folder / "pod"
        yield from (one for one in (pod.iterdir() if pod.is_dir() else ()) if one.name not in MOUNTED)
