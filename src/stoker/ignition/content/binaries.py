"""Files that a gateway turns into running objects, and who may change them.

`data.bin` and its like hold serialised Java objects: whoever can write one runs code
on the gateway. A policy can refuse every changed one, or ask that the commit it comes
from was signed by somebody who is trusted. Pure: the caller knows what will be written
and whether a signature was asked for and held.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.errors import Stalled
from stoker.domain.intent.files import BinaryPolicy
from stoker.domain.reasons import Reason

BINARY_SUFFIX = ".bin"
_MAX_NAMED = 5


def is_binary(path: str) -> bool:
    return path.lower().endswith(BINARY_SUFFIX)


def binary_refusal(written: Iterable[str], policy: BinaryPolicy, *, signed: bool) -> Stalled | None:
    """Why these paths must not be written; `signed`: a trusted signature was required, and verified."""
    if policy is BinaryPolicy.ALLOW or (policy is BinaryPolicy.REQUIRE_SIGNED and signed):
        return None
    binaries = sorted(path for path in written if is_binary(path))
    if not binaries:
        return None
    named = ", ".join(binaries[:_MAX_NAMED])
    more = f" and {len(binaries) - _MAX_NAMED} more" if len(binaries) > _MAX_NAMED else ""
    why = (
        "ignition.binaryPolicy is refuse"
        if policy is BinaryPolicy.REFUSE
        else "ignition.binaryPolicy is requireSigned and git.verify asks for no signature"
    )
    return Stalled(
        f"{named}{more} would be written, which hold code for the gateway; {why}; nothing was changed",
        reason=Reason.BINARY_REFUSED,
    )
