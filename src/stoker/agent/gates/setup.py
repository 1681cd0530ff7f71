"""Builds the validation and diff hooks of one gateway from its resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.agent.audit.diff_files import DiffFiles
from stoker.agent.gates.validation_webhook import ValidationHook
from stoker.agent.sync.jobs import GatewayRef

if TYPE_CHECKING:
    from pathlib import Path

    from stoker.agent.sync.hooks import SyncHook
    from stoker.domain.clock import Clock
    from stoker.domain.intent.policies import ValidationPolicy


def gates_for(
    validation: ValidationPolicy, data_dir: Path, gateway: GatewayRef, clock: Clock
) -> tuple[SyncHook, ...]:
    """Return the hooks that run first around a change: one that may refuse it, and one that records it."""
    asking = (ValidationHook(validation, gateway),) if validation.webhook_url else ()
    return (*asking, DiffFiles(data_dir, gateway, clock))
