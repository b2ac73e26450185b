"""`python -m pipestate.rehearse.copying.reaper DIRECTORY`: waits for its parent's end, and removes what that left.

A clone holds production's rows. A parent that is killed cannot remove it; this process reads from a pipe that breaks
then. It imports nothing, and Ctrl-C does not reach it.
"""

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

KEEP = b"keep"
PATIENCE = 100


def main(directory: Path) -> None:
    """Wait for the end of stdin; then, unless it said to keep it, end the server in the directory and remove that."""
    if sys.stdin.buffer.read() == KEEP or not directory.exists():
        return
    for attempt in range(PATIENCE):
        if not _end_server(directory, signal.SIGQUIT if attempt else signal.SIGINT):
            break
        time.sleep(0.1)
    shutil.rmtree(directory, ignore_errors=True)


def _end_server(directory: Path, how: signal.Signals) -> bool:
    """Tell the server to stop; say whether there was one."""
    for file in directory.rglob("postmaster.pid"):
        with suppress(OSError, ValueError):
            os.kill(int(file.read_text().splitlines()[0]), how)
            return True
    return False


if __name__ == "__main__":
    main(Path(sys.argv[1]))
