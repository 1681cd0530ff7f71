"""Credentials of a repository: tokens, ssh keys, GitHub Apps, known hosts, proxies."""
