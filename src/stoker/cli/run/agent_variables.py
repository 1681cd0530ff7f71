"""Checks the environment variables of all agents when the controller or the webhook starts.

Without this check a typo would fail in every agent pod, and only after the rollout that introduced it.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.pods.injection import parse_environment


def agent_environment(given: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Parse `NAME=VALUE` of `--agent-env`; raises for values that agents could not parse."""
    from stoker.agent.audit.audit_export import check_export_settings  # noqa: PLC0415 - --help needs none of it
    from stoker.cli.run.options import check_agent_egress  # noqa: PLC0415

    environment = parse_environment(given)
    check_export_settings(dict(environment))
    check_agent_egress(dict(environment))
    return environment
