"""What a migration must tell whoever runs it, beside what it does."""

import logging


def warn(message: str, *arguments: object) -> None:
    """Log a warning, also where env.py's `fileConfig` has disabled the loggers that it found."""
    log = logging.getLogger("pipestate")
    log.disabled = False
    log.warning(message, *arguments)


def tell(message: str, *arguments: object) -> None:
    """Log what is good to know, beside Alembic's own lines and as visible as these."""
    log = logging.getLogger("alembic.pipestate")
    log.disabled = False
    log.info(message, *arguments)
