"""Queues that are cleared while faults happen: what Redis held, what is left, and what the file brings back."""

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis

from faults.case import Rows
from faults.world import World
from pipestate.pipeline.demo import scene
from support.queue_scene import OCR, Scene, contents, put_back


@dataclass(frozen=True)
class Stored:
    """Every key of a Redis, to be put there again and again: filling it through RQ takes seconds."""

    keys: Sequence[tuple[bytes, int, bytes]]
    contents: Sequence[Hashable]

    def put(self, redis: Redis) -> None:
        redis.flushall()
        with redis.pipeline(transaction=False) as pipeline:
            for key, expires_ms, value in self.keys:
                pipeline.restore(key, max(expires_ms, 0), value)
            pipeline.execute()


@dataclass(frozen=True)
class Cleared:
    """The demo's 2,777 jobs that stand in the way, others around them, and the file that is to keep them."""

    redis: Redis
    file: Path
    before: Sequence[Hashable]

    @classmethod
    def lay_out(cls, world: World) -> "Cleared":
        stored: Stored = world.once("jobs", lambda: _fill(world))
        stored.put(world.redis)
        return cls(world.redis, world.new_directory() / "cleared.jsonl", stored.contents)

    def read(self) -> Rows:
        """Read what is left, then what is there once the file has brought everything back."""
        left = listed(self.redis)
        self._leave_out_half_lines()
        put_back(self.redis, self.file)
        return {"left": left, "restored": listed(self.redis)}

    def _leave_out_half_lines(self) -> None:
        """Do what the operations page says after a kill in the middle of a line."""
        lines = self.file.read_bytes().splitlines(keepends=True)
        self.file.write_bytes(b"".join(line for line in lines if _is_whole(line)))


def listed(redis: Redis) -> list[Hashable]:
    """List every key with its value, and whether it expires."""
    return [(key, repr(_ordered(value))) for key, value in contents(redis).items()]


def _fill(world: World) -> Stored:
    redis = world.redis
    redis.flushall()
    scene.fill_queues(redis, world.directory)
    others = Scene(redis)
    waiting = [others.enqueue("ocr", OCR, "b.ca.us", page) for page in range(5)]
    others.fail_many(20, "clerk.workers.split_pdf_job")
    others.defer("clerk.workers.compile_db_job", on=waiting)
    keys = list(contents(redis))
    with redis.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.pttl(key)
            pipeline.dump(key)
        answers = pipeline.execute()
    return Stored(list(zip(keys, answers[::2], answers[1::2], strict=True)), listed(redis))


def _ordered(value: Any) -> Any:
    """Bring sets and hashes into an order: they have none in Redis."""
    if isinstance(value, dict):
        return sorted((name, _ordered(each)) for name, each in value.items())
    if isinstance(value, set):
        return sorted(value)
    return [_ordered(each) for each in value] if isinstance(value, list | tuple) else value


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
