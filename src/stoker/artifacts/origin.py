"""The place that an address names, ready to be asked."""

from __future__ import annotations

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import RepoUrl, without_userinfo
from stoker.engine.artifact_source import ArtifactCredentialsReader, ArtifactOrigin


def open_origin(url: RepoUrl, credentials: ArtifactCredentialsReader) -> ArtifactOrigin:
    """Talks to nobody yet; each of the two imports only what it needs."""
    if url.scheme == "oci":
        from stoker.artifacts.registry import RegistryOrigin  # noqa: PLC0415

        return RegistryOrigin(url, credentials)
    if url.scheme == "s3":
        from stoker.artifacts.bucket import BucketOrigin  # noqa: PLC0415

        return BucketOrigin(url, credentials)
    raise InvalidValue(f"{without_userinfo(url)[:120]} is neither a registry nor a bucket")
