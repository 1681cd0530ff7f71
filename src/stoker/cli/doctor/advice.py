"""How to fix what is wrong in a cluster: a command to run, or a sentence.

Covers only what follows from the reason alone; a check that knows more gives its own advice.
"""

from __future__ import annotations

from stoker.domain.errors import StokerError
from stoker.domain.intent.source import GitAuthKind, GitAuthPolicy
from stoker.domain.reasons import Reason
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.doctor.advice import advice_for as mend_for_gateway

INSTALL = "helm upgrade --install stoker charts/stoker --namespace stoker-system --create-namespace"

_ADVICE = {
    Reason.UNREACHABLE: (
        "Check the address in the kubeconfig, VPN and proxy: `kubectl version` must work from here. "
        "--kubeconfig and --context name another cluster."
    ),
    Reason.UNAUTHORIZED: "Log in to the cluster again; `kubectl auth whoami` must name you.",
    Reason.API_SERVER_ERROR: "Run this again; if it fails again, see `kubectl get --raw /readyz?verbose`.",
    Reason.MISCONFIGURED: "Name a kubeconfig with --kubeconfig, or its context with --context.",
    Reason.SOURCE_AUTH_FAILED: (
        "Put a login that may read the repository into that Secret; it is read again automatically, no "
        "restart is needed."
    ),
    Reason.HOST_KEY_NOT_TRUSTED: (
        "Compare the server's keys (`ssh-keyscan HOST`) with what its owner publishes, and put them into the "
        "Secret of spec.git.auth.sshKey.knownHostsSecretRef."
    ),
    Reason.SOURCE_UNREACHABLE: "Check spec.git.repo, and DNS, proxy and firewall between it and the cluster.",
    Reason.REF_NOT_FOUND: "Push that branch or tag, or correct spec.git.ref.",
    Reason.REF_AMBIGUOUS: "Write the whole commit id into spec.git.ref.",
    Reason.INVALID_SPEC: "Correct the named field; `kubectl explain` documents it.",
    Reason.BASE_NOT_FOUND: "Create that IgnitionSyncBase, or remove spec.inheritsFrom.",
    Reason.BASE_NOT_ALLOWED: (
        "Correct spec.inheritsFrom, or add the namespace to the annotation allowed-namespaces of the base."
    ),
}


def advice_for(reason: Reason) -> str:
    return _ADVICE.get(reason, "")


def troubleshooting_hint(reason: Reason) -> str:
    """The fallback if there is no better advice."""
    return f"docs/troubleshooting.md explains {reason}."


def login_advice(reason: Reason, auth: GitAuthPolicy) -> str:
    """Advice for a login that a repository or its forge refused; empty if the login is not the cause."""
    if reason not in (Reason.SOURCE_AUTH_FAILED, Reason.INVALID_VALUE) or auth.secret is None:
        return ""
    where = f"key {auth.secret.key!r} of Secret {auth.secret.name!r}"
    if auth.kind is GitAuthKind.GITHUB_APP:
        return (
            "Compare appId and installationId with the app's pages on GitHub, see that it is installed for "
            f"this repository and may read it, and put a private key that was made there into {where}."
        )
    if reason is Reason.INVALID_VALUE:
        return f"Check {where}: it must hold the credentials that spec.git.auth describes, and nothing else."
    return ""


def gateway_advice(reason: Reason, message: str, *, key: str, tls: bool) -> str:
    """Advice for an agent's error at its gateway; `key` names where the API key is stored."""
    if reason is Reason.TOKEN_MALFORMED:
        return api_key_advice(key)
    if reason is Reason.CERTIFICATE_NOT_TRUSTED:
        return "Put the authority that signed it into a Secret and name that in spec.gateway.caSecretRef."
    address = GatewayAddress("localhost", 8043 if tls else 8088, tls=tls)
    return mend_for_gateway(StokerError(message, reason=reason), address) or advice_for(reason)


def api_key_advice(where: str) -> str:
    return (
        f"{where} must hold the whole line that the gateway showed when the key was made, NAME:SECRET, and "
        "nothing else. It is shown only once; on the gateway's web page, Platform > Security > API Keys, you "
        "can make a new one."
    )
