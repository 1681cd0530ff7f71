"""Flags of `stoker webhook`, and the flags that the specification names."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from stoker.api.to_intent import NO_DEFAULTS
from stoker.cli.commands import cli
from stoker.cli.run.webhook import (
    _certificate_folder,
    _parse_selector,
    _self_signed_settings,
    parse_secret_key,
    read_defaults,
)
from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.intent.source import SecretKey


@pytest.mark.parametrize(
    ("args", "verb", "rest"),
    [
        (["controller", "--mode=webhook", "--webhook-port=9443"], "webhook", ["--webhook-port=9443"]),
        (["controller", "--mode", "webhook"], "webhook", []),
        (["controller", "--workers=3", "--mode", "webhook", "--x"], "webhook", ["--workers=3", "--x"]),
        (["controller", "--mode=controller"], "controller", ["--mode=controller"]),
        (["controller"], "controller", []),
        (["webhook"], "webhook", []),
    ],
)
def test_the_controllers_mode_is_another_spelling(args: list[str], verb: str, rest: list[str]) -> None:
    assert isinstance(cli, click.Group)
    name, command, left = cli.resolve_command(click.Context(cli), args)
    assert (name, command.name if command else "", left) == (verb, verb, rest)


def test_a_selector_is_labels_with_or_without_a_value() -> None:
    assert _parse_selector("") == {}
    assert _parse_selector("app=ignition, tier") == {"app": "ignition", "tier": None}
    assert _parse_selector("example.net/app=") == {"example.net/app": ""}
    for wrong in ("=x", "a b", "app=x y", "-a"):
        with pytest.raises(Misconfigured, match="--pod-selector"):
            _parse_selector(wrong)


def test_a_metadata_key_is_a_secret_and_a_key_of_it() -> None:
    assert parse_secret_key("") is None
    assert parse_secret_key("signing/key.pem") == SecretKey("signing", "key.pem")
    for wrong in ("signing", "a/b/c", "Signing/key", "/key"):
        with pytest.raises(Misconfigured):
            parse_secret_key(wrong)


def test_defaults_are_one_map_of_known_fields(tmp_path: Path) -> None:
    file = tmp_path / "defaults.yaml"
    assert read_defaults(None) is NO_DEFAULTS
    file.write_text("")
    assert read_defaults(file) is NO_DEFAULTS
    file.write_text("polling: {interval: 5m}\nagent: {sidecarMode: container}\n")
    found = read_defaults(file)
    assert found.agent is not None
    assert found.agent.sidecar_mode == "container"
    file.write_text("- a\n")
    with pytest.raises(Misconfigured):
        read_defaults(file)
    file.write_text("pollling: {}\n")
    with pytest.raises(InvalidValue, match="pollling"):
        read_defaults(file)
    with pytest.raises(Misconfigured, match="does not exist"):
        read_defaults(tmp_path / "gone")


def test_a_certificate_of_our_own_needs_a_name_and_the_configurations_to_update() -> None:
    made = _self_signed_settings(
        "tls", "hook", "stoker", ("127.0.0.1",), ("m", "m"), ("v",), ("stokers.stoker.io",)
    )
    assert made.names == ("hook.stoker.svc", "hook.stoker.svc.cluster.local", "127.0.0.1")
    assert [str(one) for one in made.targets] == [
        "MutatingWebhookConfiguration m",
        "ValidatingWebhookConfiguration v",
        "CustomResourceDefinition stokers.stoker.io",
    ]
    with pytest.raises(Misconfigured, match="--service"):
        _self_signed_settings("tls", "", "stoker", (), (), (), ())


def test_without_any_certificate_it_does_not_start(tmp_path: Path) -> None:
    nothing = tmp_path / "none"
    with pytest.raises(Misconfigured, match="--cert-secret"):
        _certificate_folder(None, mounted=nothing)
    assert _certificate_folder(tmp_path, mounted=nothing) == tmp_path
    assert _certificate_folder(None, mounted=tmp_path) == tmp_path
