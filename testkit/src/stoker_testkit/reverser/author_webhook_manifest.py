"""The webhook that asks a reverser about authors, as the chart leaves it: where it is, and no rules yet."""

from __future__ import annotations

from typing import Any

from stoker.http_server.tls.ca_bundle import VALIDATING
from stoker.reverser.authors.webhook_registration import WEBHOOK


def without_rules(name: str, url: str) -> dict[str, Any]:
    """The configuration of this name, for a reverser that is not behind a Service."""
    return {
        "apiVersion": VALIDATING.api_version,
        "kind": VALIDATING.kind,
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": WEBHOOK,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "timeoutSeconds": 1,
                "clientConfig": {"url": url},
            }
        ],
    }
