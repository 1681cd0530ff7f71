"""OCI manifests, without a registry."""

from __future__ import annotations

import json

import pytest

from stoker.artifacts.errors import ArtifactRefused, ArtifactTooLarge
from stoker.artifacts.limits import ArtifactLimits
from stoker.artifacts.oci_manifest import LayerKind, choose_manifest, manifest_layers, parse_manifest
from stoker_testkit.services.oci_artifacts import (
    FLUX_CONTENT,
    Layer,
    PublishedArtifact,
    flux,
    index,
    made_of,
    oras,
    oras_folder,
)

TITLE = "artifact oci://plant/site"


def kinds(published: PublishedArtifact) -> list[LayerKind]:
    return [
        kind
        for kind, _ in manifest_layers(parse_manifest(published.manifest, TITLE), TITLE, ArtifactLimits())
    ]


def test_layers_are_taken_as_their_publishers_mean_them() -> None:
    assert kinds(flux({"a": "1"})) == [LayerKind.ARCHIVE]
    assert kinds(oras({"a": "1", "b": "2"})) == [LayerKind.FILE, LayerKind.FILE]
    assert kinds(oras_folder("site", {"a": "1"})) == [LayerKind.ARCHIVE]


@pytest.mark.parametrize(
    "media_type",
    [
        FLUX_CONTENT,
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/x-tar",
        "application/tar+gzip",
    ],
)
def test_archives_are_known_by_their_media_type(media_type: str) -> None:
    assert kinds(made_of(Layer(b"1", media_type))) == [LayerKind.ARCHIVE]


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/guitar", "", "application/vnd.tar.json"]
)
def test_other_layers_without_a_title_are_refused_by_their_media_type(media_type: str) -> None:
    with pytest.raises(ArtifactRefused) as refused:
        kinds(made_of(Layer(b"1", media_type)))
    assert repr(media_type) in refused.value.message


def test_an_index_is_taken_for_its_only_manifest() -> None:
    inner = flux({"a": "1"})
    assert (
        choose_manifest(
            parse_manifest(index(inner, attested=True).manifest, TITLE), TITLE, ArtifactLimits()
        ).digest
        == inner.digest
    )
    for members in ((), (inner, flux({"a": "2"}))):
        with pytest.raises(ArtifactRefused, match=f"index of {len(members)} manifests"):
            choose_manifest(parse_manifest(index(*members).manifest, TITLE), TITLE, ArtifactLimits())


def test_what_is_no_manifest_is_refused() -> None:
    good = json.loads(flux({"a": "1"}).manifest)
    bad = [
        b"",
        b"[" * 100_000,
        b"\xff\xfe",
        b"[]",
        json.dumps({**good, "schemaVersion": 1}).encode(),
        json.dumps({**good, "layers": None}).encode(),
        json.dumps({**good, "manifests": []}).encode(),
        json.dumps({**good, "layers": [{"mediaType": FLUX_CONTENT}]}).encode(),
        json.dumps({**good, "layers": [{**good["layers"][0], "size": "many"}]}).encode(),
    ]
    for content in bad:
        with pytest.raises(ArtifactRefused):
            parse_manifest(content, TITLE)


@pytest.mark.parametrize(
    "digest", ["sha256:../../etc/passwd", "md5:00", "sha256:" + "G" * 64, "sha256:" + "0" * 63]
)
def test_a_digest_that_is_none_never_becomes_part_of_an_address(digest: str) -> None:
    good = json.loads(flux({"a": "1"}).manifest)
    good["layers"][0]["digest"] = digest
    with pytest.raises(ArtifactRefused, match="digest"):
        manifest_layers(parse_manifest(json.dumps(good).encode(), TITLE), TITLE, ArtifactLimits())


def test_sizes_and_numbers_of_layers_are_bounded_by_what_they_say() -> None:
    with pytest.raises(ArtifactTooLarge, match="2 layers"):
        manifest_layers(
            parse_manifest(oras({"a": "1", "b": "2", "c": "3"}).manifest, TITLE),
            TITLE,
            ArtifactLimits(layers=2),
        )
    with pytest.raises(ArtifactTooLarge, match="10 bytes"):
        manifest_layers(
            parse_manifest(oras({"a": "1" * 11}).manifest, TITLE), TITLE, ArtifactLimits(packed=10)
        )
    with pytest.raises(ArtifactRefused, match="no layer"):
        manifest_layers(parse_manifest(made_of().manifest, TITLE), TITLE, ArtifactLimits())


def test_the_time_is_the_publishers_or_none() -> None:
    assert (
        parse_manifest(flux({"a": "1"}, created="2026-01-01T00:00:00Z").manifest, TITLE).made_at == 1767225600
    )
    for other in ("yesterday", "", "9999-12-31T00:00:00", "0001-01-01T00:00:00Z", "1960-01-01T00:00:00Z"):
        assert parse_manifest(flux({"a": "1"}, created=other).manifest, TITLE).made_at == 0
