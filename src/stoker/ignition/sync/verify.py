"""Verification after a scan: whether the gateway lists the content of its data folder.

A scan's 200 only means that the request was accepted. While a gateway reports a running scan, its lists
hold the old state and prove nothing; the absence of such a report proves nothing either. So the
verifier waits for the end of the scan, then compares the projects and tag providers on disk with the
lists until they agree or the time is up. Removed content must be gone from the lists. A module that
is quarantined after a change is reported. It only reads; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.git_objects import PathNote
from stoker.ignition.client.gateway import GatewayClient
from stoker.ignition.client.responses import PathNotOffered
from stoker.ignition.content.projects import (
    PROJECTS,
    project_and_provider_names,
    project_folders,
    tag_provider_folders,
)
from stoker.ignition.sync.pending_work import PendingWork

VERIFY_SECONDS = 10.0
VERIFY_INTERVAL = 0.25
SCAN_INTERVAL = 0.05


class GatewayFailure(StrEnum):
    """The step that a running gateway failed to do with its files."""

    SCAN = "scan"
    """It refused the request to read them."""
    PROJECT = "project"
    CONFIG = "config"


GatewayFailures = Mapping[str, tuple[GatewayFailure, str]]
"""By path, with a message."""


class VerifyResult(NamedTuple):
    """Content that is not listed, and content that could not be checked."""

    notes: tuple[PathNote, ...] = ()
    warnings: tuple[str, ...] = ()
    failures: GatewayFailures = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _ExpectedContent:
    """The content that must be listed, each name with its folder, and the content that must not."""

    projects: dict[str, str]
    providers: dict[str, str]
    projects_gone: frozenset[str]
    providers_gone: frozenset[str]

    @classmethod
    def of(cls, data_dir: Path, debt: PendingWork) -> _ExpectedContent:
        projects, providers = project_folders(data_dir), dict(tag_provider_folders(data_dir))
        projects_gone, providers_gone = project_and_provider_names(debt.gone)
        return cls(
            {name: f"{PROJECTS}/{name}" for name in projects},
            providers,
            projects_gone - projects,
            providers_gone - providers.keys(),
        )

    @property
    def asks_for_providers(self) -> bool:
        return bool(self.providers or self.providers_gone)


class GatewayVerifier:
    """Compares one gateway's lists with its data folder."""

    def __init__(self, gateway: GatewayClient, data_dir: Path, clock: Clock) -> None:
        self._gateway = gateway
        self._data_dir = data_dir
        self._clock = clock

    async def read_back(self, debt: PendingWork, seconds: float = VERIFY_SECONDS) -> VerifyResult:
        """Poll until the gateway lists the folder's content, or time is up; 0 seconds mean one check."""
        wanted = _ExpectedContent.of(self._data_dir, debt)
        deadline = self._clock.monotonic() + seconds
        await self._scanned(deadline)
        while True:
            found = await self._look(wanted)
            if not found.notes or self._clock.monotonic() >= deadline:
                break
            await self._clock.sleep(VERIFY_INTERVAL)
        sick, unsaid = await self._put_aside(debt)
        return VerifyResult(
            (*found.notes, *sick),
            (*found.warnings, *unsaid),
            {**found.failures, **_note_failures(GatewayFailure.CONFIG, sick)},
        )

    async def _scanned(self, deadline: float) -> None:
        """Wait for a running scan to end; if the gateway cannot be asked, verify anyway."""
        pause = SCAN_INTERVAL
        with suppress(StokerError):
            while self._clock.monotonic() < deadline and await self._gateway.scans():
                await self._clock.sleep(pause)
                pause = min(2 * pause, VERIFY_INTERVAL)

    async def _look(self, wanted: _ExpectedContent) -> VerifyResult:
        shown = await self._gateway.project_names()
        notes = tuple(_differences(wanted.projects, wanted.projects_gone, shown, PROJECTS))
        failures = _note_failures(GatewayFailure.PROJECT, notes)
        if not wanted.asks_for_providers:
            return VerifyResult(notes, (), failures)
        try:
            shown = await self._gateway.tag_providers()
        except PathNotOffered:
            unsaid = "tag providers were not verified: this gateway does not list them"
            return VerifyResult(notes, (unsaid,), failures)
        more = tuple(_differences(wanted.providers, wanted.providers_gone, shown, "tag provider"))
        return VerifyResult((*notes, *more), (), {**failures, **_note_failures(GatewayFailure.CONFIG, more)})

    async def _put_aside(self, debt: PendingWork) -> tuple[tuple[PathNote, ...], tuple[str, ...]]:
        """Return modules that are quarantined now and were not before the change."""
        if debt.quarantined is None:
            return (), ()
        health = await self._gateway.modules()
        if health is None:
            return (), ("modules were not verified: this gateway does not list them",)
        new = {name: why for name, why in health.quarantined.items() if name not in debt.quarantined}
        return tuple(
            PathNote(f"module {name}", ": ".join(filter(None, ("the gateway has put it aside", why))))
            for name, why in sorted(new.items())
        ), ()


def _note_failures(kind: GatewayFailure, notes: Iterable[PathNote]) -> dict[str, tuple[GatewayFailure, str]]:
    return {note.path: (kind, note.why) for note in notes}


def _differences(
    wanted: dict[str, str], gone: frozenset[str], shown: frozenset[str], kind: str
) -> Iterator[PathNote]:
    for name in sorted(wanted.keys() - shown):
        yield PathNote(wanted[name], "the gateway does not show it after the scan")
    for name in sorted(gone & shown):
        place = f"{kind}/{name}" if kind == PROJECTS else f"{kind} {name}"
        yield PathNote(place, "the gateway still shows it after the scan")
