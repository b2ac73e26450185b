"""The stages of the pipeline: their order, which run side by side, and the errors about them."""

from pipestate.errors import PipestateError
from pipestate.schema.base import COMPLETED, STAGES, STEPS

__all__ = [
    "COMPLETED",
    "STAGES",
    "STEPS",
    "InvalidJobs",
    "StageNotStarted",
    "StageRunning",
    "UnknownSite",
    "UnknownStage",
    "WrongTransition",
    "before",
    "following",
    "require_stage",
    "step_of",
]


class UnknownStage(PipestateError):
    """A stage that the pipeline does not have."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self.stage = stage

    def __str__(self) -> str:
        return f"there is no stage {self.stage!r}: use one of {', '.join(STAGES)}"


class UnknownSite(PipestateError):
    """A site that has no row, or has lost it."""

    def __init__(self, subdomain: str) -> None:
        super().__init__(subdomain)
        self.subdomain = subdomain

    def __str__(self) -> str:
        return f"there is no site {self.subdomain!r}: nothing was written; check the subdomain"


class StageNotStarted(PipestateError):
    """A job of a stage that nobody has initialised: counting it would be undone later."""

    def __init__(self, subdomain: str, stage: str) -> None:
        super().__init__(subdomain, stage)
        self.subdomain = subdomain
        self.stage = stage

    def __str__(self) -> str:
        return (
            f"{self.stage} of {self.subdomain} has no jobs to count: "
            "call initialize_stage or advance_stage before enqueueing its jobs"
        )


class StageRunning(PipestateError):
    """A stage that is under way, so that starting it would lose what is counted."""

    def __init__(self, subdomain: str, stage: str, completed: int, failed: int, total: int) -> None:
        super().__init__(subdomain, stage, completed, failed, total)
        self.subdomain = subdomain
        self.stage = stage
        self.completed = completed
        self.failed = failed
        self.total = total

    def __str__(self) -> str:
        return (
            f"{self.stage} of {self.subdomain} is already under way ({self.completed} completed and "
            f"{self.failed} failed of {self.total}): to start it over, initialize_stage(..., restart=True)"
        )


class WrongTransition(PipestateError):
    """A coordinator that would move a site back, or move one that is completed."""

    def __init__(self, subdomain: str, current: str | None, to: str) -> None:
        super().__init__(subdomain, current, to)
        self.subdomain = subdomain
        self.current = current
        self.to = to

    def __str__(self) -> str:
        return (
            f"{self.subdomain} is at {self.current} and does not advance to {self.to}: "
            "to run a stage again, initialize_stage"
        )


class InvalidJobs(PipestateError):
    """Numbers or keys of jobs that cannot be."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def require_stage(stage: str) -> None:
    if stage not in STAGES:
        raise UnknownStage(stage)


def step_of(stage: str) -> tuple[str, ...]:
    """Return the stages that run side by side with this one, itself included.

    >>> step_of("extraction")
    ('compilation', 'extraction')
    """
    require_stage(stage)
    return next(step for step in STEPS if stage in step)


def following(stage: str) -> tuple[str, ...]:
    """Return what comes after this stage's step: the stages of the next one, or `completed`.

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
