"""Delete a job with all its RQ data, if it still matches its export.

A Lua script compares and deletes in one step on the server, one job at a time. A page of jobs is one round
trip, and a changed job does not affect the others. With WATCH and MULTI, a page would restart after each
change, or every job would need three round trips.

RQ's own `Job.delete` would leave the results, and the id in the sets of its dependencies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestate.pipeline.planning import SubjectOutcome
from pipestate.pipeline.queues.port import Blocked, Exported
from pipestate.pipeline.queues.rq.connection import (
    EXECUTIONS,
    JOBS,
    keys_of,
    pages,
    registry_key,
    started_key,
)
from pipestate.pipeline.queues.rq.registries import RegistryEntry
from pipestate.pipeline.queues.rq.stored_job import StoredJob, as_content, read_jobs

if TYPE_CHECKING:
    from redis import Redis

# Return values of the script, by index.
ANSWERS = (SubjectOutcome.CHANGED, SubjectOutcome.DELETED, SubjectOutcome.GONE)

# The order of hash fields is unstable in Redis, so the caller names them; sorting in the script would depend
# on the server's locale. The script builds keys that depend on data (parents, executions). Only a Redis
# cluster forbids this, and RQ does not support clusters.
SCRIPT = """
local registry, job, dependents, dependencies, results, executions, started = unpack(KEYS)
local id, digest, group, job_prefix, execution_prefix = unpack(ARGV, 1, 5)
local first_field = 6

if not redis.call('ZSCORE', registry, id) then
    return redis.call('EXISTS', job) == 1 and 0 or 2
end
if redis.call('HLEN', job) ~= #ARGV - first_field + 1 then return 0 end
local parts = {}
for i = first_field, #ARGV do
    local value = redis.call('HGET', job, ARGV[i])
    if not value then return 0 end
    parts[#parts + 1] = #value .. ':' .. value
end
if redis.sha1hex(table.concat(parts)) ~= digest then return 0 end

for _, parent in ipairs(redis.call('SMEMBERS', dependencies)) do
    redis.call('SREM', job_prefix .. parent .. ':dependents', id)
end
for _, run in ipairs(redis.call('ZRANGE', executions, 0, -1)) do
    redis.call('DEL', execution_prefix .. id .. ':' .. run)
    redis.call('ZREM', started, id .. ':' .. run)
end
if group ~= '' and redis.call('SREM', 'rq:group:' .. group, id) == 1
        and redis.call('EXISTS', 'rq:group:' .. group) == 0 then
    redis.call('SREM', 'rq:groups', group)
end
redis.call('ZREM', registry, id)
redis.call('DEL', job, dependents, dependencies, results, executions)
return 1
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """Evidence that a job is unchanged since its export."""

    fields: tuple[bytes, ...]
    digest: str
    group: str


def export(redis: "Redis", jobs: Sequence[Blocked]) -> Iterator[Exported | SubjectOutcome]:
    """Read each job completely, if it still blocks the pipeline as planned."""
    for job, stored in zip(jobs, read_jobs(redis, jobs), strict=True):
        if not stored.fields and stored.score is None:
            yield SubjectOutcome.GONE
        elif stored.score is not None and _as_planned(job, stored):
            proof = Proof(tuple(stored.fields), stored.digest, stored.group)
            yield Exported(job, as_content(stored), proof)
        else:
            yield SubjectOutcome.CHANGED


def _as_planned(job: Blocked, stored: StoredJob) -> bool:
    entry = RegistryEntry(job.id, stored.call, b"data" not in stored.fields, stored.text("status") or "")
    return entry.gone == job.dangling and entry.blocks(job.obstacle)


def clear(redis: "Redis", jobs: Sequence[Exported]) -> Iterator[SubjectOutcome]:
    """Delete each job that still matches its export."""
    script = redis.register_script(SCRIPT)
    for page in pages(jobs):
        with redis.pipeline(transaction=False) as pipeline:
            for job in page:
                script(keys=_keys(job.job), args=_arguments(job.job, job.proof), client=pipeline)
            yield from (ANSWERS[answer] for answer in pipeline.execute())


def _keys(job: Blocked) -> list[str]:
    keys = keys_of(job.id)
    return [
        registry_key(job.obstacle.queue, job.obstacle.state),
        keys.job,
        keys.dependents,
        keys.dependencies,
        keys.results,
        keys.executions,
        started_key(job.obstacle.queue),
    ]


def _arguments(job: Blocked, proof: Proof) -> list[str | bytes]:
    return [job.id, proof.digest, proof.group, JOBS, EXECUTIONS, *proof.fields]
