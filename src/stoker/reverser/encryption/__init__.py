"""Encrypt Secrets for recipients: age, SOPS files, and digests that recognize unchanged Secrets."""
