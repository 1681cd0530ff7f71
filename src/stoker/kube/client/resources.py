"""The REST address of a kind: group, version, plural, kind, and whether it is namespaced.

Every verb of the client takes an `ApiResource`; discovery creates them from what the server serves, and those
that this product always needs are below. Paths are built here and nowhere else, so that a name from outside
can fill a segment of a path but never change its structure.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

from stoker.domain.errors import InvalidValue

# Unreserved in a path and common in names of RBAC objects ("system:node"); all else is escaped.
_UNESCAPED = ":@"
_MAX_SEGMENT_LENGTH = 1024


@dataclass(frozen=True, slots=True)
class ApiResource:
    """One REST resource, as `kubectl api-resources` lists it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    def __str__(self) -> str:
        """Return the name that the server itself uses: `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Return the path of the collection, of one object or of its subresource; already escaped."""
        root = ["apis", self.group] if self.group else ["api"]
        segments = [*root, self.version]
        if namespace:
            if not self.namespaced:
                raise InvalidValue(f"{self} has no namespaces, yet namespace {namespace!r} was named")
            segments += ["namespaces", namespace]
        elif self.namespaced and name is not None:
            raise InvalidValue(f"{self} {name!r} lives in a namespace, yet none was named")
        segments.append(self.plural)
        if name is not None:
            segments.append(name)
        if subresource is not None:
            if name is None:
                raise InvalidValue(f"the subresource {subresource!r} of {self} needs the name of an object")
            segments.append(subresource)
        return "".join(f"/{_escape_segment(each)}" for each in segments)

    def words(
        self,
        verb: str,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
    ) -> str:
        """Describe a request for errors: `replace stokers.stoker.io/status shop/prices`."""
        kind = f"{self}/{subresource}" if subresource else str(self)
        if name is None:
            return f"{verb} {kind} in {namespace}" if namespace else f"{verb} {kind}"
        return f"{verb} {kind} {namespace}/{name}" if namespace else f"{verb} {kind} {name}"


def check_path(path: str) -> None:
    """Refuse an escaped path with `..`, a query, or a character that must be escaped."""
    plain = path.isascii() and path.isprintable() and not set(path) & set(" ?#\\")
    dots = any(unquote(each) in {".", ".."} for each in path.split("/"))
    if not plain or dots or not path.startswith("/"):
        raise InvalidValue(f"{path[:80]!r} is not a path of the API")


def _escape_segment(text: str) -> str:
    """Escape one segment; refuse text that a proxy or the server could read as none or several segments."""
    if not text or text in {".", ".."} or "/" in text or len(text) > _MAX_SEGMENT_LENGTH:
        raise InvalidValue(f"{text[:80]!r} cannot be part of a path of the API")
    try:
        return quote(text, safe=_UNESCAPED)
    except UnicodeEncodeError:
        raise InvalidValue(f"{text[:80]!r} is not text that can be sent") from None


CONFIG_MAPS = ApiResource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRETS = ApiResource("", "v1", "secrets", "Secret", namespaced=True)
PODS = ApiResource("", "v1", "pods", "Pod", namespaced=True)
EVENTS = ApiResource("", "v1", "events", "Event", namespaced=True)
NAMESPACES = ApiResource("", "v1", "namespaces", "Namespace", namespaced=False)
CLAIMS = ApiResource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
DEPLOYMENTS = ApiResource("apps", "v1", "deployments", "Deployment", namespaced=True)
ROLES = ApiResource("rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced=True)
ROLE_BINDINGS = ApiResource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True)
STORAGE_CLASSES = ApiResource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
LEASES = ApiResource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
CRDS = ApiResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
