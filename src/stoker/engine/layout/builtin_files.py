"""Contents that no repository has to have: what the product itself writes in the place of a missing file.

There is one. A collection of an Ignition gateway needs a `config-mode.json`; where
the folder that a collection comes from is missing, a mapping can ask for that file
alone (C-108). Its content is the least that is JSON, so that it settles nothing. It
has the id that git would give it, so a ledger, a plan and a walk treat it as any other.
"""

from __future__ import annotations

from stoker.domain.git_objects import BlobId, blob_of

CONFIG_MODE_FILE = "config-mode.json"
CONFIG_MODE = b"{}\n"

_BY_ID = {blob_of(CONFIG_MODE, digits=digits): CONFIG_MODE for digits in (40, 64)}

IDS: frozenset[BlobId] = frozenset(_BY_ID)
"""In repositories of either hash."""


def builtin_content(blob: BlobId) -> bytes:
    """The content of one of the `IDS`."""
    return _BY_ID[blob]
