"""Secrets that only their recipients can read: age, files for sops, and what tells an unchanged one."""
