"""One random history: what people do to the objects of a few namespaces, and what became of each by whom.

All requests of a history follow each other, and every answer says what the object is
now. So the whole life of each object is known: its states, as their files would be, and
who made each of them. That is what `stoker_testkit.reverser.branch_history_check` holds git against.
Every state differs from all before it, because a number is counted up in it.

Strangers write to the same branch meanwhile: files of their own, inside and outside of
the destination's folder, and over files of ours.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stoker.domain.git_objects import blob_of
from stoker.reverser.manifest.path import ManifestKey, manifest_path
from stoker.reverser.manifest.render import render_object
from stoker.reverser.manifest.sanitize import sanitize
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.api_users import MERGE, PEOPLE, Person
from stoker_testkit.reverser.concurrent_pushes import ConcurrentPushers

LABEL = "stoker.test/history"
"""On namespaces and on objects without a namespace: which history they belong to."""
HOLD = "stoker.test/hold"
NAMES = ("blue", "green", "red")
CONFIG_MAPS = ("", "v1", "configmaps")
SECRETS = ("", "v1", "secrets")
DEPLOYMENTS = ("apps", "v1", "deployments")
CLUSTER_ROLES = ("rbac.authorization.k8s.io", "v1", "clusterroles")
KINDS = {
    CONFIG_MAPS: "ConfigMap",
    SECRETS: "Secret",
    DEPLOYMENTS: "Deployment",
    CLUSTER_ROLES: "ClusterRole",
}
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class ObjectState(NamedTuple):
    """One state of an object: the id of its file, none while there is to be no file, and who made it so."""

    blob: str | None
    user: str


@dataclass
class ObjectLife:
    """One name from its first creation on, through all objects that were ever called so."""

    key: ManifestKey
    path: str
    steps: list[ObjectState] = field(default_factory=lambda: [ObjectState(None, "")])
    obj: dict[str, Any] | None = None
    ended_by: str = ""
    """The user who asked for its deletion, while a finalizer holds it."""

    @property
    def url(self) -> str:
        return f"{self.folder}/{self.key.name}"

    @property
    def folder(self) -> str:
        root = f"/apis/{self.key.group}" if self.key.group else "/api"
        where = f"/namespaces/{self.key.namespace}" if self.key.namespace else ""
        return f"{root}/{self.key.version}{where}/{self.key.resource}"

    @property
    def is_free(self) -> bool:
        """Whether it exists and its deletion was not requested."""
        return self.obj is not None and not self.ended_by


class History:
    """One seed: who did what, and what became of it."""

    def __init__(self, seed: int, branch: str, repository: Repository) -> None:
        self.seed = seed
        self.branch = branch
        self.name = f"history-{seed}"
        self.base = f"clusters/{self.name}"
        self.namespaces = (f"{self.name}-a", f"{self.name}-b")
        self.recorded: list[str] = []
        """The recorded steps, in order, for people."""
        self.chance = random.Random(seed)  # noqa: S311 - a history must be the same each time
        self.strangers = ConcurrentPushers(repository, branch, self.base, self.namespaces)
        self._counter = 0
        self.lives: dict[str, ObjectLife] = {}
        for kind in KINDS:
            for namespace in ("",) if kind == CLUSTER_ROLES else self.namespaces:
                for name in NAMES:
                    self._expect(
                        ManifestKey(*kind, namespace, f"{self.name}-{name}" if not namespace else name)
                    )

    def _expect(self, key: ManifestKey) -> None:
        path = manifest_path(key, self.base)
        self.lives[path] = ObjectLife(key, path)

    def blob_of(self, obj: Mapping[str, Any]) -> str | None:
        """The file that the object is to have; none if no rule takes it."""
        if obj["kind"] == "ClusterRole" and obj["metadata"].get("labels", {}).get(LABEL) != self.name:
            return None
        return blob_of(render_object(sanitize(dict(obj))))

    # The people.

    def act(self, people: Mapping[str, Person]) -> None:
        """Let one user make one change."""
        self._counter += 1
        person = people[self.chance.choice(PEOPLE)]
        here = [life for life in self.lives.values() if life.is_free]
        held = [life for life in self.lives.values() if life.ended_by]
        missing = [life for life in self.lives.values() if life.obj is None]
        deed = self.chance.choices(
            (self._create, self._change, self._touch, self._scale, self._label, self._delete, self._release),
            (7 if len(here) < 8 else 2, 9, 2, 3, 2, 3, 1),
        )[0]
        among = {"_create": missing, "_release": held, "_change": here + held}.get(deed.__name__, here)
        if among:
            deed(self.chance.choice(among), person)

    def end(self, people: Mapping[str, Person]) -> None:
        """Release every request that is held up."""
        for life in self.lives.values():
            if life.ended_by:
                self._release(life, people["alice"])

    def push(self) -> None:
        """One thing that a stranger does to the branch."""
        paths = [life.path for life in self.lives.values()]
        self.recorded.append(f"stranger: {self.strangers.act(self.chance, paths)}")

    def _create(self, life: ObjectLife, person: Person) -> None:
        body = self._body(life)
        held = self.chance.random() < 0.15
        if held:
            body["metadata"]["finalizers"] = [HOLD]
        if self.chance.random() < 0.5:
            made = person.send("POST", life.folder, body)
        else:
            made = person.apply(life.url, body)
        self._note(life, person, "creates" + (" with a finalizer" if held else ""), made)

    def _change(self, life: ObjectLife, person: Person) -> None:
        # What is applied without its finalizer may lose it, and with it an object that waits for its end.
        way = self.chance.choice(("puts", "patches", "applies") if life.is_free else ("patches",))
        if way == "puts":
            made = person.send("PUT", life.url, self._renewed(life))
        elif way == "patches":
            made = person.send("PATCH", life.url, self._content(life), MERGE)
        else:
            made = person.apply(life.url, self._body(life))
        self._note(life, person, way, made)

    def _touch(self, life: ObjectLife, person: Person) -> None:
        """A change that is none in git."""
        if life.key[:3] == DEPLOYMENTS and self.chance.random() < 0.5:
            status = {"status": {"observedGeneration": self._counter}}
            made = person.send("PATCH", f"{life.url}/status", status, MERGE)
        else:
            notes = {"annotations": {_APPLIED: f"{self._counter}"}}
            made = person.send("PATCH", life.url, {"metadata": notes}, MERGE)
        self._note(life, person, "touches", made)

    def _scale(self, life: ObjectLife, person: Person) -> None:
        if life.key[:3] != DEPLOYMENTS:
            return
        person.send("PATCH", f"{life.url}/scale", {"spec": {"replicas": self._counter}}, MERGE)
        self._note(life, person, "scales", person.send("GET", life.url))

    def _label(self, life: ObjectLife, person: Person) -> None:
        """Another label; an object without a namespace may leave the selection by it, or come back."""
        labels: dict[str, str | None] = {"turn": str(self._counter)}
        if not life.key.namespace and life.obj is not None:
            labels[LABEL] = None if LABEL in life.obj["metadata"].get("labels", {}) else self.name
        made = person.send("PATCH", life.url, {"metadata": {"labels": labels}}, MERGE)
        self._note(life, person, "labels", made)

    def _delete(self, life: ObjectLife, person: Person) -> None:
        """One, or the whole collection; at times it is made again at once."""
        if life.key.namespace and self.chance.random() < 0.15:
            person.send("DELETE", life.folder)
            for each in self.lives.values():
                if each.folder == life.folder and each.is_free:
                    self._gone(each, person, "deletes with all others")
            return
        person.send("DELETE", life.url)
        self._gone(life, person, "deletes")
        if life.obj is None and self.chance.random() < 0.4:
            self._counter += 1
            self._create(life, person)

    def _gone(self, life: ObjectLife, person: Person, deed: str) -> None:
        if life.obj is not None and life.obj["metadata"].get("finalizers"):
            life.ended_by = person.name
            self.recorded.append(f"{person.name} {deed} {life.key}, which is held")
        else:
            self._note(life, person, deed, None)

    def _release(self, life: ObjectLife, person: Person) -> None:
        person.send("PATCH", life.url, {"metadata": {"finalizers": None}}, MERGE)
        self.recorded.append(f"{person.name} releases {life.key}")
        life.obj = None
        self._remember(life, None, life.ended_by)
        life.ended_by = ""

    def _note(self, life: ObjectLife, person: Person, deed: str, made: dict[str, Any] | None) -> None:
        life.obj = made
        if not life.ended_by:  # what is about to go is not written any more
            self._remember(life, None if made is None else self.blob_of(made), person.name)
        version = made["metadata"]["resourceVersion"] if made is not None else "-"
        now = life.steps[-1].blob or "no file"
        self.recorded.append(f"{self._counter}: {person.name} {deed} {life.key} -> {version} {now[:8]}")

    def _remember(self, life: ObjectLife, blob: str | None, user: str) -> None:
        if life.steps[-1].blob != blob:
            life.steps.append(ObjectState(blob, user))

    # What objects look like.

    def _head(self, life: ObjectLife) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": life.key.name}
        if not life.key.namespace:
            metadata["labels"] = {LABEL: self.name}
        return {"apiVersion": life.key.api_version, "kind": KINDS[life.key[:3]], "metadata": metadata}

    def _body(self, life: ObjectLife) -> dict[str, Any]:
        body = {**self._head(life), **self._content(life)}
        if life.key[:3] == DEPLOYMENTS:
            labels = {"app": life.key.name}
            pod = body["spec"]["template"]
            pod["metadata"] = {"labels": labels}
            body["spec"] |= {"replicas": 1, "selector": {"matchLabels": labels}}
        return body

    def _renewed(self, life: ObjectLife) -> dict[str, Any]:
        """The whole object as it is, but for what changes."""
        content = self._content(life)
        obj = {**(life.obj or {})}
        if life.key[:3] == DEPLOYMENTS:
            template = {**obj["spec"]["template"], **content["spec"]["template"]}
            content = {"spec": {**obj["spec"], "template": template}}
        return {**obj, **content}

    def _content(self, life: ObjectLife) -> dict[str, Any]:
        """The changed fields of an object."""
        count = str(self._counter)
        match life.key[:3]:
            case kind if kind == CONFIG_MAPS:
                return {"data": {"count": count, "filling": "x" * self.chance.randrange(200)}}
            case kind if kind == SECRETS:
                return {"stringData": {"count": count}}
            case kind if kind == CLUSTER_ROLES:
                return {"rules": [{"apiGroups": [""], "resources": [f"things-{count}"], "verbs": ["get"]}]}
        template = {"spec": {"containers": [{"name": "main", "image": f"shop:{count}"}]}}
        return {"spec": {"template": template}}


def all_lives(histories: Sequence[History]) -> dict[str, tuple[History, ObjectLife]]:
    """Every object by the path of its file."""
    return {path: (history, life) for history in histories for path, life in history.lives.items()}
