"""Detects changes of live files: inotify on a folder, and the paths that changed."""
