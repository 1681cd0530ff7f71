"""The words of docs/observability.md beside its names of metrics: of labels, conditions and log lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stoker.agent.sync.jobs import SyncResult as PassResult
from stoker.api.registry import KINDS
from stoker.dashboard.metrics import ActionResult, SignInResult
from stoker.dashboard.view_models import DashboardAction
from stoker.domain.intent.delivery import AlertKind
from stoker.kube.runtime.result import Consequence
from stoker.webhooks.receiver.payloads import WebhookCaller
from stoker.webhooks.receiver.responses import UNKNOWN_CALLER
from stoker.webhooks.receiver.responses import WebhookResult as CallResult

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "observability.md").read_text()

# Words that a label may have, where the code has them as an enumeration.
WORDS = {
    ("ignition_sync_reconcile_total", "result"): Consequence,
    ("ignition_sync_syncs_total", "result"): PassResult,
    ("ignition_sync_webhook_received_total", "source"): (*WebhookCaller, UNKNOWN_CALLER),
    ("ignition_sync_webhook_received_total", "result"): CallResult,
    ("ignition_sync_alerts_total", "kind"): AlertKind,
    ("ignition_sync_dashboard_logins_total", "result"): SignInResult,
    ("ignition_sync_dashboard_orders_total", "kind"): DashboardAction,
    ("ignition_sync_dashboard_orders_total", "result"): ActionResult,
}


@pytest.mark.parametrize(("metric", "label"), WORDS, ids=str)
def test_the_page_has_every_word_of_a_label(metric: str, label: str) -> None:
    row = re.search(rf"^\| `{metric}` \| `{label}` \| (.+) \|$", PAGE, re.MULTILINE)
    assert row, "the table of results has it"
    assert row[1].split(", ") == [str(word) for word in WORDS[metric, label]]


def test_the_page_and_the_reference_know_the_same_conditions_of_each_kind() -> None:
    section = PAGE.partition("\n## Conditions\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([A-Z]\w+) \| ([^|]+) \|", section, re.MULTILINE)
    with_status = [kind for kind in KINDS if kind.conditions]
    for kind in with_status:
        names = {name for name, of in rows if _is_of(kind.name, of)}
        known = {str(name) for name, text in kind.conditions.items() if not text.endswith("reserved.")}
        assert names == known, kind.name


def _is_of(kind: str, kinds: str) -> bool:
    """Whether the page means this kind: `all kinds`, `all kinds but X`, or a list."""
    named = re.findall(r"\b[A-Z]\w+", kinds)
    return kind not in named if kinds.startswith("all kinds") else kind in named


def test_the_page_has_every_log_event_however_its_logger_is_come_by() -> None:
    """The table is made from the syntax tree; this looks at the text, and so at what that may have missed."""
    call = re.compile(
        r'(?<!`)(?:\blog|get_logger\(__name__\))\.(?:debug|info|warning|error|exception)\(\s*"([^"]+)"'
    )
    files = (ROOT / "src" / "stoker").rglob("*.py")
    names = {name for file in files for name in call.findall(file.read_text())}
    assert len(names) > 100
    assert sorted(name for name in names if f"\n| `{name}` | " not in PAGE) == []
