"""How long one check of a gate may take inside a migration, where nobody can say `--timeout`."""

import math

from alembic.config import Config

from pipestate.ddl.failure import MigrationError
from pipestate.verify.run import DEFAULT_TIMEOUT_S

OPTION = "pipestate_timeout"


def timeout_of(config: Config | None) -> float:
    """Read the seconds from `pipestate_timeout` in Alembic's section; 30 where it is not set."""
    if config is None:
        return DEFAULT_TIMEOUT_S
    read = getattr(config, "get_alembic_option", config.get_main_option)  # since 1.16, for pyproject.toml
    given = read(OPTION)
    if given is None:
        return DEFAULT_TIMEOUT_S
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise MigrationError(
            f"{OPTION} = {given}: give the seconds that one check may take, as {OPTION} = 120"
        )
    return seconds
