"""Files that are encrypted here are opened by another implementation of age, and by the identity alone."""

from __future__ import annotations

import base64
import hmac
import os

import pyrage  # type: ignore[import-untyped]
import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from stoker.domain.errors import InvalidValue
from stoker.reverser.encryption.age import CHUNK_BYTES, AgeRecipient, armor, encrypt

IDENTITY = pyrage.x25519.Identity.from_str(
    "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"
)
PUBLIC = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"


@pytest.mark.parametrize(
    "size",
    [0, 1, 32, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 3 * CHUNK_BYTES + 7],
    ids=lambda size: f"{size}B",
)
def test_another_implementation_opens_it(size: int) -> None:
    plain = bytes(number % 251 for number in range(size))
    sealed = encrypt(plain, AgeRecipient.of(PUBLIC))
    assert pyrage.decrypt(sealed, [IDENTITY]) == plain
    assert pyrage.decrypt(armor(sealed).encode(), [IDENTITY]) == plain


def test_no_other_key_opens_it() -> None:
    sealed = encrypt(b"hunter2", AgeRecipient.of(PUBLIC))
    with pytest.raises(pyrage.DecryptError):
        pyrage.decrypt(sealed, [pyrage.x25519.Identity.generate()])


def test_what_was_touched_is_not_opened() -> None:
    sealed = encrypt(b"x" * (CHUNK_BYTES + 1), AgeRecipient.of(PUBLIC))
    for at in (30, 80, 150, 200, len(sealed) - 1):
        touched = bytearray(sealed)
        touched[at] ^= 1
        with pytest.raises(pyrage.DecryptError):
            pyrage.decrypt(bytes(touched), [IDENTITY])
    with pytest.raises(pyrage.DecryptError):
        pyrage.decrypt(sealed[: -(1 + 16)], [IDENTITY])


def test_no_two_files_are_alike() -> None:
    recipient = AgeRecipient.of(PUBLIC)
    one, other = (encrypt(b"same", recipient) for _ in range(2))
    assert one != other
    assert one[-20:] != other[-20:]


def test_the_key_of_a_file_and_its_nonce_are_made_for_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []
    real = os.urandom

    def noted(size: int) -> bytes:
        made.append(real(size))
        return made[-1]

    monkeypatch.setattr(os, "urandom", noted)
    sealed = encrypt(b"same", AgeRecipient.of(PUBLIC))
    file_key, nonce = made
    assert len(file_key) == len(nonce) == 16
    header, _, rest = sealed.partition(b"--- ")
    mac, _, payload = rest.partition(b"\n")
    assert payload.startswith(nonce)
    expected = hmac.digest(derived(file_key, b"", b"header"), header + b"---", "sha256")
    assert mac == base64.b64encode(expected).rstrip(b"=")
    key = derived(file_key, nonce, b"payload")
    assert ChaCha20Poly1305(key).decrypt(bytes(11) + b"\1", payload[16:], None) == b"same"


def derived(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 by hand, for 32 bytes."""
    return hmac.digest(hmac.digest(salt or bytes(32), secret, "sha256"), info + b"\1", "sha256")


def test_every_public_key_is_read_as_the_other_implementation_spells_it() -> None:
    for _ in range(50):
        identity = pyrage.x25519.Identity.generate()
        recipient = AgeRecipient.of(str(identity.to_public()))
        assert pyrage.decrypt(encrypt(b"x", recipient), [identity]) == b"x"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not of the form"),
        ("age1", "not of the form"),
        (PUBLIC[:-1], "misspelt"),
        (PUBLIC.replace("z", "q", 1), "misspelt"),
        (PUBLIC.upper(), "small letters"),
        (PUBLIC + "\n", "small letters"),
        ("é" + PUBLIC, "small letters"),
        ("age1" + "q" * 300, "small letters"),
        ("age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t", "the kind age1yubikey"),
        ("ssh-ed25519", "small letters|not of the form"),
        (str(IDENTITY), "is an identity, which is secret"),
    ],
)  # fmt: skip
def test_what_is_no_recipient_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why) as caught:
        AgeRecipient.of(text)
    assert "AGE-SECRET" not in caught.value.message.upper()


def test_a_key_of_small_order_is_refused() -> None:
    with pytest.raises(InvalidValue, match="everybody could decrypt"):
        AgeRecipient.of(_spelt(bytes(32)))
    with pytest.raises(InvalidValue, match="everybody could decrypt"):
        AgeRecipient.of(_spelt(bytes([1, *bytes(31)])))
    with pytest.raises(InvalidValue, match="32 bytes"):
        AgeRecipient.of(_spelt(b"\x09" * 31))


def _spelt(key: bytes) -> str:
    """A key as a recipient, spelt by the rules of BIP 173."""
    alphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
    bits = "".join(f"{byte:08b}" for byte in key)
    bits += "0" * (-len(bits) % 5)
    values = [int(bits[at : at + 5], 2) for at in range(0, len(bits), 5)]
    human = [*(ord(c) >> 5 for c in "age"), 0, *(ord(c) & 31 for c in "age")]
    check = _polymod([*human, *values, *([0] * 6)]) ^ 1
    values += [check >> 5 * (5 - place) & 31 for place in range(6)]
    return "age1" + "".join(alphabet[value] for value in values)


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for place, generator in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            if top >> place & 1:
                check ^= generator
    return check
