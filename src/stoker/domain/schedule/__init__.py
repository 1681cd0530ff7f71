"""Cron expressions and maintenance windows."""
