"""What a migration must tell whoever runs it, beside what it does."""

import logging


def warn(message: str, *arguments: object) -> None:
    """Log a warning, also where env.py's `fileConfig` has disabled the loggers that it found."""
    log = logging.getLogger("pipestate")
    log.disabled = False
    log.warning(message, *arguments)
