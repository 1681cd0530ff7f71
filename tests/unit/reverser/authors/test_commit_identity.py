"""The name and the address of a user in a commit."""

from __future__ import annotations

import pytest

from stoker.reverser.authors.commit_identity import DOMAIN, commit_author
from stoker.reverser.authors.facts import RequestUser


@pytest.mark.parametrize(
    ("user", "name", "email"),
    [
        ("alice", "alice", f"alice@{DOMAIN}"),
        ("alice@example.com", "alice@example.com", "alice@example.com"),
        ("Alice@example.com", "Alice@example.com", f"_41lice_40example.com@{DOMAIN}"),
        (f"alice@{DOMAIN}", f"alice@{DOMAIN}", f"alice_40{DOMAIN}@{DOMAIN}"),
        ("system:serviceaccount:shop:web", "system:serviceaccount:shop:web",
         f"system_3aserviceaccount_3ashop_3aweb@{DOMAIN}"),
        ("a_b", "a_b", f"a_5fb@{DOMAIN}"),
        ("ab", "ab", f"ab@{DOMAIN}"),
        (".a..b.", "a..b", f"_2ea._2eb_2e@{DOMAIN}"),
        ("Zoë <root@evil>", "Zoë  root@evil", f"_5ao_c3_ab_20_3croot_40evil_3e@{DOMAIN}"),
        ("a\nb", "a b", f"a_0ab@{DOMAIN}"),
        ("...", "_2e_2e_2e", f"_2e_2e_2e@{DOMAIN}"),
    ],
)  # fmt: skip
def test_a_user_has_a_name_and_an_address(user: str, name: str, email: str) -> None:
    assert commit_author(RequestUser(user)) == (name, email)


def test_long_names_end_in_a_digest_and_stay_apart() -> None:
    users = ["x" * 500, "x" * 501, "x" * 499 + "y", "system:" + "é" * 100]
    addresses = {commit_author(RequestUser(each)).email for each in users}
    assert len(addresses) == 4
    assert all(len(each.partition("@")[0]) <= 64 for each in addresses)
