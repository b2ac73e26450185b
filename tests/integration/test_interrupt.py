"""Ctrl-C at any instant of a query; what commands say of it is in `attacks/test_interrupt.py`."""

import signal
import subprocess
import sys

import pytest

from pipestate.database.interrupt import hand_back, listen
from support import interrupt_loop as interrupted
from support.long_form import times
from support.servers import Database

pytestmark = pytest.mark.scene


def test_ctrl_c_while_a_query_is_being_sent_leaves_none_behind(pg: Database) -> None:
    """The server has it, and Python does not wait for it yet."""
    argv = [sys.executable, interrupted.__file__, pg.text, str(times(150, long=2000))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_a_handler_of_somebody_elses_stays() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        listen()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        hand_back()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.signal(signal.SIGINT, signal.default_int_handler)
        listen()
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        hand_back()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
