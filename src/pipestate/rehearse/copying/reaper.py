"""`python -m pipestate.rehearse.copying.reaper DIRECTORY`: waits for its parent's end, and removes the clone.

A clone holds production's rows. A killed parent cannot remove it; this process then notices its broken pipe.
It imports only the standard library. Its session is separate, so that Ctrl-C does not reach it.
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
    """Wait for the end of stdin; then clear the directory, unless the parent sent KEEP."""
    if sys.stdin.buffer.read() != KEEP:
        clear(directory)


def clear(directory: Path) -> None:
    """Stop any server in the directory, then remove the directory."""
    for attempt in range(PATIENCE):
        if not _end_server(directory, signal.SIGQUIT if attempt else signal.SIGINT):
            break
        time.sleep(0.1)
    shutil.rmtree(directory, ignore_errors=True)


def _end_server(directory: Path, how: signal.Signals) -> bool:
    """Signal the server to stop; return True if there was one."""
    for file in directory.rglob("postmaster.pid"):
        with suppress(OSError, ValueError):
            os.kill(int(file.read_text().splitlines()[0]), how)
            return True
    return False


if __name__ == "__main__":
    main(Path(sys.argv[1]))
