"""Encrypts Secrets for recipients: age, SOPS files, and digests that show an unchanged one."""
