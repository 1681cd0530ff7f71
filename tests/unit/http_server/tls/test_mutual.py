"""TLS among replicas: a client with the certificate is accepted, and no other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from stoker.domain.errors import InvalidValue
from stoker.http_server.review_server import ReviewServer
from stoker.http_server.tls.certificate_authority import (
    TlsMaterial,
    new_material,
    reissue_certificate,
    with_new_authority,
)
from stoker.http_server.tls.context import ServerTlsContext
from stoker.http_server.tls.files import CertificateFiles
from stoker.http_server.tls.mutual import MutualTls
from stoker_testkit.wait_until import eventually_async

NAME = "reverser.stoker-system.svc"
NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def made(*names: str, mutual: bool = True) -> TlsMaterial:
    return new_material(names or (NAME,), NOW, 2 * DAY, DAY, mutual=mutual)


OURS = made()


def using(material: TlsMaterial, trusted: TlsMaterial | None = None) -> MutualTls:
    mutual = MutualTls(NAME)
    mutual.use(material.chain, material.key, (trusted or material).bundle)
    return mutual


@pytest.fixture
async def server() -> AsyncIterator[ReviewServer]:
    async def echo(body: bytes) -> bytes:
        return body

    mutual = using(OURS)
    server = ReviewServer("127.0.0.1:0", mutual.server, {"/facts": echo}, guard=mutual.is_peer)
    task = asyncio.create_task(server.run())
    await eventually_async(lambda: server.port, 10, "it listens")
    yield server
    await server.stop()
    await task


async def asked(server: ReviewServer, context: ssl.SSLContext) -> int:
    """The status with which a caller is answered; 0 where it is not let in at all."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"https://127.0.0.1:{server.port}/facts",
                data=b"{}",
                headers={"Content-Type": "application/json"},
                ssl=context,
                server_hostname=NAME,
            ) as answer,
        ):
            return answer.status
    except (aiohttp.ClientError, OSError):
        return 0


def client_of(mutual: MutualTls) -> ssl.SSLContext:
    assert mutual.client is not None
    return mutual.client


async def test_a_replica_with_the_same_certificate_is_answered(server: ReviewServer) -> None:
    assert await asked(server, client_of(using(OURS))) == 200


async def test_unknown_clients_are_refused(server: ReviewServer) -> None:
    assert await asked(server, ssl.create_default_context(cadata=OURS.bundle.decode())) == 0
    assert await asked(server, client_of(using(made(), trusted=OURS))) == 0


async def test_a_certificate_of_the_authority_that_is_anothers_is_turned_away(server: ReviewServer) -> None:
    """An authority of cert-manager may sign for a whole plant."""
    other = reissue_certificate(OURS, ("line-1.example.net",), NOW, DAY, mutual=True)
    assert await asked(server, client_of(using(other, trusted=OURS))) == 403
    only_serving = reissue_certificate(OURS, (NAME,), NOW, DAY)
    assert await asked(server, client_of(using(only_serving, trusted=OURS))) == 0


async def test_a_server_that_is_not_a_replica_is_not_trusted(server: ReviewServer) -> None:
    assert await asked(server, client_of(using(made(), trusted=made()))) == 0


async def test_a_new_authority_is_trusted_beside_the_old_one() -> None:
    mutual = using(OURS)
    first = mutual.client
    mutual.use(OURS.chain, OURS.key, OURS.bundle)
    assert mutual.client is first
    both = with_new_authority(OURS, NOW, 2 * DAY)
    mutual.use(both.chain, both.key, both.bundle)
    assert mutual.client is not first
    subjects = {one["serialNumber"] for one in client_of(mutual).get_ca_certs()}
    assert len(subjects) == 2


def test_what_cannot_be_read_changes_nothing() -> None:
    mutual = using(OURS)
    before = mutual.client
    with pytest.raises(InvalidValue, match="cannot be read"):
        mutual.use(made().chain, OURS.key, OURS.bundle)
    with pytest.raises(InvalidValue, match="cannot be read"):
        mutual.use(OURS.chain, OURS.key, b"nothing")
    assert mutual.client is before


def test_certificate_files_managed_elsewhere_bring_their_authority(tmp_path: Path) -> None:
    """As cert-manager mounts them; half of them is not shown."""
    mutual, presented = MutualTls(NAME), ServerTlsContext()
    files = CertificateFiles(tmp_path, presented, told=mutual.use)
    (tmp_path / "tls.crt").write_bytes(OURS.chain)
    (tmp_path / "tls.key").write_bytes(OURS.key.reveal_bytes())
    files.look()
    assert not presented.ready
    assert mutual.client is None
    (tmp_path / "ca.crt").write_bytes(OURS.bundle)
    files.look()
    assert presented.ready
    first = mutual.client
    assert first is not None
    (tmp_path / "ca.crt").write_bytes(with_new_authority(OURS, NOW, DAY).bundle)
    files.look()
    assert mutual.client is not first
