"""The Kubernetes runtime, measured against the real API server beside the official client.

`make bench-kube` prints the table and keeps it in docs/benchmarks.md.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from harness import HERE, Sample, keep, median_of, table
from stoker_testkit.certificates import Authority
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane

RUNS = 5
OBJECTS = 2_000
EVENTS = 100_000
OFFICIAL_EVENTS = 10_000
NAMESPACE = "bench"


def content(number: int) -> str:
    """A configuration file of 2,400 characters, no two alike: 2,000 of them are 5.7 MB as they are sent."""
    chance = random.Random(number)  # noqa: S311 - the same in every run
    tags = {f"tag{n}": f"{chance.choice(('Flow', 'Level', 'Pressure'))}{chance.random()}" for n in range(66)}
    return json.dumps(tags)[:2_400]


def fill(plane: ClusterAccess) -> None:
    """Two thousand ConfigMaps, made by a few hands at once."""
    plane.create_namespace(NAMESPACE)

    def create(number: int) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"config-{number}", "labels": {"share": str(number % 300), "app": "bench"}},
            "data": {"config.json": content(number)},
        }
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        answer = plane.request("POST", path, body)
        if answer.status != 201:
            raise SystemExit(f"the API server answered {answer.status} to ConfigMap {number}")

    with ThreadPoolExecutor(4) as hands:
        list(hands.map(create, range(OBJECTS)))


@contextmanager
def replaying(plane: ClusterAccess, folder: Path, count: int) -> Iterator[tuple[str, str]]:
    """The address and authority of a server that sends `count` events like one of the real server's."""
    one = plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/config-0").body
    recorded = folder / "recorded.json"
    recorded.write_bytes(one)
    authority = Authority("bench")
    ca = authority.save(folder, "replay-ca").certificate
    pair = authority.server().save(folder, "replay")
    command = [sys.executable, str(HERE / "watch_replay.py"), str(pair.certificate), str(pair.key)]
    server = subprocess.Popen([*command, str(recorded), str(count)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield f"https://127.0.0.1:{server.stdout.readline().strip()}", str(ca)
    finally:
        server.kill()
        server.communicate()


def list_rows(plane: ClusterAccess) -> list[list[str]]:
    access = [str(plane.kubeconfig()), NAMESPACE]
    ours = median_of("kube", "list-ours", access, runs=RUNS)
    official = median_of("kube", "list-official", access, runs=RUNS)
    assert ours.value == official.value == OBJECTS
    secret = [plane.url, str(plane.ca_file), plane.token("admin"), NAMESPACE]
    floor = median_of("kube", "list-bytes", secret, runs=RUNS)
    return [
        ["list 2,000 ConfigMaps, CPU", _ms(ours), _ms(official), _ratio(ours, official), "≤ 20 ms"],
        [f"its {floor.value / 1e6:.1f} MB through a bare TLS socket, CPU", _ms(floor), "", "", ""],
        ["list 2,000 ConfigMaps, peak RSS", _mb(ours), _mb(official), "", "≤ 80 MB"],
    ]


def watch_rows(plane: ClusterAccess) -> list[list[str]]:
    held = median_of("kube", "hold-watches", [str(plane.kubeconfig()), NAMESPACE], runs=3)
    return [["hold 300 watches, peak RSS", _mb(held), "", "", "≤ 150 MB"]]


def event_rows(plane: ClusterAccess, folder: Path) -> list[list[str]]:
    with replaying(plane, folder, EVENTS) as (url, ca):
        ours = median_of("kube", "events-ours", [url, ca, str(EVENTS)], runs=RUNS)
    with replaying(plane, folder, OFFICIAL_EVENTS) as (url, ca):
        official = median_of("kube", "events-official", [url, ca, str(OFFICIAL_EVENTS)], runs=3)
    faster = f"{_per_second(ours) / _per_second(official):.0f}x faster"
    return [
        [
            "events/s of CPU, reflector + queue",
            f"{_per_second(ours):,.0f}",
            f"{_per_second(official):,.0f}",
            faster,
            "≥ 20,000",
        ],
        [
            "events/s of wall time, the same run",
            f"{ours.value / ours.wall_seconds:,.0f}",
            f"{official.value / official.wall_seconds:,.0f}",
            "",
            "",
        ],
    ]


def _ms(sample: Sample) -> str:
    return f"{sample.cpu_seconds * 1000:.1f} ms"


def _mb(sample: Sample) -> str:
    return f"{sample.peak_mb:.0f} MB"


def _ratio(ours: Sample, theirs: Sample) -> str:
    return f"{ours.cpu_seconds / theirs.cpu_seconds:.2f}x"


def _per_second(sample: Sample) -> float:
    return sample.value / sample.cpu_seconds


def main() -> None:
    with ControlPlane.start() as plane, tempfile.TemporaryDirectory() as scratch:
        print("filling the control plane with 2,000 ConfigMaps …", flush=True)
        fill(plane)
        print("measuring, medians of fresh processes …", flush=True)
        rows = [
            ["what", "stoker", "official client", "ratio", "target"],
            *list_rows(plane),
            *watch_rows(plane),
            *event_rows(plane, Path(scratch)),
        ]
    text = table(rows)
    print(text)
    keep("kube", text)


if __name__ == "__main__":
    main()
