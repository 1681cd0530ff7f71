"""How a verb's coroutine is run to its end."""

from stoker.cli.running import run


class Large:
    """A result that takes long to spell out."""

    spelled_out = 0

    def __repr__(self) -> str:
        Large.spelled_out += 1
        return "Large()"


def test_what_a_verb_returns_is_never_spelled_out() -> None:
    result = Large()

    async def work() -> Large:
        return result

    assert run(work()) is result
    assert Large.spelled_out == 0
