"""Delivery of a commit to a fleet, as values that cannot be wrong."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.delivery import PollingPolicy


@pytest.mark.parametrize("interval", [0.0, 0.001, 0.999])
def test_a_ref_is_never_polled_without_a_pause(interval: float) -> None:
    with pytest.raises(InvalidValue, match=r"polling\.interval of .* is shorter than 1 s"):
        PollingPolicy(interval=interval)


def test_without_polling_any_interval_is_accepted() -> None:
    assert PollingPolicy(enabled=False, interval=0.0).interval == 0.0
    assert PollingPolicy(interval=1.0).enabled
