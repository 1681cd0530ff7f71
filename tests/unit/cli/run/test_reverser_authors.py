"""Flags of author capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.cli.run.reverser import reverser_command
from stoker.cli.run.reverser_authors import CERT_DIR, _settings, author_seams
from stoker.domain.errors import Misconfigured
from stoker.http_server.tls.setup import SelfSignedCertificates
from stoker.reverser.authors.attribution import AuthorAttribution


def options(*words: str) -> dict[str, Any]:
    with reverser_command.make_context("reverser", list(words)) as context:
        return dict(context.params)


NAMED = ("--webhook-service=rev", "--webhook-configuration=conf")


def test_no_webhook_is_asked_for_authors_unless_enabled() -> None:
    seams = author_seams(options(), "home")
    assert seams.author_patience == 0.0
    seams = author_seams(options("--enable-author-webhook=true", "--author-patience=2s", *NAMED), "home")
    assert seams.author_patience == 2.0
    assert isinstance(seams.authors, AuthorAttribution)


def test_names_are_those_of_the_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", "10.0.0.7")
    result = options(
        *NAMED, "--webhook-cert-secret=tls", "--peers-service=rev-peers, 10.0.0.9:9444,rev.x.svc"
    )
    found = _settings(result, "home")
    assert isinstance(found.certificate, SelfSignedCertificates)
    assert found.certificate.names == ("rev.home.svc", "rev.home.svc.cluster.local")
    assert found.certificate.terms.mutual
    assert [each.name for each in found.certificate.targets] == ["conf"]
    assert found.name == "rev.home.svc"
    assert found.peers == ("rev-peers.home.svc", "10.0.0.9:9444", "rev.x.svc")
    assert (found.own_host, found.port, found.peers_port) == ("10.0.0.7", 9443, 9444)


def test_without_a_secret_the_certificate_is_managed_elsewhere() -> None:
    assert _settings(options(*NAMED), "home").certificate == CERT_DIR
    assert _settings(options(*NAMED, "--webhook-cert-dir=/certs"), "home").certificate == Path("/certs")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--webhook-service=rev"], "needs --webhook-configuration"),
        (["--webhook-configuration=conf"], "a certificate needs a name"),
        ([*NAMED, "--author-patience=soon"], "--author-patience: "),
    ],
)
def test_what_is_missing_is_named(words: list[str], message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        author_seams(options("--enable-author-webhook=true", *words), "home")
