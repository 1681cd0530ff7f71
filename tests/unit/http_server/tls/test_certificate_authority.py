"""Certificates over the years: always one that is trusted, always one that is good."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.secrets import Secret
from stoker.http_server.tls.certificate_authority import (
    TlsMaterial,
    new_material,
    reissue_certificate,
    with_new_authority,
)
from stoker.http_server.tls.context import ServerTlsContext
from stoker.http_server.tls.rotation import (
    CertificateLifetimes,
    RotationStep,
    apply_rotation_step,
    decide_rotation,
)
from stoker_testkit.certificates import Authority

NAMES = ("stoker-webhook.stoker.svc", "127.0.0.1")
START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
TERMS = CertificateLifetimes()


def made(now: datetime = START) -> TlsMaterial:
    return new_material(NAMES, now, TERMS.authority, TERMS.serving)


def step(
    material: TlsMaterial, now: datetime, *, trusted: bool = True, names: tuple[str, ...] = NAMES
) -> RotationStep:
    return decide_rotation(
        material.authority_facts(), material.serving_facts(), names, now, TERMS, trusted=trusted
    ).step


def test_what_is_written_is_read_back() -> None:
    material = made()
    again = TlsMaterial.parse(material.data())
    assert again == material
    assert again.serving_facts().names == set(NAMES)
    assert again.serving_facts().issuer_id == again.authority_facts()[0].key_id
    two = with_new_authority(material, START + DAY, TERMS.authority)
    assert TlsMaterial.parse(two.data()).authorities == two.authorities
    assert len(two.authorities) == 2


def test_no_key_shows_itself() -> None:
    assert "PRIVATE" not in repr(made())


def replaced(**values: bytes | None) -> dict[str, str]:
    data = made().data()
    for name, value in values.items():
        key = name.replace("_", ".")
        if value is None:
            del data[key]
        else:
            data[key] = base64.b64encode(value).decode()
    return data


@pytest.mark.parametrize(
    "data",
    [
        {},
        replaced(ca_crt=None),
        replaced(ca_key=None),
        replaced(tls_crt=b""),
        replaced(tls_key=b"no key"),
        replaced(ca_crt=b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        replaced(ca_key=made().key.reveal_bytes()),
        replaced(tls_key=made().key.reveal_bytes()),
        {**made().data(), "tls.crt": "%%%"},
        replaced(tls_crt=Authority().server().pem),
    ],
)
def test_what_does_not_belong_together_is_not_served(data: dict[str, str]) -> None:
    with pytest.raises(InvalidValue):
        TlsMaterial.parse(data)


def test_a_young_one_is_kept_and_looked_at_in_time() -> None:
    material = made()
    decision = decide_rotation(
        material.authority_facts(), material.serving_facts(), NAMES, START, TERMS, trusted=True
    )
    assert decision.step is RotationStep.KEEP
    assert decision.look_again == START + TERMS.serving * (2 / 3)


def test_a_certificate_is_renewed_by_the_same_authority_long_before_its_end() -> None:
    material = made()
    assert step(material, START + 59 * DAY) is RotationStep.KEEP
    assert step(material, START + 61 * DAY) is RotationStep.REISSUE
    after = apply_rotation_step(RotationStep.REISSUE, material, NAMES, START + 61 * DAY, TERMS)
    assert after.authorities == material.authorities
    assert after.chain != material.chain


def test_another_name_is_certified_at_once() -> None:
    assert step(made(), START, names=(*NAMES, "stoker-webhook.other.svc")) is RotationStep.REISSUE
    assert step(made(), START, names=NAMES[:1]) is RotationStep.KEEP


def test_a_new_authority_is_trusted_before_it_signs_and_the_old_one_leaves_last() -> None:
    now = START + 250 * DAY
    old = reissue_certificate(made(), NAMES, now - DAY, TERMS.serving)
    assert step(old, now) is RotationStep.ADD_AUTHORITY
    both = apply_rotation_step(RotationStep.ADD_AUTHORITY, old, NAMES, now, TERMS)
    assert both.chain == old.chain
    assert both.authorities[1:] == old.authorities
    assert step(both, now) is RotationStep.KEEP
    assert step(both, now + TERMS.overlap, trusted=False) is RotationStep.KEEP
    assert step(both, now + TERMS.overlap) is RotationStep.REISSUE
    at = now + TERMS.overlap
    signed = apply_rotation_step(RotationStep.REISSUE, both, NAMES, at, TERMS)
    assert signed.serving_facts().issuer_id == signed.authority_facts()[0].key_id
    assert step(signed, at) is RotationStep.KEEP
    assert step(signed, at + TERMS.farewell) is RotationStep.DROP_OLD
    assert (
        apply_rotation_step(RotationStep.DROP_OLD, signed, NAMES, at, TERMS).authorities
        == both.authorities[:1]
    )


def test_a_certificate_that_is_about_to_end_is_renewed_even_without_an_event() -> None:
    now = START + 250 * DAY
    both = with_new_authority(
        reissue_certificate(made(), NAMES, now - DAY, TERMS.serving), now, TERMS.authority
    )
    assert step(both, now + 80 * DAY, trusted=False) is RotationStep.KEEP
    assert step(both, now + 86 * DAY, trusted=False) is RotationStep.REISSUE


def test_after_a_long_sleep_everything_begins_anew() -> None:
    material = made()
    assert step(material, START + 400 * DAY) is RotationStep.START_OVER
    after = apply_rotation_step(RotationStep.START_OVER, material, NAMES, START + 400 * DAY, TERMS)
    assert after.authorities != material.authorities


def test_over_five_years_every_certificate_is_good_and_was_trusted_before_it_was_shown() -> None:
    """Clients learn of a bundle ten minutes late, and the decision is made once an hour."""
    material, now = made(), START
    names = {one.key_id for one in material.authority_facts()}
    seen: set[RotationStep] = set()
    while now < START + 5 * 365 * DAY:
        decision = decide_rotation(
            material.authority_facts(), material.serving_facts(), NAMES, now, TERMS, trusted=True
        )
        assert decision.look_again >= now
        material = apply_rotation_step(decision.step, material, NAMES, now, TERMS)
        seen.add(decision.step)
        serving = material.serving_facts()
        trusted = {one.key_id for one in material.authority_facts() if one.expires > now}
        assert serving.created <= now < serving.expires
        assert serving.issuer_id in trusted
        assert serving.issuer_id in names
        names = {one.key_id for one in material.authority_facts()}  # an hour later everybody knows
        now += timedelta(hours=12) if decision.step is RotationStep.KEEP else timedelta(hours=1)
    assert seen == {
        RotationStep.KEEP,
        RotationStep.ADD_AUTHORITY,
        RotationStep.REISSUE,
        RotationStep.DROP_OLD,
    }


def test_a_pair_that_does_not_fit_leaves_the_live_one_alone() -> None:
    presented, now = ServerTlsContext(), datetime.now(UTC)
    first, second = made(now), made(now)
    assert presented.why_not() == "there is no certificate yet"
    assert presented.show(first.chain, first.key)
    assert not presented.show(first.chain, first.key)
    with pytest.raises(InvalidValue):
        presented.show(second.chain, first.key)
    with pytest.raises(InvalidValue):
        presented.show(b"nonsense", Secret("nonsense"))
    assert presented.why_not() is None
    assert handshake(presented, first)
    assert presented.show(second.chain, second.key)
    assert handshake(presented, second)
    assert not handshake(presented, first)


def handshake(presented: ServerTlsContext, trusted: TlsMaterial) -> bool:
    """Whether a client that trusts this authority is content, without a network."""
    client = ssl.create_default_context(cadata=trusted.bundle.decode())
    into, out, back, forth = ssl.MemoryBIO(), ssl.MemoryBIO(), ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(into, out, server_hostname=NAMES[0])
    theirs = presented.context.wrap_bio(back, forth, server_side=True)
    for _ in range(6):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError:
                return False
            back.write(out.read())
            into.write(forth.read())
    return ours.getpeercert() is not None
