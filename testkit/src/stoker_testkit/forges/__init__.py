"""Forges for tests: a real Gitea process, doubles of GitHub and GitLab, and a forge in memory."""
