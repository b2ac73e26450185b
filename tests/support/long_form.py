"""The long form of the suite, `make long`: it tries all of what the short form tries a part of."""

import os

LONG = os.environ.get("PIPESTATE_TEST_LONG") == "1"


def times(short: int, *, long: int) -> int:
    """How often something is tried: often enough to find a fault, and with PIPESTATE_TEST_LONG=1 every time."""
    return long if LONG else short
