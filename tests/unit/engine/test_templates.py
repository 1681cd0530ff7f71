"""Templates name fields and do nothing else."""

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.values import TemplateValues
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.templates import render

VALUES = TemplateValues(
    vars={"line": "pasteurizer", "empty": "", "long": "x" * 2000}, gateway_name="gw-1", namespace="dairy"
)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("projects", "projects"),
        ("", ""),
        ("a {b} c}", "a {b} c}"),
        ("services/{{.Vars.line}}/projects", "services/pasteurizer/projects"),
        ("{{ .GatewayName }}-{{.Namespace}}", "gw-1-dairy"),
        ("x{{.Vars.empty}}y", "xy"),
    ],
)
def test_fields_become_their_values(template: str, text: str) -> None:
    assert render(template, VALUES) == text


def test_a_pod_and_its_labels_have_values_too() -> None:
    labels = {"app.kubernetes.io/name": "site", "tier": "front"}
    values = TemplateValues(pod_name="site-2", pod_ordinal="2", labels=labels)
    template = "{{.PodName}} {{.PodOrdinal}} {{.Labels.tier}} {{.Labels.app.kubernetes.io/name}}"
    assert render(template, values) == "site-2 2 front site"


def test_ref_and_commit_are_known_once_the_commit_is() -> None:
    values = VALUES.at(GitRef("main"), CommitId("0" * 40))
    assert render("{{.Ref}}/{{.Commit}}", values) == f"main/{'0' * 40}"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{.Vars.missing}}", "has no value"),
        ("{{.Commit}}", "has no value"),
        ("{{.Timestamp}}", "has no value"),
        ("{{.Vars}}", "has no value"),
        ("{{.Vars.a.b}}", "only fields"),
        ("{{.Vars.my-key}}", "only fields"),
        ("{{Vars.line}}", "only fields"),
        ("{{.GatewayName | upper}}", "only fields"),
        ('{{index .Vars "line"}}', "only fields"),
        ("{{- .GatewayName}}", "only fields"),
        ("{{}}", "only fields"),
        ("{{{.GatewayName}}}", "only fields"),
        ("{{.GatewayName", "without '}}' after it"),
        ("a}}b", "without '{{' before it"),
        ("{{.GatewayName}}}}", "without '{{' before it"),
        ("x" * 4097, "longer than 4096"),
        ("{{.Vars.long}}" * 3, "more than 4096"),
    ],
)
def test_everything_else_is_an_error(template: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        render(template, VALUES)


def test_a_value_is_never_read_as_a_template() -> None:
    assert render("{{.Vars.x}}", TemplateValues(vars={"x": "{{.GatewayName}}"})) == "{{.GatewayName}}"
