"""How long nothing may touch a site before it counts as stuck: one number for backfill and reconcile."""

from datetime import timedelta

from pipestate.errors import ConfigError

THRESHOLD_HOURS = 2.0
THRESHOLD = timedelta(hours=THRESHOLD_HOURS)
TEN_YEARS_H = 87_600


def require_threshold(hours: float) -> timedelta:
    """Return the threshold; refuse a number of hours that is negative, not a number, or beyond ten years."""
    if not 0 <= hours <= TEN_YEARS_H:  # NaN is neither
        raise ConfigError(f"--threshold-hours {hours:g}: give a number of hours from 0 to {TEN_YEARS_H:,}")
    return timedelta(hours=hours)
