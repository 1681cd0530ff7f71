"""The stored inventory of a gateway: its modules, tag providers and tag types on the data volume.

`stoker.ignition.sync.gateway_filter` asks the gateway and stores the result. A new process, and a sync
that does not call the gateway (`stoker.ignition.sync.files_only`), use the stored inventory: content of
a provider that a module fills is excluded either way. It must never open a connection.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

from stoker.domain.errors import StokerError
from stoker.domain.intent.files import FilesIntent
from stoker.domain.intent.policies import IgnitionPolicy, TagInheritance
from stoker.ignition.content.tags import without_inherited_types, without_providers
from stoker.ignition.sync.state_files import StateFiles

STATE_FILE = "told"
_CONFIG = frozenset({"", ".", "config"})


@dataclass(frozen=True, slots=True)
class StoredInventory:
    """The last known inventory, as far as the files depend on it."""

    modules: frozenset[str] = frozenset()
    """The known modules (`KnownModule`) among its modules, by name."""
    managed: frozenset[str] = frozenset()
    """Tag providers that a module fills by itself."""
    provider: str = ""
    """The tag provider whose parents' types were read; empty if none were."""
    inherited: frozenset[str] = frozenset()

    @classmethod
    def read(cls, marks: StateFiles) -> StoredInventory:
        """Return the stored inventory; empty if there is none or it cannot be read."""
        with suppress(StokerError):  # the sync itself reports a volume that cannot be used
            return cls.parse(marks.read(STATE_FILE))
        return cls()

    @classmethod
    def parse(cls, content: bytes | None) -> StoredInventory:
        """Parse the file; content of any other form counts as empty."""
        try:
            said = json.loads(content or b"{}")
        except (ValueError, RecursionError):
            return cls()
        if not isinstance(said, dict):
            return cls()
        provider = said.get("provider")
        return cls(
            _names(said.get("modules")),
            _names(said.get("managed")),
            provider if isinstance(provider, str) else "",
            _names(said.get("inherited")),
        )

    @property
    def content(self) -> bytes:
        """The form in which it is stored."""
        return json.dumps(
            {
                "modules": sorted(self.modules),
                "managed": sorted(self.managed),
                "provider": self.provider,
                "inherited": sorted(self.inherited),
            }
        ).encode()

    def fitted(self, files: FilesIntent, policy: IgnitionPolicy) -> FilesIntent:
        """Return the files without content that the gateway gets elsewhere."""
        if not may_hold_tags(files):
            return files
        files = without_providers(files, self.managed)
        if policy.tag_inheritance is TagInheritance.LEAF_ONLY and self.provider == policy.tag_provider:
            files = without_inherited_types(files, self.provider, self.inherited)
        return files


def may_hold_tags(files: FilesIntent) -> bool:
    """Return whether any file may go to the gateway's configuration; projects need no inventory."""
    tops = (mapping.destination.strip("/").partition("/")[0] for mapping in files.mappings)
    return any(top in _CONFIG or "{{" in top for top in tops)


def _names(listed: object) -> frozenset[str]:
    return (
        frozenset(name for name in listed if isinstance(name, str))
        if isinstance(listed, list)
        else frozenset()
    )
