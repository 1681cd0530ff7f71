"""Contents that the product itself supplies in place of a file that the repository lacks.

There is one such file. A collection of an Ignition gateway needs a `config-mode.json`; where the source
folder of a collection is missing, a mapping can request that file alone. Its content is the smallest valid
JSON object, so that it sets nothing. Its id is the blob id that git would compute, so ledger, plan and
directory walk treat it like any other file.
"""

from __future__ import annotations

from stoker.domain.git_objects import BlobId, blob_of

CONFIG_MODE_FILE = "config-mode.json"
CONFIG_MODE = b"{}\n"

_BY_ID = {blob_of(CONFIG_MODE, digits=digits): CONFIG_MODE for digits in (40, 64)}

IDS: frozenset[BlobId] = frozenset(_BY_ID)
"""The ids in repositories of either hash, SHA-1 and SHA-256."""


def builtin_content(blob: BlobId) -> bytes:
    """Return the content for one of the `IDS`."""
    return _BY_ID[blob]
