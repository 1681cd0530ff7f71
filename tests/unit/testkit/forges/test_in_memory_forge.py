"""The result of a reviewer's merge where both sides change the same lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.forges import PullRequestDraft
from stoker_testkit.forges.in_memory_forge import InMemoryForge
from stoker_testkit.repositories.bare_repository import Repository

LINES = "".join(f"line {number}\n" for number in range(6))


@pytest.mark.parametrize("squash", [True, False])
async def test_a_merge_deletes_what_the_branch_deleted_though_a_new_file_resembles_it(
    tmp_path: Path, *, squash: bool
) -> None:
    repository = Repository.create(tmp_path / "plant.git")
    fork = repository.commit({"view.py": LINES, "script.py": LINES})
    new = LINES.replace("line 0", "mine")
    repository.commit({"view.py": None, "new.txt": new, "script.py": "ours\n"}, branch="changes", onto=fork)
    repository.commit({"script.py": "theirs\n"})
    forge = InMemoryForge(repository)
    request = await forge.create(PullRequestDraft("changes", "main", "Changes"))

    forge.merge(request.number, squash=squash)

    assert repository.files() == {"new.txt": new.encode(), "script.py": b"ours\n"}
