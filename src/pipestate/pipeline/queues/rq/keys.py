"""Where RQ keeps what it knows about a job."""

from dataclasses import dataclass

from pipestate.pipeline.queues.port import State

JOBS = "rq:job:"
EXECUTIONS = "rq:execution:"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a job: itself, who waits for it, whom it waits for, its results and its runs."""

    job: str
    dependents: str
    dependencies: str
    results: str
    executions: str


def keys_of(job_id: str) -> Keys:
    """Name the keys of a job; RQ is asked where it has a name for the key that does not need the job."""
    from rq.executions import ExecutionRegistry
    from rq.job import Job
    from rq.results import Result

    return Keys(
        job=f"{JOBS}{job_id}",
        dependents=Job.dependents_key_for(job_id),
        dependencies=f"{JOBS}:{job_id}:dependencies",  # RQ has two colons here
        results=Result.get_key(job_id),  # type: ignore[no-untyped-call]
        executions=ExecutionRegistry.key_template.format(job_id),
    )


def registry_key(queue: str, state: State) -> str:
    from rq.registry import DeferredJobRegistry, FailedJobRegistry

    registry = DeferredJobRegistry if state is State.DEFERRED else FailedJobRegistry
    return registry.key_template.format(queue)


def started_key(queue: str) -> str:
    from rq.registry import StartedJobRegistry

    return StartedJobRegistry.key_template.format(queue)
