"""The command `gains`."""

from __future__ import annotations

import os
import signal
import sys
import threading


def main() -> None:
    """Run the command line and leave with its exit code."""
    from ._native import main as command

    sys.exit(command(["gains", *sys.argv[1:]]))


def follower() -> None:
    """Run the command line for a process that holds the other end of standard input.

    When that process is gone, however it ended, this one is interrupted: a training run saves a checkpoint and frees its
    folder.
    """
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    main()


def _end_with_the_other() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)
