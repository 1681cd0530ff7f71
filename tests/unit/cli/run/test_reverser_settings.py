"""Flags of the reverser and their settings."""

from __future__ import annotations

from pathlib import Path

from stoker.cli.run.reverser import reverser_command
from stoker.cli.run.reverser_settings import reverser_settings
from stoker.kube.config.config import ClusterConfig


def test_mirrors_are_inside_the_volume_which_belongs_to_the_node(tmp_path: Path) -> None:
    """An emptyDir is root's, and a cache must be ours."""
    context = reverser_command.make_context("reverser", [f"--work-dir={tmp_path}"])
    settings = reverser_settings(ClusterConfig(server="https://cluster.test"), "home", context.params)
    assert settings.work_dir.parent == tmp_path
