"""The rate limit of failed requests: which sources are still accepted."""

from __future__ import annotations

import pytest

from stoker.domain.errors import Misconfigured
from stoker.http_server.rate_limit import (
    UNKNOWN,
    FailureRateLimiter,
    RateLimitLane,
    caller_address,
    parse_networks,
)
from stoker_testkit.manual_clock import ManualClock

PROOF, NONE = RateLimitLane.WITH_PROOF, RateLimitLane.WITHOUT_PROOF


def fails(limiter: FailureRateLimiter, source: str, times: int, lane: RateLimitLane = PROOF) -> int:
    """How many of so many failing requests were let in."""
    return sum(limiter.admit(source, lane) == 0 for _ in range(times))


def test_a_source_that_fails_too_often_gets_a_retry_after() -> None:
    limiter = FailureRateLimiter(100, 1000, ManualClock())
    assert fails(limiter, "a", 150) == 100
    assert limiter.admit("a", PROOF) == pytest.approx(0.6)


async def test_it_is_accepted_again_as_time_passes() -> None:
    clock = ManualClock()
    limiter = FailureRateLimiter(60, 1000, clock)
    fails(limiter, "a", 60)
    await clock.advance(1)
    assert fails(limiter, "a", 5) == 1
    await clock.advance(3600)
    assert fails(limiter, "a", 100) == 60


def test_an_authenticated_source_is_never_limited() -> None:
    limiter = FailureRateLimiter(10, 10, ManualClock())
    for _ in range(1000):
        assert limiter.admit("forge", PROOF) == 0
        limiter.believed("forge", PROOF)
    assert len(limiter) == 0
    limiter.believed("nobody", PROOF)
    assert fails(limiter, "late", 20) == 10, "nor do others pay for what did not fail"


def test_pending_requests_count_until_they_are_authenticated() -> None:
    limiter = FailureRateLimiter(10, 1000, ManualClock())
    assert fails(limiter, "slow", 20) == 10
    limiter.believed("slow", PROOF)
    assert fails(limiter, "slow", 5) == 1


def test_a_flood_without_proof_takes_nothing_from_those_with_one_at_the_same_address() -> None:
    limiter = FailureRateLimiter(100, 1000, ManualClock())
    assert fails(limiter, "ingress", 5000, NONE) == 100
    assert limiter.admit("ingress", PROOF) == 0


def test_while_all_together_fail_too_often_only_sources_without_failures_are_accepted() -> None:
    limiter = FailureRateLimiter(10, 30, ManualClock())
    for number in range(30):
        fails(limiter, f"bot-{number}", 10)
    assert fails(limiter, "bot-0", 1) == 0
    assert fails(limiter, "late-bot", 10) == 5
    assert limiter.admit("forge", PROOF) == 0


def test_of_too_many_the_longest_unseen_is_forgotten() -> None:
    limiter = FailureRateLimiter(2, 1000, ManualClock(), most_sources=2)
    assert [fails(limiter, source, 1) for source in ("first", "second", "first")] == [1, 1, 1]
    assert fails(limiter, "newcomer", 10) == 2, "who has just come is not the one"
    assert fails(limiter, "first", 1) == 0


async def test_what_all_share_comes_back_as_time_passes_too() -> None:
    clock = ManualClock()
    limiter = FailureRateLimiter(10, 30, clock)
    for number in range(30):
        fails(limiter, f"bot-{number}", 10)
    assert fails(limiter, "late-bot", 5) == 5
    assert limiter.admit("late-bot", PROOF) == pytest.approx(2)
    await clock.advance(60)
    assert fails(limiter, "late-bot", 10) == 10


def test_memory_does_not_follow_the_number_of_sources() -> None:
    limiter = FailureRateLimiter(100, 1_000_000, ManualClock(), most_sources=50)
    for number in range(5000):
        fails(limiter, f"bot-{number}", 2)
    assert len(limiter) == 50


TRUSTED = parse_networks(["10.0.0.0/8", "fd00::/8"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "source"),
    [
        ("203.0.113.7", "", "203.0.113.7"),
        ("203.0.113.7", "198.51.100.1", "203.0.113.7"),
        ("10.1.2.3", "", "10.1.2.3"),
        ("10.1.2.3", "198.51.100.1", "198.51.100.1"),
        ("10.1.2.3", "6.6.6.6, 198.51.100.1, 10.9.9.9", "198.51.100.1"),
        ("10.1.2.3", "6.6.6.6, rubbish", "10.1.2.3"),
        ("10.1.2.3", "10.9.9.9", "10.9.9.9"),
        ("10.1.2.3", "6.6.6.6," * 20 + "198.51.100.1", "198.51.100.1"),
        ("10.1.2.3", "6.6.6.6" + ", 10.9.9.9" * 10, "10.9.9.9"),
        ("::ffff:10.1.2.3", "198.51.100.1", "198.51.100.1"),
        ("2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "", "fe80::/64"),
        (None, "198.51.100.1", UNKNOWN),
        ("not an address", "", UNKNOWN),
    ],
)
def test_a_forwarded_address_is_used_only_from_a_trusted_proxy(
    peer: str | None, forwarded: str, source: str
) -> None:
    assert caller_address(peer, forwarded, TRUSTED) == source


def test_without_trusted_proxies_no_forwarded_address_is_accepted() -> None:
    assert caller_address("10.1.2.3", "198.51.100.1", ()) == "10.1.2.3"


def test_a_network_that_is_none_is_refused() -> None:
    with pytest.raises(Misconfigured, match="trusted proxy"):
        parse_networks(["10.0.0.0/99"])
