"""Out of git-sync's map and the Go operator's kind come resources that the API would take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.api.kinds.ignitionsync import IgnitionSync
from stoker.api.kinds.stoker import Stoker, SyncProfile
from stoker.api.manifests.files import read_manifests
from stoker.api.to_intent.pod_facts import PREFIX, PodAnnotationKey
from stoker.cli.migrate.gateway_sync import from_gateway_sync
from stoker.cli.migrate.git_sync import from_git_sync
from stoker.cli.migrate.inputs import from_file, manifests_text
from stoker.domain.errors import InvalidValue

GIT_SYNC = {
    "GITSYNC_REPO": "git@git.example.net:plant/config.git",
    "GITSYNC_REF": "v3",
    "GITSYNC_PERIOD": "30s",
    "GITSYNC_ROOT": "/git",
    "GITSYNC_SUBMODULES": "recursive",
    "GITSYNC_PASSWORD": "hunter2",
    "STORAGE_CLASS": "nfs-client",
}


def test_git_sync_becomes_an_ignitionsync() -> None:
    made = from_git_sync(GIT_SYNC, "site", "site1")
    text = made.text()
    (resource,) = read_manifests(text.encode(), "result")
    assert isinstance(resource, IgnitionSync)
    assert (resource.metadata.name, resource.metadata.namespace) == ("site", "site1")
    (manifest,) = made.manifests
    assert manifest["spec"] == {
        "git": {
            "repo": "git@git.example.net:plant/config.git",
            "ref": "v3",
            "auth": {"sshKey": {"secretRef": {"name": "git-sync-secret", "key": "ssh-privatekey"}}},
        },
        "gateway": {"apiKeySecretRef": {"name": "ignition-api-key", "key": "apiKey"}},
        "polling": {"enabled": True, "interval": "30s"},
        "storage": {"storageClassName": "nfs-client"},
    }


def test_what_is_left_behind_is_named_and_no_secret_is_repeated() -> None:
    text = from_git_sync(GIT_SYNC, "site", "site1").text()
    assert "# GITSYNC_SUBMODULES has no counterpart; it was: recursive\n" in text
    assert "# GITSYNC_PASSWORD has no counterpart\n" in text
    assert "hunter2" not in text
    assert "GITSYNC_ROOT" not in text, "git-sync's own folder is not needed any more"


def test_the_annotations_that_it_asks_for_are_those_of_pods() -> None:
    text = from_git_sync(GIT_SYNC, "site", "site1").text()
    (lines,) = [line for line in text.splitlines() if line.startswith("# pods: ")]
    named = {word for word in lines.split() if "/" in word}
    assert named == {f"{PREFIX}{PodAnnotationKey.INJECT}", f"{PREFIX}{PodAnnotationKey.SERVICE_PATH}"}


def test_the_third_version_counted_seconds_and_named_branches() -> None:
    old = {"GIT_SYNC_REPO": "https://git.example.net/a.git", "GIT_SYNC_BRANCH": "main", "GIT_SYNC_WAIT": "45"}
    (manifest,) = from_git_sync(old, "a", "b").manifests
    assert manifest["spec"]["polling"] == {"enabled": True, "interval": "45s"}
    assert manifest["spec"]["git"] == {"repo": "https://git.example.net/a.git", "ref": "main"}


@pytest.mark.parametrize(
    ("settings", "ref"),
    [
        ({"GIT_SYNC_BRANCH": "release", "GIT_SYNC_REV": "HEAD"}, "release"),
        ({"GIT_SYNC_BRANCH": "release", "GIT_SYNC_REV": "v7"}, "v7"),
        ({"GIT_SYNC_BRANCH": "release", "GITSYNC_REF": "v8"}, "v8"),
        ({}, "HEAD"),
    ],
)
def test_the_revision_of_a_branch_is_its_tip_unless_set_otherwise(settings: dict[str, str], ref: str) -> None:
    (manifest,) = from_git_sync({"GITSYNC_REPO": "https://h.example/a.git", **settings}, "a", "b").manifests
    assert manifest["spec"]["git"]["ref"] == ref


@pytest.mark.parametrize(
    ("period", "interval", "remarked"),
    [
        ("15.0", "15.0s", False),
        ("1m30s", "1m30s", False),
        ("0.5", "1s", True),
        ("0", "1s", True),
        ("soon", "60s", True),
    ],
)
def test_every_period_becomes_one_that_the_api_takes(period: str, interval: str, remarked: bool) -> None:
    made = from_git_sync({"GITSYNC_REPO": "https://h.example/a.git", "GIT_SYNC_WAIT": period}, "a", "b")
    (resource,) = read_manifests(made.text().encode(), "result")
    assert isinstance(resource, IgnitionSync)
    assert made.manifests[0]["spec"]["polling"]["interval"] == interval
    assert any(f"polling: {period} is" in one for one in made.remarks) is remarked


def test_that_the_servers_keys_were_checked_is_not_forgotten_in_silence() -> None:
    (lines,) = [one for one in from_git_sync(GIT_SYNC, "site", "site1").remarks if "known_hosts" in one]
    assert "spec.git.auth.sshKey.knownHostsSecretRef" in lines


def test_a_github_app_is_taken_over() -> None:
    app = {"GITSYNC_GITHUB_APP_APPLICATION_ID": "12", "GITSYNC_GITHUB_APP_INSTALLATION_ID": "34"}
    made = from_git_sync({"GITSYNC_REPO": "https://github.com/a/b.git", **app}, "a", "b")
    assert made.manifests[0]["spec"]["git"]["auth"]["githubApp"]["appId"] == 12
    made.text()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "names no repository"),
        ({"GITSYNC_REPO": "ext::sh -c evil"}, "repository address"),
        (
            {
                "GITSYNC_REPO": "https://h.example/a.git",
                "GITSYNC_GITHUB_APP_APPLICATION_ID": "Iv1.abc",
                "GITSYNC_GITHUB_APP_INSTALLATION_ID": "34",
            },
            "is not a number: 'Iv1.abc'",
        ),
        ({"GITSYNC_REPO": "https://u:p4ss@git.example.net/a.git"}, "repository address"),
    ],
)
def test_a_map_that_cannot_be_used_is_refused(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidValue, match=sentence) as refusal:
        from_git_sync(settings, "a", "b")
    assert "p4ss" not in refusal.value.message


def test_a_comment_cannot_end_early() -> None:
    text = from_git_sync({**GIT_SYNC, "OTHER": "x\nkind: Evil"}, "a", "b").text()
    assert "# OTHER has no counterpart; it was: x kind: Evil\n" in text


GATEWAY_SYNC: dict[str, Any] = {
    "apiVersion": "stoker.io/v1alpha1",
    "kind": "GatewaySync",
    "metadata": {"name": "line", "namespace": "plant", "uid": "1"},
    "spec": {
        "git": {
            "repo": "https://git.example.net/a.git",
            "ref": "main",
            "auth": {"token": {"secretRef": {"name": "git-token", "key": "token"}}},
        },
        "polling": {"enabled": True, "interval": "60s"},
        "gateway": {"port": 8088, "tls": False, "api": {"secretName": "gw-api-key"}},
        "sync": {
            "defaults": {
                "excludePatterns": ["**/.gitkeep"],
                "vars": {"site": "north", "line": "1"},
                "syncPeriod": 30,
                "designerSessionPolicy": "proceed",
            },
            "profiles": {
                "standard": {
                    "mappings": [
                        {
                            "source": "services/{{.GatewayName}}/config/",
                            "destination": "config/",
                            "type": "dir",
                            "required": True,
                            "patches": [
                                {
                                    "file": "db/*.json",
                                    "set": {"connection.host": "{{.Vars.site}}", "ports.0": "1"},
                                }
                            ],
                        }
                    ],
                    "vars": {"line": "2"},
                    "designerSessionPolicy": "wait",
                },
                "minimal": {"mappings": [{"source": "projects", "destination": "projects/"}], "paused": True},
            },
        },
        "agent": {"image": {"repository": "elsewhere", "tag": "latest"}},
    },
}


def test_a_gatewaysync_becomes_a_stoker_with_its_profiles() -> None:
    made = from_gateway_sync(GATEWAY_SYNC)
    resources = read_manifests(made.text().encode(), "result")
    assert [type(one) for one in resources] == [Stoker, SyncProfile, SyncProfile]
    assert [one.metadata.name for one in resources] == ["line", "line-standard", "line-minimal"]
    stoker, standard, minimal = (one["spec"] for one in made.manifests)
    assert stoker["gateway"] == {
        "port": 8088,
        "tls": False,
        "apiKeySecretRef": {"name": "gw-api-key", "key": "apiKey"},
    }
    assert (stoker["excludePatterns"], stoker["ignition"]) == (
        ["**/.gitkeep"],
        {"designerSessionPolicy": "wait"},
    )
    assert standard == {
        "mappings": [
            {
                "source": "services/{{.GatewayName}}/config",
                "destination": "config",
                "type": "dir",
                "required": True,
            }
        ],
        "patches": [
            {"file": "config/db/*.json", "set": {".connection.host": "{{.Vars.site}}", ".ports[0]": "1"}}
        ],
        "vars": {"site": "north", "line": "2"},
        "syncPeriod": 30,
    }
    assert (minimal["paused"], minimal["syncPeriod"], minimal["vars"]["line"]) == (True, 30, "1")


def test_what_a_person_has_to_check_is_reported() -> None:
    text = "\n".join(from_gateway_sync(GATEWAY_SYNC).remarks)
    assert "designerSessionPolicy differs between profiles (proceed, wait)" in text
    assert "mapping projects of profile minimal has no type; dir was used" in text
    assert "stoker.io/sync-profile: line-NAME" in text
    assert "spec.agent was left out" in text


def test_a_key_with_a_dot_in_it_is_one_key() -> None:
    spec = GATEWAY_SYNC["spec"]
    mapping = {
        "source": "a.json",
        "destination": "a.json",
        "type": "file",
        "patches": [{"set": {"a\\.b.c d": "x"}}],
    }
    found = {**GATEWAY_SYNC, "spec": {**spec, "sync": {"profiles": {"one": {"mappings": [mapping]}}}}}
    made = from_gateway_sync(found)
    assert made.manifests[1]["spec"]["patches"] == [{"file": "a.json", "set": {'.["a.b"].["c d"]': "x"}}]
    made.text()


@pytest.mark.parametrize("found", [{}, {"spec": {"sync": 3}}, {"metadata": {"name": "a"}, "spec": {}}])
def test_something_else_is_refused(found: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        from_gateway_sync(found)


@pytest.mark.parametrize(
    ("mapping", "sentence"),
    [
        ({"source": "a", "destination": "b", "patches": ["x"]}, "has a patch that is not an object"),
        ({"source": "a", "destination": "b", "patches": "x"}, "patches of the GatewaySync is not a list"),
        ({"source": "a", "destination": "b", "patches": [{"set": ["x"]}]}, "set of the GatewaySync is no"),
        ("x", "has a mapping that is not an object"),
    ],
)
def test_what_is_not_of_its_form_is_a_sentence(mapping: object, sentence: str) -> None:
    profiles = {"one": {"mappings": [mapping]}}
    with pytest.raises(InvalidValue, match=sentence):
        from_gateway_sync({**GATEWAY_SYNC, "spec": {**GATEWAY_SYNC["spec"], "sync": {"profiles": profiles}}})


def test_everything_in_a_file_is_migrated(tmp_path: Path) -> None:
    """As `kubectl get gatewaysyncs -o yaml` and `helm template` print it."""
    other = {**GATEWAY_SYNC, "metadata": {"name": "other", "namespace": "plant"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [GATEWAY_SYNC, other]}
    maps: list[object] = [
        {"kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        for name, data in (("settings", {"a": "b"}), ("north", GIT_SYNC), ("south", GIT_SYNC))
    ]
    file = tmp_path / "all.yaml"
    file.write_text("---\n".join(json.dumps(one) + "\n" for one in (listed, *maps)))
    resources = read_manifests(manifests_text(from_file(str(file), "plant", None)).encode(), "result")
    assert [(type(one), one.metadata.name) for one in resources if not isinstance(one, SyncProfile)] == [
        (Stoker, "line"),
        (Stoker, "other"),
        (IgnitionSync, "north"),
        (IgnitionSync, "south"),
    ]
    with pytest.raises(InvalidValue, match="--name applies to one ConfigMap"):
        from_file(str(file), "plant", "site")
    file.write_text(json.dumps(maps[0]))
    with pytest.raises(InvalidValue, match="names no repository"):
        from_file(str(file), "plant", None)


def test_what_the_api_would_refuse_is_refused() -> None:
    spec = {**GATEWAY_SYNC["spec"], "git": {"repo": "https://git.example.net/a.git", "ref": "-x"}}
    with pytest.raises(InvalidValue, match="ref"):
        from_gateway_sync({**GATEWAY_SYNC, "spec": spec}).text()
