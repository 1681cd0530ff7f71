"""Others who push to the branch that a reverser writes to.

They add files of their own, beside the destination's folder and inside of it, some where
an object's file could be, and at times they change or delete a file that is the
reverser's. None of their pushes loses a commit of another client.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from collections.abc import Sequence

from stoker_testkit.repositories.bare_repository import Files, GitCommandFailed, Repository
from stoker_testkit.wait_until import eventually

AUTHOR = "A Stranger <stranger@example.test>"
_NO_COMMIT = "0" * 40


class ConcurrentPushers:
    """Those of one branch, as far as one destination is concerned."""

    def __init__(self, repository: Repository, branch: str, base: str, namespaces: Sequence[str]) -> None:
        self.files: dict[str, bytes] = {}
        """Their files, as they have to be in the end."""
        self.overwritten: dict[str, bytes] = {}
        """Their files at the path of an object's file; they are no manifests, so no orphans to delete."""
        self._repository = repository
        self._branch = branch
        self._counter = 0
        slug = base.replace("/", "-")
        here = namespaces[0]
        self._places = (
            f"README-{slug}.md",
            f"docs/{slug}/core/v1/configmaps/{here}/blue.yaml",
            f"{base}/README.md",
            f"{base}/kustomization.yaml",
            f"{base}/notes/core/v1/configmaps/{here}/blue.yaml",
            f"{base}/.configbutler/notes.yaml",
            # Beside our files, and called so that no object's file would be.
            f"{base}/core/v1/configmaps/{here}/blue.yml",
            f"{base}/core/v1/configmaps/{here}/Blue.yaml",
            f"{base}/core/v1/configmaps/{here}/blue/more.yaml",
            # Where an object's file would be, of a kind and of a namespace that no rule names.
            f"{base}/core/v1/services/{here}/blue.yaml",
            f"{base}/core/v1/configmaps/somewhere/blue.yaml",
            f"{base}/apps/v1beta1/deployments/{here}/blue.yaml",
        )

    def act(self, chance: random.Random, ours: Sequence[str]) -> str:
        """One push; what it was, in words."""
        self._counter += 1
        text = f"stranger: {self._counter}\n".encode()
        if chance.random() < 0.4:
            path = chance.choice(ours)
            gone = chance.random() < 0.4
            self._push({path: None if gone else text})
            self.overwritten.pop(path, None)
            if not gone:
                self.overwritten[path] = text
            return f"{'deletes' if gone else 'overwrites'} {path}, which is not theirs"
        paths = sorted({chance.choice(self._places) for _ in range(chance.randrange(1, 3))})
        if chance.random() < 0.15 and paths[0] in self.files:
            del self.files[paths[0]]
            self._push({paths[0]: None})
            return f"deletes {paths[0]}"
        self.files |= dict.fromkeys(paths, text)
        self._push(dict.fromkeys(paths, text))
        return f"writes {', '.join(paths)}"

    def _push(self, files: Files) -> None:
        eventually(lambda: self._pushed(files), timeout=60.0, message=f"a stranger's push to {self._branch}")

    def _pushed(self, files: Files) -> bool:
        """One attempt, which fails if another client pushes meanwhile."""
        repository, made = self._repository, f"stranger/{uuid.uuid4().hex}"
        tip = repository.tip(f"refs/heads/{self._branch}") if repository.has_branch(self._branch) else None
        commit = repository.commit(files, branch=made, author=AUTHOR, onto=tip)
        repository.delete_branch(made)
        with contextlib.suppress(GitCommandFailed):
            repository.git("update-ref", f"refs/heads/{self._branch}", commit, tip or _NO_COMMIT)
            return True
        return False
