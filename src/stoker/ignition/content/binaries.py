"""Files that a gateway deserialises into running objects, and the policy for changing them.

`data.bin` and similar files hold serialised Java objects: anyone who can write such a file
runs code on the gateway. A policy can refuse every changed binary file, or require that the
commit was signed by a trusted signer. Pure: the caller knows which files will be written and
whether a signature was required and verified.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.errors import Stalled
from stoker.domain.intent.files import BinaryPolicy
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names

BINARY_SUFFIX = ".bin"
_MAX_NAMED = 5


def is_binary(path: str) -> bool:
    return path.lower().endswith(BINARY_SUFFIX)


def binary_refusal(written: Iterable[str], policy: BinaryPolicy, *, signed: bool) -> Stalled | None:
    """Return why these paths must not be written; `signed`: a trusted signature was required and verified."""
    if policy is BinaryPolicy.ALLOW or (policy is BinaryPolicy.REQUIRE_SIGNED and signed):
        return None
    binaries = sorted(path for path in written if is_binary(path))
    if not binaries:
        return None
    why = (
        "ignition.binaryPolicy is refuse"
        if policy is BinaryPolicy.REFUSE
        else "ignition.binaryPolicy is requireSigned and git.verify asks for no signature"
    )
    return Stalled(
        f"{first_names(binaries, _MAX_NAMED)} would be written, which hold code for the gateway; {why}; "
        "nothing was changed",
        reason=Reason.BINARY_REFUSED,
    )
