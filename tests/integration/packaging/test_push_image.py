"""A release pushes what was built, byte for byte, to a real registry."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path

import pytest

from stoker_image.archives import Identity, join_archives, write_archive
from stoker_image.trees import Tree
from stoker_testkit.services.oci_registry import Registry

ROOT = Path(__file__).parents[3]
WHEN = 1_700_000_000
INDEX = "application/vnd.oci.image.index.v1+json"

pytestmark = pytest.mark.long  # needs skopeo and jq, which `make test-image` installs


def test_the_registry_has_the_index_and_both_images_under_the_digests_that_were_built(tmp_path: Path) -> None:
    digests, places = {}, []
    for architecture in ("amd64", "arm64"):
        tree = Tree()
        tree.file("etc/x", architecture)
        places.append(tmp_path / f"{architecture}.tar")
        identity = Identity("1.2.3", "0" * 40, WHEN, architecture)
        digests[architecture] = write_archive(places[-1], tree.tar(WHEN), identity)
    built = join_archives(tmp_path / "stoker-image.tar", places, WHEN)
    with Registry.start(tmp_path / "registry") as registry:
        subprocess.run(
            [ROOT / "scripts/push-image", f"{registry.host}/stoker:v1.2.3", "--dest-tls-verify=false"],
            env=os.environ | {"DIST": str(tmp_path)},
            check=True,
        )
        request = urllib.request.Request(
            f"http://{registry.host}/v2/stoker/manifests/v1.2.3", headers={"Accept": INDEX}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own registry
            assert answer.headers["Docker-Content-Digest"] == built
            index = json.loads(answer.read())
    assert {one["platform"]["architecture"]: one["digest"] for one in index["manifests"]} == digests
    assert (tmp_path / "image-digest").read_text() == built
