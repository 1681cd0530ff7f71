"""Fields inside files."""

import time
from contextlib import suppress

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.engine.transform.templates import fill_template

VALUES = TemplateValues(
    gateway_name="gw-1",
    timestamp="1700000000",
    vars={"site": "{{.Namespace}}", "long": "x" * 4096},
    labels={"app.kubernetes.io/name": "press"},
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", b""),
        (b'{"a":{"b":"{{.GatewayName}}"}}\r\n', b'{"a":{"b":"gw-1"}}\r\n'),
        (b"\xef\xbb\xbfat {{ .Timestamp }}", b"\xef\xbb\xbfat 1700000000"),
        (b"{{.Vars.site}} {{.Labels.app.kubernetes.io/name}}", b"{{.Namespace}} press"),
        (b'{{"{{"}}.x}} {{`{{ "y" }}`}} }}', b'{{.x}} {{ "y" }} }}'),
        ("ä {{.GatewayName}} ö".encode(), "ä gw-1 ö".encode()),
    ],
)
def test_fields_become_their_values_and_the_rest_stays(content: bytes, expected: bytes) -> None:
    assert fill_template(content, VALUES) == expected


def test_a_file_without_fields_is_the_very_same() -> None:
    content = b'{"a": {"b": {}}}'
    assert fill_template(content, VALUES) is content


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a\nb\n{{.Vars.missing}}", r"line 3 asks for \.Vars\.missing, which has no value"),
        (b"{{.Locale}}", r"line 1 asks for \.Locale"),
        (b"\n{{.Vars.site | upper}}", r"line 2 has the expression '\.Vars\.site \| upper'; only fields"),
        (b"x {{ y", "line 1 has '{{' without '}}'"),
        (b'{{"\\x"}}', "line 1 has the literal"),
        (b"{{/* c */}}", "only fields"),
        (b"a\0b", "is binary"),
        (b"\x89PNG\r\n", "is not UTF-8 text"),
        (b" " * ((16 << 20) + 1), "is larger than"),
        (b"{{.Vars.long}}" * 5000, "would be larger than"),
    ],
)
def test_everything_else_is_refused_with_its_line(content: bytes, why: str) -> None:
    with pytest.raises(InvalidValue, match=why) as refused:
        fill_template(content, VALUES)
    assert refused.value.reason is Reason.TEMPLATE_RESOLUTION_FAILED


@pytest.mark.parametrize(
    "content",
    [
        b"{{.GatewayName}}" * 60_000,
        b"{" * 1_000_000,
        b"{{" + b" " * 1_000_000,
        b'{{"' + b"\\a" * 400_000,
        b"{{.Labels." + b"a-" * 400_000,
        b"}}" * 800_000,
    ],
)
def test_time_is_linear(content: bytes) -> None:
    """Half a second where time is linear, minutes where it is not: the bound needs no quiet machine."""
    began = time.process_time()
    with suppress(InvalidValue):
        fill_template(content, VALUES)
    assert time.process_time() - began < 10


def test_a_refusal_is_short_whatever_it_refuses() -> None:
    for begin, end in ((b"{{.Labels.", b"}}"), (b'{{"\\x', b'"}}'), (b"{{", b"}}")):
        content = begin + b"a" * 99_999 + end
        with pytest.raises(InvalidValue) as refusal:
            fill_template(content, VALUES)
        assert len(refusal.value.message) < 300
