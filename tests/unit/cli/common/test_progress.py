"""The progress bar: nothing for work that ends before the delay, and nothing where no person looks."""

from __future__ import annotations

import pytest

from stoker.cli.common.progress import ProgressBar


@pytest.mark.parametrize(("wanted", "patience"), [(True, 3600.0), (False, 0.0)])
def test_work_that_ends_at_once_and_pipes_have_no_bar(
    wanted: bool, patience: float, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressBar(wanted=wanted, patience=patience) as bar:
        bar("fetching", 1, 2)
    assert capsys.readouterr().err == ""
