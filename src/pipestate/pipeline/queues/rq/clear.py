"""Clear and restore jobs with all their RQ data, each by a Lua script that checks and writes in one step.

A page of jobs is one round trip, and a changed job does not affect the others. With WATCH and MULTI, a page
would restart after each change, or every job would need three round trips.

RQ's own `Job.delete` would leave the results, and the id in the sets of its dependencies. A restore covers
the hash, results, registry entry with score, dependencies, dependents, group, and expiry times. It excludes
runs left by a killed worker, because RQ would treat them as work in progress.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestate.pipeline.planning import SubjectOutcome
from pipestate.pipeline.queues.port import Blocked, Exported, Saved
from pipestate.pipeline.queues.rq.calls import RegistryEntry
from pipestate.pipeline.queues.rq.connection import EXECUTIONS, JOBS, keys_of, pages, registry_key
from pipestate.pipeline.queues.rq.stored_job import EXPIRING, StoredJob, as_content, read_content, read_jobs

if TYPE_CHECKING:
    from redis import Redis

# Return values of the script, by index.
CLEARED = (SubjectOutcome.CHANGED, SubjectOutcome.DELETED, SubjectOutcome.GONE)

# The order of hash fields is unstable in Redis, so the caller names them; sorting in the script would depend
# on the server's locale. The script builds keys that depend on data (parents, executions). Only a Redis
# cluster forbids this, and RQ does not support clusters.
CLEAR_SCRIPT = """
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
        dangling = b"data" not in stored.fields
        entry = RegistryEntry(job.id, stored.call, dangling, stored.text("status") or "")
        if not stored.fields and stored.score is None:
            yield SubjectOutcome.GONE
        elif stored.score is not None and dangling == job.dangling and entry.blocks(job.obstacle):
            proof = Proof(tuple(stored.fields), stored.digest, stored.group)
            yield Exported(job, as_content(stored), proof)
        else:
            yield SubjectOutcome.CHANGED


def clear(redis: "Redis", jobs: Sequence[Exported]) -> Iterator[SubjectOutcome]:
    """Delete each job that still matches its export."""
    from rq.registry import StartedJobRegistry

    script = redis.register_script(CLEAR_SCRIPT)
    for page in pages(jobs):
        with redis.pipeline(transaction=False) as pipeline:
            for exported in page:
                job, proof, keys = exported.job, exported.proof, keys_of(exported.job.id)
                script(
                    keys=[
                        registry_key(job.obstacle),
                        *(keys.job, keys.dependents, keys.dependencies, keys.results, keys.executions),
                        StartedJobRegistry.key_template.format(job.obstacle.queue),
                    ],
                    args=[job.id, proof.digest, proof.group, JOBS, EXECUTIONS, *proof.fields],
                    client=pipeline,
                )
            yield from (CLEARED[answer] for answer in pipeline.execute())


# Restore a job exactly as exported, unless it exists again.


RESTORED = (SubjectOutcome.EXISTS, SubjectOutcome.RESTORED)

# The script checks and writes in one step on the server. Each list follows its length.
RESTORE_SCRIPT = """
local registry, job, results, dependencies, dependents = unpack(KEYS)
local at = 0
local function take() at = at + 1; return ARGV[at] end
local id, score, group, job_prefix = take(), take(), take(), take()

if redis.call('EXISTS', job, results) > 0 or redis.call('ZSCORE', registry, id) then return 0 end

for _ = 1, tonumber(take()) do
    local field = take()
    redis.call('HSET', job, field, take())
end
for _ = 1, tonumber(take()) do
    local entry = {'XADD', results, take()}
    for _ = 1, tonumber(take()) do entry[#entry + 1] = take() end
    redis.call(unpack(entry))
end
for _ = 1, tonumber(take()) do
    local parent = take()
    redis.call('SADD', dependencies, parent)
    redis.call('SADD', job_prefix .. parent .. ':dependents', id)
end
for _ = 1, tonumber(take()) do redis.call('SADD', dependents, take()) end
if group ~= '' then
    redis.call('SADD', 'rq:group:' .. group, id)
    redis.call('SADD', 'rq:groups', group)
end
redis.call('ZADD', registry, score, id)
for _ = 1, tonumber(take()) do
    local key = KEYS[tonumber(take())]
    redis.call('PEXPIREAT', key, take())
end
return 1
"""
# Positions of the expiring keys among the script's KEYS.
KEY_NUMBERS = {"job": 2, "results": 3, "dependencies": 4, "dependents": 5}


def check(redis: "Redis", jobs: Sequence[Saved]) -> Iterator[SubjectOutcome]:
    """Return the outcome that `restore` would have for each job; reads only."""
    for page, stored, now in _stored(redis, jobs):
        with redis.pipeline(transaction=False) as pipeline:
            for saved in page:
                keys = keys_of(saved.job.id)
                pipeline.exists(keys.job, keys.results)
                pipeline.zscore(registry_key(saved.job.obstacle), saved.job.id)
            answers = iter(pipeline.execute())
        for job in stored:
            there = next(answers) > 0, next(answers) is not None
            yield SubjectOutcome.EXISTS if any(there) else _absent(job, now)


def restore(redis: "Redis", jobs: Sequence[Saved]) -> Iterator[SubjectOutcome]:
    """Restore each job that is missing and has not expired."""
    script = redis.register_script(RESTORE_SCRIPT)
    for page, stored, now in _stored(redis, jobs):
        lasting = [_absent(job, now).done for job in stored]
        with redis.pipeline(transaction=False) as pipeline:
            for saved, job, lasts in zip(page, stored, lasting, strict=True):
                if lasts:
                    keys = keys_of(saved.job.id)
                    script(
                        keys=[
                            registry_key(saved.job.obstacle),
                            *(keys.job, keys.results, keys.dependencies, keys.dependents),
                        ],
                        args=_restore_arguments(saved.job.id, job, now),
                        client=pipeline,
                    )
            answers = iter(pipeline.execute())
        yield from (RESTORED[next(answers)] if lasts else SubjectOutcome.EXPIRED for lasts in lasting)


def _stored(redis: "Redis", jobs: Sequence[Saved]) -> Iterator[tuple[Sequence[Saved], list[StoredJob], int]]:
    """Yield, per page, the jobs, their current state in Redis, and the server's time in milliseconds."""
    for page in pages(jobs):
        stored = [read_content(saved) for saved in page]
        with redis.pipeline(transaction=False) as pipeline:
            pipeline.time()
            ((seconds, microseconds),) = pipeline.execute()
        yield page, stored, seconds * 1000 + microseconds // 1000


def _absent(job: StoredJob, now: int) -> SubjectOutcome:
    """Decide about a missing job; an expired hash stays deleted."""
    return SubjectOutcome.EXPIRED if job.expires_at.get("job", now + 1) <= now else SubjectOutcome.RESTORED


def _restore_arguments(job_id: str, job: StoredJob, now: int) -> list[str | bytes]:
    """List the arguments in the script's order, without expired keys."""
    past = {name for name in EXPIRING if job.expires_at.get(name, now + 1) <= now}
    results = () if "results" in past else job.results
    expiries = [(KEY_NUMBERS[name], end) for name, end in job.expires_at.items() if name not in past]
    return [
        *(job_id, str(job.score), job.group, JOBS),
        *_counted(job.fields.items()),
        str(len(results)),
        *(part for id_, entry in results for part in (id_, str(2 * len(entry)), *_flat(entry.items()))),
        *_counted((parent,) for parent in job.dependencies if "dependencies" not in past),
        *_counted((child,) for child in job.dependents if "dependents" not in past),
        *_counted((str(number), str(end)) for number, end in expiries),
    ]


def _counted(rows: Iterable[tuple[str | bytes, ...]]) -> list[str | bytes]:
    """Return the number of rows, followed by their parts."""
    kept = list(rows)
    return [str(len(kept)), *_flat(kept)]


def _flat(rows: Iterable[tuple[str | bytes, ...]]) -> Iterator[str | bytes]:
    return (part for row in rows for part in row)
