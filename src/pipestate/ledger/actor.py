"""Who did it: the name that the ledger keeps."""

import getpass


def who() -> str:
    """Name the operating system's user, who typed the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
