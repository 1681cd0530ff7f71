"""An agent follows no metadata ConfigMap that is older than one it followed before."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.sidecar.metadata_order import NAME, MetadataOrder
from stoker.domain.errors import InvalidValue

MAP = "shop/stoker-metadata-plant"


def test_an_earlier_one_is_refused_by_the_next_agent_too(tmp_path: Path) -> None:
    first = MetadataOrder(tmp_path)
    first.accept(5, of=MAP)
    first.accept(9, of=MAP)
    for order in (first, MetadataOrder(tmp_path)):
        with pytest.raises(InvalidValue, match="sequence 8 after 9"):
            order.accept(8, of=MAP)
        order.accept(9, of=MAP)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"-1", b"9" * 40])
def test_a_file_that_no_agent_wrote_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".sync-state").mkdir(mode=0o700)
    (tmp_path / ".sync-state" / NAME).write_bytes(content)
    MetadataOrder(tmp_path).accept(1, of=MAP)
    with pytest.raises(InvalidValue):
        MetadataOrder(tmp_path).accept(0, of=MAP)
