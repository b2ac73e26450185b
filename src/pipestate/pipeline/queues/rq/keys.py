"""Where RQ keeps what it knows about a job."""

from dataclasses import dataclass

JOBS = "rq:job:"
EXECUTIONS = "rq:execution:"


@dataclass(frozen=True, slots=True)
class Keys:
    """The job itself, who waits for it, whom it waits for, its results and its runs."""

    job: str
    dependents: str
    dependencies: str
    results: str
    executions: str


def keys_of(job_id: str) -> Keys:
    """Asked of RQ where it has a name for the key that does not need the job."""
    from rq.executions import ExecutionRegistry
    from rq.job import Job
    from rq.results import Result

    return Keys(
        job=Job.key_for(job_id),
        dependents=Job.dependents_key_for(job_id),
        dependencies=f"{JOBS}:{job_id}:dependencies",  # RQ has two colons here
        results=Result.get_key(job_id),  # type: ignore[no-untyped-call]
        executions=ExecutionRegistry.key_template.format(job_id),
    )


def started_key(queue: str) -> str:
    from rq.registry import StartedJobRegistry

    return StartedJobRegistry.key_template.format(queue)
