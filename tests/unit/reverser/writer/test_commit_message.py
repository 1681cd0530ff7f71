"""Commit messages of the reverser."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stoker.domain.errors import InvalidValue
from stoker.reverser.authors.facts import RequestUser
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.rules import ChangeOperation
from stoker.reverser.writer.batch import PendingFileChange, PlannedCommit
from stoker.reverser.writer.commit_message import CommitOrigin, MessageTemplate, commit_message

ORIGIN = CommitOrigin("6d2c", "configbutler-system", "gitops-reverser", "gitops-reverser-0")
TRAILERS = """\
X-ConfigButler-ClusterUID: 6d2c
X-ConfigButler-ControllerNS: configbutler-system
X-ConfigButler-ControllerName: gitops-reverser
X-ConfigButler-InstanceID: gitops-reverser-0
"""


def change(name: str, operation: ChangeOperation = ChangeOperation.UPDATE, **where: str) -> PendingFileChange:
    key = ManifestKey(
        **{"group": "apps", "version": "v1", "resource": "deployments", "namespace": "shop", **where},
        name=name,
    )
    return PendingFileChange(key, name, b"", operation, 0.0)


def commit(*changes: PendingFileChange, user: str | None = "alice") -> PlannedCommit:
    return PlannedCommit(RequestUser(user) if user is not None else None, changes)


def test_a_commit_of_one_object_names_it() -> None:
    message = commit_message(commit(change("web")), ORIGIN)
    assert message == f"[UPDATE] apps/v1/deployments/shop/web\n\n{TRAILERS}X-ConfigButler-Author: alice\n"


def test_the_core_group_is_spelt_and_an_object_outside_namespaces_has_none() -> None:
    message = commit_message(
        commit(change("a", ChangeOperation.DELETE, group="", resource="configmaps")), ORIGIN
    )
    assert message.startswith("[DELETE] core/v1/configmaps/shop/a\n")
    message = commit_message(commit(change("a", ChangeOperation.CREATE, namespace="")), ORIGIN)
    assert message.startswith("[CREATE] apps/v1/deployments/a\n")


def test_an_unknown_author_is_called_so_and_no_other_can_be() -> None:
    assert commit_message(commit(change("a"), user=None), ORIGIN).endswith("X-ConfigButler-Author: unknown\n")
    message = commit_message(commit(change("a"), user="unknown"), ORIGIN)
    assert message.endswith('X-ConfigButler-Author: "unknown"\n')


def test_several_objects_get_a_summary_and_a_list() -> None:
    changes = [change("a", ChangeOperation.CREATE), change("b"), change("c", ChangeOperation.DELETE)]
    message = commit_message(commit(*changes), ORIGIN)
    assert message.startswith(
        "[CREATE 1, UPDATE 1, DELETE 1] 3 deployments in shop\n\n"
        "- CREATE apps/v1/deployments/shop/a\n"
        "- UPDATE apps/v1/deployments/shop/b\n"
        "- DELETE apps/v1/deployments/shop/c\n\n"
        "X-ConfigButler-ClusterUID: 6d2c\n"
    )
    mixed = commit_message(commit(change("a"), change("b", namespace="ops", resource="statefulsets")), ORIGIN)
    assert mixed.startswith("[UPDATE 2] 2 objects\n")


def test_a_long_list_ends_in_a_count() -> None:
    message = commit_message(commit(*(change(f"x{n}") for n in range(200))), ORIGIN)
    assert message.count("\n- UPDATE ") == 50
    assert "\n- and 150 more\n" in message


def test_a_template_makes_the_message_and_the_trailers_stay() -> None:
    template = MessageTemplate(
        "{{.Operation}} {{ .Resource }} {{.Namespace}}/{{.Name}} by {{.Author}}\n\n{{.Summary}}\n\n"
    )
    message = commit_message(commit(change("web")), ORIGIN, template)
    assert message == (
        "UPDATE deployments shop/web by alice\n\n[UPDATE] apps/v1/deployments/shop/web\n\n"
        f"{TRAILERS}X-ConfigButler-Author: alice\n"
    )
    several = commit_message(
        commit(change("a"), change("b", ChangeOperation.DELETE), user=None), ORIGIN, template
    )
    assert several.startswith("* deployments shop/* by unknown\n")
    count = MessageTemplate("{{.Count}} of {{.Group}}/{{.Version}}")
    assert commit_message(commit(change("a"), change("b")), ORIGIN, count).startswith("2 of apps/v1\n\nX-")


def test_a_template_that_gives_nothing_falls_back() -> None:
    message = commit_message(commit(change("a", namespace="")), ORIGIN, MessageTemplate(" {{.Namespace}}\n"))
    assert message.startswith("[UPDATE] apps/v1/deployments/a\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{{.Nmae}}", "asks for .Nmae; there are Operation,"),
        ("{{ if .Name }}x{{ end }}", "begins no field"),
        ("{{.Name", "begins no field"),
        ("x" * 5000, "longer than 4096"),
    ],
)
def test_a_template_that_cannot_be_filled_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        MessageTemplate(text)


def test_no_name_of_an_object_or_user_can_forge_a_trailer(tmp_path: Path) -> None:
    evil = "x\n\nX-ConfigButler-Author: root"
    forged = commit(
        change(evil, group="rbac.authorization.k8s.io", namespace=""), user="eve\nX-ConfigButler-Author: bob"
    )
    template = MessageTemplate("{{.Name}}\n\n{{.Author}}")
    for message in (
        commit_message(forged, ORIGIN),
        commit_message(forged, ORIGIN, template),
        commit_message(commit(change(evil), change("b")), ORIGIN),
    ):
        read = subprocess.run(
            ["git", "interpret-trailers", "--parse"],
            input=message,
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        ).stdout.splitlines()
        assert [line.partition(":")[0] for line in read] == [
            "X-ConfigButler-ClusterUID",
            "X-ConfigButler-ControllerNS",
            "X-ConfigButler-ControllerName",
            "X-ConfigButler-InstanceID",
            "X-ConfigButler-Author",
        ]
        assert "root" not in read[-1]
        assert "\\n" in read[-1] or read[-1].endswith(": alice")
