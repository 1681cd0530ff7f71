"""The plan of a sync: desired against live files, orphans, drift, deletion guards, diffs."""
