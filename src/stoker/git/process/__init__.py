"""Child processes of git: started in one place, read with limits, always ended."""
