"""The name of the branch on which a gateway's changes are proposed. Pure.

Each gateway has its own branch, or the changes of one gateway would wait for the review of another's. If the
template does not contain the gateway, its name is appended. The followed ref itself is written only if the
template names it literally and no pull request is wanted.
"""

from __future__ import annotations

import hashlib
import re

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.intent import GatewayIntent
from stoker.domain.intent.policies import BidirectionalPolicy
from stoker.domain.refs import GitRef
from stoker.engine.transform.template_language import render_path, template

_HEADS = "refs/heads/"
_NAMES_GATEWAY = frozenset({"GatewayName", "PodName"})
_INVALID_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")


def branch_for(intent: GatewayIntent, policy: BidirectionalPolicy, followed: GitRef) -> str:
    """Return the branch without `refs/heads/`; raise if the template gives no valid branch."""
    compiled = template(policy.target_branch)
    short = followed.removeprefix(_HEADS)
    if is_direct(policy, followed):
        return short
    values = intent.values
    safe = values._replace(
        gateway_name=_branch_part(values.gateway_name or intent.gateway),
        namespace=_branch_part(values.namespace or intent.resource.namespace),
        pod_name=_branch_part(values.pod_name) if values.pod_name else None,
        ref=short,
        commit=None,  # otherwise each commit would have a branch of its own
    )
    name = render_path(policy.target_branch, safe)
    if not compiled.names & _NAMES_GATEWAY:
        name = f"{name}/{_branch_part(intent.gateway)}"
    branch = str(GitRef(name)).removeprefix(_HEADS)
    if branch.startswith("refs/") or branch == "HEAD":
        raise InvalidValue(f"bidirectional.targetBranch gives {branch!r}, which is not a valid branch name")
    if branch == short:
        raise InvalidValue(
            f"bidirectional.targetBranch gives {branch!r}, which is the ref that is followed; "
            "name another, or write exactly that and set createPR to false"
        )
    return branch


def is_direct(policy: BidirectionalPolicy, followed: GitRef) -> bool:
    """Whether changes go to the followed branch itself."""
    return not policy.create_pr and policy.target_branch.removeprefix(_HEADS) == followed.removeprefix(_HEADS)


def _branch_part(name: str) -> str:
    """Make a pod's name part of a branch name; two different names never give the same part."""
    fit = _INVALID_CHARACTERS.sub("-", name).replace("..", "-").strip(".-")[:100].removesuffix(".lock")
    if fit == name:
        return fit
    return f"{fit or 'gateway'}-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"
