"""A keeper for an order: the login, the keys, the gateway and the progress bar wired to it.

The one place in which the command line meets the agent's pass. Verbs ask a `Kept`
for a pass, a plan or the drift, and get values back.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from stoker.agent.jobs import Wish
from stoker.agent.keeping import Keeper, verify
from stoker.agent.opening import open_keeper
from stoker.agent.outcomes import Outcome
from stoker.cli.logins import access_reader, keys_reader
from stoker.cli.orders import Order

if TYPE_CHECKING:
    from stoker.cli.gateways import GatewayHook
    from stoker.engine.drifting import Drift
    from stoker.engine.sources import SourceReader

Progress = Callable[[str, int, int], None]


class Kept:
    """One data folder with everything that a pass over it needs."""

    def __init__(
        self, order: Order, *, reader: SourceReader | None = None, progress: Progress | None = None
    ) -> None:
        self.order = order
        self._hook = _hook(order)
        self._keeper = _keeper(order, self._hook, reader, progress)

    async def sync(self, *, walk: bool = True, dry_run: bool = False, diff: bool = False) -> Outcome:
        """One pass; any of the approved plans may be the one that it comes to."""
        wish = Wish(
            walk=walk,
            dry_run=dry_run or self.order.dry_run,
            diff=diff,
            approved=frozenset(self.order.approved_plans),
        )
        report = await self._keeper.sync(wish)
        if self._hook is None or report.applied is None:
            return Outcome(report, report.unverified)
        await self._hook.finish(report.done)
        return Outcome(report, tuple(dict.fromkeys((*report.unverified, *self._hook.notes))))

    async def verify(self) -> Drift:
        return (await verify(self.order.job.data_dir)).drift

    async def aclose(self) -> None:
        if self._hook is not None:
            await self._hook.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _hook(order: Order) -> GatewayHook | None:
    if not order.host:
        return None
    from stoker.cli.gateways import gateway_hook  # noqa: PLC0415 - files alone need no gateway

    return gateway_hook(order)


def _keeper(
    order: Order, hook: GatewayHook | None, reader: SourceReader | None, progress: Progress | None
) -> Keeper:
    hooks = () if hook is None else (hook,)
    if reader is not None:
        return Keeper(order.job, reader, hooks=hooks, progress=progress)
    access, keys = access_reader(order), keys_reader(order)
    return open_keeper(order.job, access=access, keys=keys, hooks=hooks, progress=progress)
