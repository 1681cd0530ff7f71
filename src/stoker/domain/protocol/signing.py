"""Whether a metadata map is what the controller wrote (R-CM-24).

Who may write ConfigMaps in a namespace could otherwise send any commit of any
repository to its gateways. The signature is an HMAC-SHA256 over the name of the
map and all other keys, so that neither an edited map nor the map of another
resource is believed. It is checked only where a key is mounted.
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


def signature(data: Mapping[str, str], key: Secret, *, of: str) -> str:
    """The signature of a map's data; `of` is the map itself, as `namespace/name`."""
    signed_keys = {name: value for name, value in data.items() if name != SIGNATURE}
    text = json.dumps([of, signed_keys], sort_keys=True, separators=(",", ":"))
    return hmac.new(key.reveal_bytes(), text.encode(), hashlib.sha256).hexdigest()


def signed(data: Mapping[str, str], key: Secret, *, of: str) -> dict[str, str]:
    """The same data with its signature."""
    return {**data, SIGNATURE: signature(data, key, of=of)}


def check_signature(data: Mapping[str, str], key: Secret, *, of: str) -> None:
    """Raise unless whoever wrote the data knows the key."""
    if not key:
        raise InvalidValue("the key of the metadata map is empty", reason=Reason.METADATA_NOT_TRUSTED)
    given = data.get(SIGNATURE, "")
    expected = signature(data, key, of=of)
    if not given:
        why = "carries no signature, and a key to check one is mounted"
    elif not hmac.compare_digest(given.encode(errors="replace"), expected.encode()):
        why = "does not fit its signature"
    else:
        return
    raise InvalidValue(f"metadata map {of} {why}; it is not followed", reason=Reason.METADATA_NOT_TRUSTED)
