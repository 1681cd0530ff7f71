"""Loads structlog without rich, which it would take along to draw tracebacks that are never drawn here.

Seven megabytes and a fifth of a second in every process that stays. Whoever wants
rich (the terminal's progress bars) imports it as ever.
"""

from __future__ import annotations

import sys

if "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # the language's own way to say "not there"
    import structlog  # noqa: F401

    del sys.modules["rich"]
