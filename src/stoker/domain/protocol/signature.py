"""Whether a metadata ConfigMap is what the controller wrote, and not an earlier one (R-CM-24).

Who may write ConfigMaps in a namespace could otherwise send any commit of any repository to its gateways.
The signature is an HMAC-SHA256 over the ConfigMap's name and all other keys, so that neither an edited
ConfigMap nor that of another resource is followed. Among these keys are the uid of the resource and a
sequence number that grows with every write: whoever reads remembers the highest one, and an earlier
ConfigMap that is put back is refused. It is checked only where a key is mounted.
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
    """The signature of a ConfigMap's data; `of` is the ConfigMap itself, as `namespace/name`."""
    signed_keys = {name: value for name, value in data.items() if name != SIGNATURE}
    text = json.dumps([of, signed_keys], sort_keys=True, separators=(",", ":"))
    return hmac.new(key.reveal_bytes(), text.encode(), hashlib.sha256).hexdigest()


def sign_data(data: Mapping[str, str], key: Secret, *, of: str, uid: str, sequence: int) -> dict[str, str]:
    """The same data with the resource's uid, the sequence number, and the signature of all of it."""
    whole = {**data, RESOURCE_UID: uid, SEQUENCE: str(sequence)}
    return {**whole, SIGNATURE: compute_signature(whole, key, of=of)}


def strip_signature(data: Mapping[str, str]) -> dict[str, str]:
    """The data without what signing adds."""
    return {name: text for name, text in data.items() if name not in (SIGNATURE, SEQUENCE, RESOURCE_UID)}


def check_signature(data: Mapping[str, str], key: Secret, *, of: str) -> int:
    """The sequence number; raises unless whoever wrote the data knows the key."""
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
    """Raise where a ConfigMap is older than one that was followed before."""
    if sequence < highest:
        raise InvalidValue(
            f"metadata ConfigMap {of} is an earlier one that was put back (sequence {sequence} after "
            f"{highest}); it is not followed",
            reason=Reason.METADATA_NOT_TRUSTED,
        )
