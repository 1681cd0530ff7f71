"""What is inside an image, as SPDX 2.3: each Debian package and each distribution of Python.

The Debian side comes from the lock file, the Python side from what lies in the root
filesystem, so nothing is listed that is not there. Same image, same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.parser import HeaderParser
from typing import Any, NamedTuple
from urllib.parse import quote

from stoker_image.archives import LICENCE, Identity
from stoker_image.debs import Package
from stoker_image.trees import Tree
from stoker_image.wheels import PLACE

_UNKNOWN = "NOASSERTION"
_METADATA = re.compile(re.escape(PLACE) + r"/[^/]+\.dist-info/METADATA")
_LICENCE = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*")


class Distribution(NamedTuple):
    name: str
    version: str
    licence: str


def distributions(tree: Tree) -> Iterator[Distribution]:
    """The distributions of Python in a root filesystem."""
    for path, node in tree:
        if _METADATA.fullmatch(path):
            fields = HeaderParser().parsestr(node.content.decode())
            licence = fields.get("License-Expression", "")
            known = licence if _LICENCE.fullmatch(licence) else _UNKNOWN
            yield Distribution(fields["Name"], fields["Version"], known)


def bill(digest: str, identity: Identity, debs: Iterable[Package], found: Iterable[Distribution]) -> bytes:
    """The document."""
    image = _image(digest, identity)
    inside = [_deb(package) for package in debs] + [_distribution(one) for one in found]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", image["SPDXID"])]
    relations += [(image["SPDXID"], "CONTAINS", package["SPDXID"]) for package in inside]
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"stoker-{identity.version}-{identity.architecture}",
        "documentNamespace": f"https://spdx.org/spdxdocs/stoker-{digest.removeprefix('sha256:')}",
        "creationInfo": {
            "created": datetime.fromtimestamp(identity.when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: stoker_image"],
        },
        "packages": [image, *inside],
        "relationships": [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
            for one, kind, other in relations
        ],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _image(digest: str, identity: Identity) -> dict[str, Any]:
    return {
        **_package("SPDXRef-image", "stoker", identity.version, LICENCE),
        "primaryPackagePurpose": "CONTAINER",
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest.removeprefix("sha256:")}],
        "externalRefs": _purl(f"pkg:oci/stoker@{quote(digest, safe='')}?arch={identity.architecture}"),
    }


def _deb(package: Package) -> dict[str, Any]:
    version = quote(package.version, safe="")
    where = f"arch={package.architecture}&distro=debian-12"
    return {
        **_package(f"SPDXRef-deb-{_word(package.name)}", package.name, package.version, _UNKNOWN),
        "supplier": "Organization: Debian",
        "sourceInfo": f"built from Debian's source package {package.source}",
        "checksums": [{"algorithm": "SHA256", "checksumValue": package.sha256}],
        "externalRefs": _purl(f"pkg:deb/debian/{quote(package.name, safe='')}@{version}?{where}"),
    }


def _distribution(one: Distribution) -> dict[str, Any]:
    name = re.sub(r"[-_.]+", "-", one.name).lower()
    return {
        **_package(f"SPDXRef-pypi-{_word(name)}", name, one.version, one.licence),
        "externalRefs": _purl(f"pkg:pypi/{name}@{one.version}"),
    }


def _package(reference: str, name: str, version: str, licence: str) -> dict[str, Any]:
    return {
        "SPDXID": reference,
        "name": name,
        "versionInfo": version,
        "downloadLocation": _UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": _UNKNOWN,
        "licenseDeclared": licence,
        "copyrightText": _UNKNOWN,
    }


def _purl(locator: str) -> list[dict[str, str]]:
    return [
        {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator},
    ]


def _word(name: str) -> str:
    """As SPDX wants an identifier: letters, digits, dots and hyphens."""
    return re.sub(r"[^A-Za-z0-9.-]", "-", name)
