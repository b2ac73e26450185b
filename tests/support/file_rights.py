"""Rights of the file system, also where the tests run as root."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

NOBODY = 65534


@contextmanager
def powerless() -> Iterator[None]:
    """Root may read everything: for a while this process is nobody."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
