"""Doubles of GitHub and GitLab that check what they are asked, and a real Gitea."""
