"""Templates name fields and do nothing else."""

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.transform.template_language import Template, render_path

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
        ("services/{{.Vars.line}}/", "services/pasteurizer/"),
        ("a//{{.Vars.line}}{{.Vars.empty}}", "a//pasteurizer"),
    ],
)
def test_fields_become_their_values(template: str, text: str) -> None:
    assert render_path(template, VALUES) == text


def test_a_pod_and_its_labels_have_values_too() -> None:
    labels = {"app.kubernetes.io/name": "site", "tier": "front"}
    values = TemplateValues(pod_name="site-2", pod_ordinal="2", labels=labels)
    template = "{{.PodName}} {{.PodOrdinal}} {{.Labels.tier}} {{.Labels.app.kubernetes.io/name}}"
    assert render_path(template, values) == "site-2 2 front site"


def test_ref_and_commit_are_known_once_the_commit_is() -> None:
    values = VALUES.at(GitRef("main"), CommitId("0" * 40))
    assert render_path("{{.Ref}}/{{.Commit}}", values) == f"main/{'0' * 40}"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{.Vars.missing}}", "has no value"),
        ("{{.Vars.empty}}", "a part that is empty"),
        ("services/{{.Vars.empty}}", "a part that is empty"),
        ("services/{{.Vars.empty}}{{.Vars.empty}}/projects", "a part that is empty"),
        ("{{.Vars.empty}}/projects", "a part that is empty"),
        ("{{.Commit}}", "has no value"),
        ("{{.Timestamp}}", "must not stand in a path"),
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
    with pytest.raises(InvalidValue, match=why) as refused:
        render_path(template, VALUES)
    assert refused.value.reason is Reason.TEMPLATE_RESOLUTION_FAILED


def test_a_value_is_never_read_as_a_template() -> None:
    assert render_path("{{.Vars.x}}", TemplateValues(vars={"x": "{{.GatewayName}}"})) == "{{.GatewayName}}"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ('{{"{{"}}.GatewayName{{"}}"}}', "{{.GatewayName}}"),
        ('{{ "a\\tb\\u0041" }}', "a\tbA"),
        ("{{`C:\\dir`}}", "C:\\dir"),
        ('{{""}}', ""),
    ],
)
def test_a_literal_matches_itself(template: str, text: str) -> None:
    assert render_path(template, VALUES) == text


def test_time_is_a_value_but_no_part_of_a_path() -> None:
    values = VALUES.at(GitRef("main"), CommitId("0" * 40), 1_700_000_000)
    assert Template("{{.Timestamp}}").render(values) == "1700000000"
    with pytest.raises(InvalidValue, match="must not stand in a path"):
        render_path("a/{{.Timestamp}}", values)
    with pytest.raises(InvalidValue, match="has no value"):
        Template("{{.Timestamp}}").render(VALUES)


def test_a_template_knows_what_it_depends_on() -> None:
    text = '{{.Vars.line}}{{ .Ref }}{{.Labels.app.kubernetes.io/name}}{{".Commit"}}{{.Ref}}'
    assert Template(text).names == {"Vars.line", "Ref", "Labels.app.kubernetes.io/name"}


def test_a_value_can_be_quoted_and_the_text_around_it_is_not() -> None:
    assert (
        Template("*{{.Vars.x}}*").render(TemplateValues(vars={"x": "*"}), lambda text: "\\" + text) == "*\\**"
    )
