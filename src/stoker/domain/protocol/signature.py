"""Signature of the metadata ConfigMap: proves that the controller wrote it, and that it is not an older copy.

Without it, anyone who may write ConfigMaps in a namespace could send any commit of any repository to its
gateways. The signature is an HMAC-SHA256 over the ConfigMap's name and all other keys, so an agent follows
neither an edited ConfigMap nor the ConfigMap of another resource. These keys include the uid of the resource
and a sequence number that grows with every write. The reader remembers the highest number and refuses an
older ConfigMap that was put back. The signature is checked only where a key is mounted.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping

from stoker.domain.errors import InvalidValue
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret

SIGNATURE = "signature"
SEQUENCE = "sequence"
RESOURCE_UID = "resourceUID"
MAX_DIGITS = 18


def compute_signature(data: Mapping[str, str], key: Secret, *, of: str) -> str:
    """Return the signature of a ConfigMap's data; `of` is the ConfigMap itself, as `namespace/name`."""
    signed_keys = {name: value for name, value in data.items() if name != SIGNATURE}
    text = json.dumps([of, signed_keys], sort_keys=True, separators=(",", ":"))
    return hmac.new(key.reveal_bytes(), text.encode(), hashlib.sha256).hexdigest()


def sign_data(data: Mapping[str, str], key: Secret, *, of: str, uid: str, sequence: int) -> dict[str, str]:
    """Return the data with the resource's uid, the sequence number, and the signature over all of it."""
    whole = {**data, RESOURCE_UID: uid, SEQUENCE: str(sequence)}
    return {**whole, SIGNATURE: compute_signature(whole, key, of=of)}


def strip_signature(data: Mapping[str, str]) -> dict[str, str]:
    """Return the data without the keys that signing adds."""
    return {name: text for name, text in data.items() if name not in (SIGNATURE, SEQUENCE, RESOURCE_UID)}


def check_signature(data: Mapping[str, str], key: Secret, *, of: str) -> int:
    """Return the sequence number; raise unless the data was signed with the key."""
    if not key:
        raise InvalidValue("the key of the metadata ConfigMap is empty", reason=Reason.METADATA_NOT_TRUSTED)
    given = data.get(SIGNATURE, "")
    expected = compute_signature(data, key, of=of)
    sequence = data.get(SEQUENCE, "")
    if not given:
        why = "carries no signature, and a key to check one is mounted"
    elif not hmac.compare_digest(given.encode(errors="replace"), expected.encode()):
        why = "does not fit its signature"
    elif not (sequence.isascii() and sequence.isdigit() and len(sequence) <= MAX_DIGITS):
        why = "is signed without a sequence number"
    else:
        return int(sequence)
    raise InvalidValue(
        f"metadata ConfigMap {of} {why}; it is not followed", reason=Reason.METADATA_NOT_TRUSTED
    )


def check_order(sequence: int, highest: int, *, of: str) -> None:
    """Raise if a ConfigMap is older than one that was followed before."""
    if sequence < highest:
        raise InvalidValue(
            f"metadata ConfigMap {of} is an earlier one that was put back (sequence {sequence} after "
            f"{highest}); it is not followed",
            reason=Reason.METADATA_NOT_TRUSTED,
        )
