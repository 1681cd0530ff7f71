"""Credentials and trusted signing keys of a sync request, read from files at each use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.agent.sync import credentials
from stoker.cli.sync.sync_request import SyncRequest

if TYPE_CHECKING:
    from stoker.git.auth.credentials import RepoAccessReader
    from stoker.git.signature.policy import TrustedKeysReader


def access_reader(order: SyncRequest, *, pushes: bool = False) -> RepoAccessReader:
    """Return a reader of the request's login files, called at each git operation; `pushes`: also to write."""
    return credentials.access_reader(
        order.job.source,
        order.secrets,
        username=order.username,
        require_known_hosts=order.require_known_hosts,
        pushes=pushes,
    )


def keys_reader(order: SyncRequest) -> TrustedKeysReader:
    """Return a reader of the trusted signing keys, called at each use."""
    return credentials.keys_reader(order.job.source, order.secrets)
