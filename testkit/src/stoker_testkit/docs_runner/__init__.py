"""Runs the commands of documentation sections with bash, in the environment that the page names."""
