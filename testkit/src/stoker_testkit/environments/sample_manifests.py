"""A Stoker and its profile as people write them into a file, for verbs that take `-f`."""

from __future__ import annotations

COPIES = "snapshots: {enabled: true, storage: {type: pvc, pvc: {claimName: copies}}}"
"""A line of its spec: copies before each sync, in the data folder where there is no cluster."""


def line_manifests(
    repo: str, *lines: str, name: str = "line", profile: str = "line", destination: str = "projects"
) -> str:
    """Folder `s` of the branch main goes to `destination`; `lines` are further ones of the Stoker's spec."""
    more = "".join(f"  {line}\n" for line in lines)
    return f"""\
apiVersion: stoker.io/v1alpha1
kind: Stoker
metadata: {{name: {name}}}
spec:
  git: {{repo: "{repo}", ref: main}}
  gateway: {{filesOnly: true}}
{more}---
apiVersion: stoker.io/v1alpha1
kind: SyncProfile
metadata: {{name: {profile}}}
spec:
  mappings: [{{source: s, destination: {destination}, required: true}}]
"""
