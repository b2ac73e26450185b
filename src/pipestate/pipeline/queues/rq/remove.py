"""One job out of Redis with everything that RQ keeps about it, if it is still as it was exported.

A script, not WATCH and MULTI: it looks and deletes in one step on the server, a job at a time, so that a
page of jobs is one round trip and a job that changes costs its neighbours nothing. With WATCH a page would
start over whenever one job of it moves, or every job would be three round trips.

RQ's own `Job.delete` would leave the results, and the id in the sets of the jobs that it waited for.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from pipestate.pipeline.queues.rq.keys import EXECUTIONS, JOBS, keys_of, started_key
from pipestate.pipeline.queues.rq.registries import pages

if TYPE_CHECKING:
    from redis import Redis

    from pipestate.pipeline.queues.export_file import Exported


class Outcome(IntEnum):
    """What the script answers."""

    CHANGED = 0
    DELETED = 1
    GONE = 2


# The order of fields is not stable in Redis, so the caller names them; sorting them here would follow
# the server's locale. Keys that depend on data (parents, executions) are made in the script: RQ does not
# run on a Redis cluster, where that would matter.
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


def remove(redis: "Redis", jobs: "Sequence[Exported]") -> Iterator[Outcome]:
    """How it went for each, in their order."""
    script = redis.register_script(SCRIPT)
    for page in pages(jobs):
        with redis.pipeline(transaction=False) as pipeline:
            for job in page:
                script(keys=_keys(job), args=_arguments(job), client=pipeline)
            yield from map(Outcome, pipeline.execute())


def _keys(job: "Exported") -> list[str]:
    planned = job.planned
    keys = keys_of(planned.id)
    return [
        planned.registry.key,
        keys.job,
        keys.dependents,
        keys.dependencies,
        keys.results,
        keys.executions,
        started_key(planned.registry.queue),
    ]


def _arguments(job: "Exported") -> list[str | bytes]:
    return [job.planned.id, job.digest, job.group, JOBS, EXECUTIONS, *job.fields]
