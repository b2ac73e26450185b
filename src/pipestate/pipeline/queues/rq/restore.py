"""Restore a job in Redis exactly as exported, unless it exists again.

The restore covers its hash, results, registry entry with score, dependencies, dependents, group, and expiry
times. It excludes runs left by a killed worker, because RQ would treat them as work in progress.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pipestate.pipeline.planning import SubjectOutcome
from pipestate.pipeline.queues.port import Blocked, Saved
from pipestate.pipeline.queues.rq.connection import JOBS, keys_of, pages, registry_key
from pipestate.pipeline.queues.rq.stored_job import EXPIRING, StoredJob, read_content

if TYPE_CHECKING:
    from redis import Redis

ANSWERS = (SubjectOutcome.EXISTS, SubjectOutcome.RESTORED)

# The script checks and writes in one step on the server. Each list follows its length.
SCRIPT = """
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
                pipeline.zscore(_registry(saved.job), saved.job.id)
            answers = iter(pipeline.execute())
        for job in stored:
            there = next(answers) > 0, next(answers) is not None
            yield SubjectOutcome.EXISTS if any(there) else _absent(job, now)


def restore(redis: "Redis", jobs: Sequence[Saved]) -> Iterator[SubjectOutcome]:
    """Restore each job that is missing and has not expired."""
    script = redis.register_script(SCRIPT)
    for page, stored, now in _stored(redis, jobs):
        lasting = [_absent(job, now).done for job in stored]
        with redis.pipeline(transaction=False) as pipeline:
            for saved, job, lasts in zip(page, stored, lasting, strict=True):
                if lasts:
                    script(keys=_keys(saved.job), args=_arguments(saved.job.id, job, now), client=pipeline)
            answers = iter(pipeline.execute())
        yield from (ANSWERS[next(answers)] if lasts else SubjectOutcome.EXPIRED for lasts in lasting)


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


def _registry(job: Blocked) -> str:
    return registry_key(job.obstacle.queue, job.obstacle.state)


def _keys(job: Blocked) -> list[str]:
    keys = keys_of(job.id)
    return [_registry(job), keys.job, keys.results, keys.dependencies, keys.dependents]


def _arguments(job_id: str, job: StoredJob, now: int) -> list[str | bytes]:
    """List the arguments in the script's order, without expired keys."""
    past = {name for name in EXPIRING if job.expires_at.get(name, now + 1) <= now}
    results = () if "results" in past else job.results
    expiries = [(KEY_NUMBERS[name], end) for name, end in job.expires_at.items() if name not in past]
    return [
        *(job_id, str(job.score), job.group, JOBS),
        *_counted((name, value) for name, value in job.fields.items()),
        str(len(results)),
        *(part for id_, entry in results for part in (id_, *_flat(entry.items()))),
        *_counted((parent,) for parent in job.dependencies if "dependencies" not in past),
        *_counted((child,) for child in job.dependents if "dependents" not in past),
        *_counted((str(number), str(end)) for number, end in expiries),
    ]


def _counted(rows: Iterable[tuple[str | bytes, ...]]) -> list[str | bytes]:
    """Return the number of rows, followed by their parts."""
    kept = list(rows)
    return [str(len(kept)), *(part for row in kept for part in row)]


def _flat(pairs: Iterable[tuple[bytes, bytes]]) -> list[str | bytes]:
    """Return the number of parts, followed by the parts."""
    parts = [part for pair in pairs for part in pair]
    return [str(len(parts)), *parts]
