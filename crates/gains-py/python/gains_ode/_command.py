"""The command `gains`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from ._native import main as command

    sys.exit(command(["gains", *sys.argv[1:]]))
