"""The only code that touches live files: find changes, stage, apply a plan, ledger, journal, lock."""
