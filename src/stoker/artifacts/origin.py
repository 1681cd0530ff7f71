"""Opens the artifact origin for an address: `oci://` is a registry, `s3://` is a bucket.

`stoker.git.source.artifact` imports what the origin returns into a mirror.
"""

from __future__ import annotations

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import RepoUrl, without_userinfo
from stoker.engine.artifact_source import ArtifactCredentialsReader, ArtifactOrigin


def open_origin(url: RepoUrl, credentials: ArtifactCredentialsReader) -> ArtifactOrigin:
    """Return the origin without any network access; only the modules of that origin are imported."""
    if url.scheme == "oci":
        from stoker.artifacts.registry import RegistryOrigin  # noqa: PLC0415

        return RegistryOrigin(url, credentials)
    if url.scheme == "s3":
        from stoker.artifacts.bucket import BucketOrigin  # noqa: PLC0415

        return BucketOrigin(url, credentials)
    raise InvalidValue(f"{without_userinfo(url)[:120]} is neither a registry nor a bucket")
