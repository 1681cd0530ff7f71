"""Names on pages that cannot run here, each with the reason; an entry that no page uses is an error.

Programs of others (`ELSEWHERE`), and manifests and files of others (`FOREIGN`, with where their
shape is known from). The tests know these pages no better than their reader, so both lists
stay short.
"""

from __future__ import annotations

from fnmatch import fnmatch

ELSEWHERE = {
    "./install.sh": "is in the offline bundle; tests/integration/packaging/test_offline_bundle.py runs it",
    "aws": "asks a cloud's servers",
    "cosign": "asks the transparency log of sigstore",
    "ctr": "asks the containerd of a node; make e2e imports the image so",
    "docker": "needs a Docker daemon",
    "flux": "pushes to a registry; tests/integration/artifacts/test_registry.py makes what it makes",
    "gh": "asks GitHub",
    "journalctl": "needs systemd",
    "oras": "pushes to a registry; tests/integration/artifacts/test_registry.py makes what it makes",
    "skopeo": "pushes to a registry",
    "systemctl": "needs systemd; tests/unit/deploy/test_systemd_and_compose.py reads the unit",
    "uv": "installs for the user; tests/integration/packaging/test_install.py does it in a folder",
}

FOREIGN = {
    ".github/workflows/*": "GitHub Actions, the syntax of a workflow",
    "Datadog, an annotation of the pod": "Datadog's autodiscovery of logs",
    "GatewaySync": "the Go operator whose resources stoker migrate takes over",
    "Kargo, a step of a Stage": "Kargo, promotion step http",
    "Stage": "Kargo, kargo.akuity.io/v1alpha1; no registry hands out its module",
    "Warehouse": "Kargo, kargo.akuity.io/v1alpha1; no registry hands out its module",
    "auditbeat.yml": "Auditbeat, module file_integrity",
    "falco_rules.yaml": "Falco, rules",
    "filebeat.yml": "Filebeat, input filestream with the parsers container and ndjson",
    "prometheus.yml": "Prometheus, scrape_configs",
    "values of the ignition chart": "Inductive Automation's chart, gateway.podAnnotations",
    "values of the site's chart": "a chart of the reader's own",
}

# fmt: off
UNIX = frozenset({
    "awk", "base64", "cat", "cd", "chmod", "chown", "cp", "curl", "cut", "date", "diff", "echo", "env",
    "export", "false", "find", "head", "id", "install", "jq", "kill", "ln", "ls", "mkdir", "mktemp",
    "mv", "openssl", "pip", "printf", "pwd", "python3", "rm", "sed", "set", "sleep", "sort",
    "ssh-keygen", "ssh-keyscan", "sudo", "tail", "tar", "tee", "test", "touch", "tr", "true", "unset",
    "wait", "wc", "xargs"
})
# fmt: on
"""Programs of any machine, whose flags are not looked at."""


def foreign_key(name: str) -> str | None:
    """The entry of FOREIGN that a name fits; kinds in any spelling that kubectl takes."""
    return next((key for key in FOREIGN if fnmatch(name, key) or name.lower() == key.lower()), None)
