"""The options of `stoker reverser` for the authors of commits, and the settings that they become."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.cli.common import option_types
from stoker.domain.errors import Misconfigured

if TYPE_CHECKING:
    from stoker.kube.client.served_kinds import KindCatalog
    from stoker.kube.runtime.process import ProcessPart
    from stoker.reverser.authors.process import AuthorCapture, AuthorCaptureOptions
    from stoker.reverser.process import ReverserExtensions, ReverserRuntime
    from stoker.reverser.selection.selection import Selection

CERT_DIR = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108 - the usual mount path of operators
CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--enable-author-webhook",
        type=click.BOOL,
        is_flag=False,
        flag_value="true",
        default=False,
        show_default=True,
        help="Serve an admission webhook that records the authors of changes. Without it every author is "
        "unknown.",
    ),
    click.option(
        "--webhook-port",
        type=click.IntRange(0, 65535),
        default=9443,
        show_default=True,
        help="Port of the author webhook.",
    ),
    click.option("--webhook-host", default="", help="Address to listen on. Default: all."),
    click.option(
        "--webhook-service",
        default="",
        help="Service of that port; its DNS names are put into the certificate.",
    ),
    click.option(
        "--webhook-configuration",
        default="",
        help="ValidatingWebhookConfiguration whose rules the reverser maintains.",
    ),
    click.option(
        "--webhook-cert-secret",
        default="",
        help="Secret for a self-managed certificate.",
    ),
    click.option(
        "--webhook-cert-dir",
        type=click.Path(path_type=Path),
        help=f"Folder with tls.crt, tls.key and ca.crt that another process renews. Default: {CERT_DIR}.",
    ),
    click.option(
        "--webhook-cert-name", multiple=True, help="Additional DNS name or address for the certificate."
    ),
    click.option(
        "--peers-service",
        default="",
        help="Headless Service by which replicas find each other, or HOST:PORT of each, separated by commas.",
    ),
    click.option(
        "--peers-port",
        type=click.IntRange(1, 65535),
        default=9444,
        show_default=True,
        help="Port on which replicas exchange authors.",
    ),
    click.option(
        "--author-patience",
        default="100ms",
        show_default=True,
        help="How long a change waits for another replica to report its author.",
    ),
    click.option(
        "--drain-seconds",
        type=click.FloatRange(0, 60),
        default=5.0,
        show_default=True,
        help="Seconds to keep answering the API server after SIGTERM.",
    ),
)


def author_options(command: CommandT) -> CommandT:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def author_seams(options: Mapping[str, Any], home: str) -> ReverserExtensions:
    """Author capture through the admission webhook, or no author source if that is off."""
    from stoker.reverser.process import ReverserExtensions  # noqa: PLC0415 - --help needs no HTTP stack

    if not options["enable_author_webhook"]:
        return ReverserExtensions()
    witnesses = _DeferredAuthorCapture(_settings(options, home))
    return ReverserExtensions(
        authors=witnesses.authors,
        parts=witnesses.parts,
        selected=witnesses.selected,
        author_patience=option_types.parse_seconds("--author-patience", options["author_patience"]),
    )


class _DeferredAuthorCapture:
    """Author capture whose parts are built only once the process has its client."""

    def __init__(self, settings: AuthorCaptureOptions) -> None:
        from stoker.reverser.authors.attribution import AuthorAttribution  # noqa: PLC0415

        self.authors = AuthorAttribution()
        self._settings = settings
        self._capture: AuthorCapture | None = None

    def parts(self, started: ReverserRuntime) -> Sequence[ProcessPart]:
        from stoker.reverser.authors.process import AuthorCapture  # noqa: PLC0415

        capture = self._capture = AuthorCapture(
            started.client, self._settings, self.authors, metrics=started.metrics, clock=started.clock
        )
        started.health.ready.add("authors", capture.why_not)
        return capture.parts()

    def selected(self, selection: Selection, catalog: KindCatalog) -> None:
        if self._capture is not None:
            self._capture.capture(selection, catalog)


def _settings(options: Mapping[str, Any], home: str) -> AuthorCaptureOptions:
    from stoker.http_server.tls.ca_bundle import VALIDATING, CaBundleTarget  # noqa: PLC0415
    from stoker.http_server.tls.rotation import CertificateLifetimes  # noqa: PLC0415
    from stoker.http_server.tls.setup import SelfSignedCertificates  # noqa: PLC0415
    from stoker.reverser.authors.process import AuthorCaptureOptions  # noqa: PLC0415

    configuration, service = options["webhook_configuration"], options["webhook_service"]
    if not configuration:
        raise Misconfigured(
            "the author webhook needs --webhook-configuration with the name of its configuration"
        )
    served = (f"{service}.{home}.svc", f"{service}.{home}.svc.cluster.local") if service else ()
    names = (*served, *options["webhook_cert_name"])
    if not names:
        raise Misconfigured("a certificate needs a name: give --webhook-service or --webhook-cert-name")
    secret = options["webhook_cert_secret"]
    made = SelfSignedCertificates(
        secret, names, (CaBundleTarget(VALIDATING, configuration),), CertificateLifetimes(mutual=True)
    )
    return AuthorCaptureOptions(
        namespace=home,
        certificate=made if secret else options["webhook_cert_dir"] or CERT_DIR,
        name=names[0],
        configuration=configuration,
        host=options["webhook_host"],
        port=options["webhook_port"],
        peers=_names(options["peers_service"], home),
        peers_port=options["peers_port"],
        own_host=os.environ.get("POD_IP", ""),
        drain=options["drain_seconds"],
    )


def _names(text: str, home: str) -> tuple[str, ...]:
    """Server names of the certificate; a bare Service name gets our own namespace."""
    return tuple(
        each if "." in each or ":" in each else f"{each}.{home}.svc"
        for each in option_types.parse_names(text)
    )
