"""Export a job with all its RQ data, then delete it by a Lua script that checks and deletes in one step.

A page of jobs is one round trip, and a changed job does not affect the others. With WATCH and MULTI, a page
would restart after each change, or every job would need three round trips. RQ's own `Job.delete` would leave
the results, and the id in the sets of its dependencies.

A line of the export has readable details first. `keys`, `sets`, `registry_key` and `score` bring the job back
(docs/migration/operations.md): hash, results, dependencies and dependents as Redis dumps them, with their
expiry times. Runs left by a killed worker are excluded, because RQ would treat them as work in progress.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestate.pipeline.planning import SubjectOutcome
from pipestate.pipeline.queues.port import Blocked, Exported
from pipestate.pipeline.queues.rq.jobs import (
    EXECUTIONS,
    JOBS,
    RegistryEntry,
    decompressed,
    keys_of,
    pages,
    read_call,
    registry_key,
    text,
)

if TYPE_CHECKING:
    from redis import Redis

# Return values of the script, by index.
CLEARED = (SubjectOutcome.CHANGED, SubjectOutcome.DELETED, SubjectOutcome.GONE)

# The order of hash fields is unstable in Redis, so the caller names them; sorting in the script would depend
# on the server's locale. The script builds keys that depend on data (parents, executions). Only a Redis
# cluster forbids this, and RQ does not support clusters.
CLEAR_SCRIPT = """
local registry, job, results, dependencies, dependents, executions, started = unpack(KEYS)
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

# Fields of a job's hash that a line shows as text.
SHOWN = ("origin", "status", "created_at", "enqueued_at", "started_at", "ended_at", "description")


@dataclass(frozen=True, slots=True)
class Proof:
    """Evidence that a job is unchanged since its export: its fields, and a digest of their values."""

    fields: tuple[bytes, ...]
    digest: str
    group: str


def export(redis: "Redis", jobs: Sequence[Blocked]) -> Iterator[Exported | SubjectOutcome]:
    """Read each job completely, one page per round trip, if it still blocks the pipeline as planned."""
    for page in pages(jobs):
        with redis.pipeline(transaction=False) as pipeline:
            pipeline.time()
            for job in page:
                keys = keys_of(job.id)
                pipeline.hgetall(keys.job)
                pipeline.xrange(keys.results)
                pipeline.zscore(registry_key(job.obstacle), job.id)
                pipeline.smembers(keys.dependencies)
                for key in keys.kept:
                    pipeline.dump(key)
                    pipeline.pttl(key)
            (seconds, microseconds), *rows = pipeline.execute()
        now, answers = seconds * 1000 + microseconds // 1000, iter(rows)
        for job in page:
            fields, results, score, parents = (next(answers) for _ in range(4))
            dumps = {key: (next(answers), next(answers)) for key in keys_of(job.id).kept}
            if not fields and score is None:
                yield SubjectOutcome.GONE
                continue
            call = read_call(decompressed(fields.get(b"data", b"")))
            entry = RegistryEntry(job.id, call, b"data" not in fields, text(fields.get(b"status", b"")))
            blocks = entry.blocks(job.obstacle) and entry.other(job.obstacle) is None
            if score is None or entry.gone != job.dangling or not blocks:
                yield SubjectOutcome.CHANGED
                continue
            group = text(fields.get(b"group_id", b""))
            values = b"".join(b"%d:%s" % (len(value), value) for value in fields.values())
            sets = {f"{JOBS}{text(parent)}:dependents": [job.id] for parent in sorted(parents)}
            if group:
                sets |= {f"rq:group:{group}": [job.id], "rq:groups": [group]}
            content = {
                "function": call.function if call else None,
                "subdomain": call.subdomain if call else None,
                **{name: fields.get(name.encode(), b"").decode(errors="replace") or None for name in SHOWN},
                "exc_info": _error(fields, results),
                "keys": {
                    key: [base64.b64encode(dump).decode(), now + left if left >= 0 else 0]
                    for key, (dump, left) in dumps.items()
                    if dump
                },
                "sets": sets,
                "registry_key": registry_key(job.obstacle),
                "score": score,
            }
            yield Exported(job, content, Proof(tuple(fields), hashlib.sha1(values).hexdigest(), group))


def clear(redis: "Redis", jobs: Sequence[Exported]) -> Iterator[SubjectOutcome]:
    """Delete each job that still matches its export."""
    script = redis.register_script(CLEAR_SCRIPT)
    for page in pages(jobs):
        with redis.pipeline(transaction=False) as pipeline:
            for exported in page:
                job, proof, keys = exported.job, exported.proof, keys_of(exported.job.id)
                script(
                    keys=[
                        registry_key(job.obstacle),
                        *keys,
                        f"rq:wip:{job.obstacle.queue}",
                    ],
                    args=[job.id, proof.digest, proof.group, JOBS, EXECUTIONS, *proof.fields],
                    client=pipeline,
                )
            yield from (CLEARED[answer] for answer in pipeline.execute())


def _error(
    fields: Mapping[bytes, bytes], results: Sequence[tuple[bytes, Mapping[bytes, bytes]]]
) -> str | None:
    """Return the traceback of the last result; RQ before 2 kept it in the hash."""
    kept = fields.get(b"exc_info")
    for _id, entry in reversed(results):
        if b"exc_string" in entry:
            kept = entry[b"exc_string"]
            with suppress(ValueError):
                kept = base64.b64decode(kept)
            break
    return decompressed(kept).decode(errors="replace") if kept else None
