"""A keeper for an order: the login, the keys, the gateway and the progress bar wired to it.

The one place in which the command line meets the agent's pass. Verbs ask a `Kept`
for a pass, a plan or the drift, and get values back.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from stoker.agent.jobs import Wish
from stoker.agent.keeping import Keeper
from stoker.agent.opening import open_keeper
from stoker.agent.tending import Tended
from stoker.cli.logins import access_reader, keys_reader
from stoker.cli.orders import Order
from stoker.cli.showing import complain

if TYPE_CHECKING:
    from stoker.agent.hooks import Noise
    from stoker.agent.reporting import SyncReport
    from stoker.engine.drifting import Drift
    from stoker.engine.sources import SourceReader
    from stoker.ignition.attending import Attending

Progress = Callable[[str, int, int], None]


class Kept:
    """One data folder with everything that a pass over it needs."""

    def __init__(
        self, order: Order, *, reader: SourceReader | None = None, progress: Progress | None = None
    ) -> None:
        self.order = order
        self._attendant, noise = _gateway_of(order)
        keeper = _keeper(order, self._attendant, noise, reader, progress)
        self._tended = Tended(keeper, self._attendant)

    async def sync(self, *, walk: bool = True, dry_run: bool = False, diff: bool = False) -> SyncReport:
        """One pass; any of the approved plans may be the one that it comes to."""
        wish = Wish(
            walk=walk,
            dry_run=dry_run or self.order.dry_run,
            diff=diff,
            approved=frozenset(self.order.approved_plans),
        )
        return await self._tended.sync(wish)

    async def verify(self) -> Drift:
        return await self._tended.verify()

    def show_warnings(self, verb: str) -> None:
        """What the last pass met at the gateway and went on all the same."""
        for warning in self._attendant.outcome.warnings if self._attendant is not None else ():
            complain(f"stoker {verb}: warning: {warning}")

    async def aclose(self) -> None:
        await self._tended.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _gateway_of(order: Order) -> tuple[Attending | None, Noise | None]:
    if not order.host:
        return None, None
    from stoker.cli.gateways import attendant_for  # noqa: PLC0415 - files alone need no gateway
    from stoker.ignition.noise import ResourceNoise  # noqa: PLC0415

    return attendant_for(order), ResourceNoise()


def _keeper(
    order: Order,
    attendant: Attending | None,
    noise: Noise | None,
    reader: SourceReader | None,
    progress: Progress | None,
) -> Keeper:
    hooks = () if attendant is None else (attendant,)
    if reader is not None:
        return Keeper(order.job, reader, hooks=hooks, noise=noise, progress=progress)
    access, keys = access_reader(order), keys_reader(order)
    return open_keeper(order.job, access=access, keys=keys, hooks=hooks, noise=noise, progress=progress)
