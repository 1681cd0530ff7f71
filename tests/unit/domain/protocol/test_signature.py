"""The signature of a metadata ConfigMap: what it depends on, and keys that prove nothing."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.protocol import check_order, check_signature, compute_signature, strip_signature
from stoker.domain.protocol import sign_data as sign
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret

MAP = "shop/stoker-metadata-plant"
DATA = {"commit": "a" * 40, "ref": "main"}
KEY = Secret("k" * 32)


def signed(
    data: dict[str, str], key: Secret, *, of: str, uid: str = "u-1", sequence: int = 7
) -> dict[str, str]:
    return sign(data, key, of=of, uid=uid, sequence=sequence)


def test_an_empty_key_proves_nothing_even_with_the_signature_that_it_makes() -> None:
    """Anyone can compute it: a Secret that was emptied must not open the gateways to every writer."""
    empty = Secret("")
    with pytest.raises(InvalidValue, match="is empty") as refused:
        check_signature(signed(DATA, empty, of=MAP), empty, of=MAP)
    assert refused.value.reason is Reason.METADATA_NOT_TRUSTED


def test_the_order_of_the_keys_is_no_part_of_it() -> None:
    """The API server hands out a ConfigMap's keys in its own order."""
    data = signed(DATA, KEY, of=MAP)
    turned = dict(reversed(data.items()))
    assert list(turned) != list(data)
    assert check_signature(turned, KEY, of=MAP) == 7


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (DATA, "carries no signature"),
        ({**DATA, "signature": ""}, "carries no signature"),
        ({**DATA, "signature": "0" * 64}, "does not fit"),
        ({**DATA, "signature": "\ud800"}, "does not fit"),
        ({**signed(DATA, KEY, of=MAP), "ref": "other"}, "does not fit"),
        (signed(DATA, KEY, of="shop/another"), "does not fit"),
        ({**signed(DATA, KEY, of=MAP), "sequence": "8"}, "does not fit"),
        ({**signed(DATA, KEY, of=MAP), "resourceUID": "u-2"}, "does not fit"),
        ({**DATA, "signature": compute_signature(DATA, KEY, of=MAP)}, "without a sequence number"),
    ],
)
def test_a_configmap_with_another_signature_is_refused(data: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidValue, match=why) as refused:
        check_signature(data, KEY, of=MAP)
    assert refused.value.reason is Reason.METADATA_NOT_TRUSTED


def test_what_signing_adds_can_be_taken_off() -> None:
    assert strip_signature(signed(DATA, KEY, of=MAP)) == DATA


def test_an_earlier_map_that_was_put_back_is_refused_and_the_same_one_is_not() -> None:
    check_order(7, 6, of=MAP)
    check_order(7, 7, of=MAP)
    with pytest.raises(InvalidValue, match=f"{MAP} is an earlier one that was put back") as refused:
        check_order(6, 7, of=MAP)
    assert refused.value.reason is Reason.METADATA_NOT_TRUSTED
