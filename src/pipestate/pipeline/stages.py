"""Stages of the pipeline, their errors, the stuck threshold, and error texts that fit a database column."""

from dataclasses import dataclass
from datetime import timedelta

from pipestate.core.errors import ConfigError, PipestateError

# Stages of one step run in parallel and end together: one coordinator follows the whole step.
STEPS = (("fetch",), ("ocr",), ("compilation", "extraction"), ("deploy",))
STAGES = tuple(stage for step in STEPS for stage in step)
COMPLETED = "completed"

LIMIT = 500


def error_text(error: str | BaseException) -> str:
    """Return at most 500 characters of `Class: message` or of the given text.

    >>> error_text(ValueError("no pages"))
    'ValueError: no pages'
    """
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
    # Surrogate pairs become their character; lone halves and NUL cannot be stored.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\x00", "\ufffd")[:LIMIT]


# Idle time after which a site counts as stuck: one number for backfill and reconcile.


THRESHOLD_HOURS = 2.0
THRESHOLD = timedelta(hours=THRESHOLD_HOURS)
TEN_YEARS_H = 87_600


def require_threshold(hours: float) -> timedelta:
    """Return the threshold; refuse negative hours, NaN, and more than ten years."""
    if not 0 <= hours <= TEN_YEARS_H:  # NaN fails both comparisons
        raise ConfigError(f"--threshold-hours {hours:g}: give a number of hours from 0 to {TEN_YEARS_H:,}")
    return timedelta(hours=hours)


# Stages of the pipeline: their order, parallel stages, and their errors.


@dataclass(eq=False)
class UnknownStage(PipestateError):
    """A stage name outside the pipeline."""

    stage: str

    def __str__(self) -> str:
        return f"there is no stage {self.stage!r}: use one of {', '.join(STAGES)}"


@dataclass(eq=False)
class UnknownSite(PipestateError):
    """A site without a row."""

    subdomain: str

    def __str__(self) -> str:
        return f"there is no site {self.subdomain!r}: nothing was written; check the subdomain"


@dataclass(eq=False)
class StageNotStarted(PipestateError):
    """A job of an uninitialised stage; a later start would reset its count."""

    subdomain: str
    stage: str

    def __str__(self) -> str:
        return (
            f"{self.stage} of {self.subdomain} has no jobs to count: "
            "call initialize_stage or advance_stage before enqueueing its jobs"
        )


@dataclass(eq=False)
class StageRunning(PipestateError):
    """A stage in progress; starting it again would lose its counts."""

    subdomain: str
    stage: str
    completed: int
    failed: int
    total: int

    def __str__(self) -> str:
        return (
            f"{self.stage} of {self.subdomain} is already under way ({self.completed} completed and "
            f"{self.failed} failed of {self.total}): to start it over, initialize_stage(..., restart=True)"
        )


@dataclass(eq=False)
class WrongTransition(PipestateError):
    """A transition that would move a site back, or move a completed site."""

    subdomain: str
    current: str | None
    to: str

    def __str__(self) -> str:
        return (
            f"{self.subdomain} is at {self.current} and does not advance to {self.to}: "
            "to run a stage again, initialize_stage"
        )


class InvalidJobs(PipestateError):
    """Invalid job numbers or job keys."""


def require_stage(stage: str) -> None:
    if stage not in STAGES:
        raise UnknownStage(stage)


def step_of(stage: str) -> tuple[str, ...]:
    """Return the stages that run in parallel with this one, including itself.

    >>> step_of("extraction")
    ('compilation', 'extraction')
    """
    require_stage(stage)
    return next(step for step in STEPS if stage in step)


def following(stage: str) -> tuple[str, ...]:
    """Return the stages of the next step, or `completed` after the last one.

    >>> following("ocr")
    ('compilation', 'extraction')
    >>> following("deploy")
    ('completed',)
    """
    at = STEPS.index(step_of(stage)) + 1
    return STEPS[at] if at < len(STEPS) else (COMPLETED,)


def before(stage: str) -> tuple[str, ...]:
    """Return the stages of all earlier steps; every stage is before `completed`."""
    if stage == COMPLETED:
        return STAGES
    return tuple(name for step in STEPS[: STEPS.index(step_of(stage))] for name in step)
