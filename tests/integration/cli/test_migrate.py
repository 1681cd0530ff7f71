"""`stoker migrate` with a real cluster: what it writes, the API server takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from stoker.cli.exit_codes import ExitCode
from stoker_testkit.cluster.cluster_access import ClusterAccess

SETTINGS = {
    "GITSYNC_REPO": "git@git.example.net:plant/config.git",
    "GITSYNC_REF": "main",
    "GITSYNC_PERIOD": "30s",
}
GATEWAY_SYNC = {
    "apiVersion": "stoker.io/v1alpha1",
    "kind": "GatewaySync",
    "metadata": {"name": "line"},
    "spec": {
        "git": {"repo": "https://git.example.net/a.git", "ref": "main"},
        "gateway": {"port": 8088, "tls": False, "api": {"secretName": "gw-api-key"}},
        "sync": {
            "profiles": {
                "default": {
                    "mappings": [
                        {
                            "source": "services/{{.GatewayName}}/",
                            "destination": "projects/",
                            "type": "dir",
                            "patches": [
                                {"file": "**/config.json", "set": {"system.name": "{{.GatewayName}}"}}
                            ],
                        }
                    ]
                }
            }
        },
    },
}


def stoker(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stoker", "migrate", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    return done


def test_a_map_of_git_sync_becomes_a_resource_that_can_be_applied(
    kinds: ClusterAccess, namespace: str, tmp_path: Path
) -> None:
    body = {"metadata": {"name": "git-sync-env-site"}, "data": SETTINGS}
    assert kinds.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body).status == 201
    place = tmp_path / "made.yaml"
    reach = f"--kubeconfig={kinds.kubeconfig('admin')}", f"--namespace={namespace}"
    given = "--from-configmap=git-sync-env-site", "--name=site", f"--output={place}", *reach
    assert stoker(*given).returncode == ExitCode.DONE
    kinds.kubectl("apply", "-f", str(place))
    found = kinds.kubectl("get", "ignitionsync", "site", "-n", namespace, "-o=jsonpath={.spec.git.repo}")
    assert found.stdout == SETTINGS["GITSYNC_REPO"]

    again = stoker(*given)
    assert again.returncode == ExitCode.WRONG_INPUT
    assert "exists already" in again.stderr
    missing = stoker("--from-configmap=none", *reach)
    assert (missing.returncode, missing.stdout) == (ExitCode.WRONG_INPUT, "")


def test_a_gatewaysync_from_a_file_becomes_resources_that_can_be_applied(
    kinds: ClusterAccess, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "old.yaml"
    body = {**GATEWAY_SYNC, "metadata": {"name": "line", "namespace": namespace}}
    file.write_text(json.dumps(body))
    done = stoker(f"--filename={file}")
    assert done.returncode == ExitCode.DONE, done.stderr
    applied = kinds.kubectl("apply", "-f", "-", stdin=done.stdout)
    assert applied.stdout.splitlines() == [
        "stoker.stoker.io/line created",
        "syncprofile.stoker.io/line-default created",
    ]


def test_an_ambiguous_migration_needs_a_flag() -> None:
    done = stoker()
    assert done.returncode == ExitCode.WRONG_INPUT
    assert "one of --from-configmap, --from-gatewaysync and --filename" in done.stderr
