"""Variables that every agent gets, judged at the start of whoever hands them out.

A typo that only agents find out would be told in a thousand pods, and by then the rollout
that brought it is over.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.injection import parse_environment


def agent_environment(given: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """`NAME=VALUE` of `--agent-env`, refused here if agents could make nothing of it."""
    from stoker.agent.audit.audit_export import check_export_settings  # noqa: PLC0415 - --help needs none of it
    from stoker.cli.run.options import check_agent_egress  # noqa: PLC0415

    environment = parse_environment(given)
    check_export_settings(dict(environment))
    check_agent_egress(dict(environment))
    return environment
