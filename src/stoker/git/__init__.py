"""The only code that runs git: fetch, read, verify, commit and push, with bounds on every process."""
