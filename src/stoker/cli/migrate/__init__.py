"""From what another tool was told to resources of ours: each thing is taken over, or named as left behind."""
