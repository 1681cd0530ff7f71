"""Verbs that run a server process: controller, agent, webhook, reverser, fetcher."""
