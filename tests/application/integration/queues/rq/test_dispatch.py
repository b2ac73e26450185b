"""Calls on their way through RQ, while it moves them."""

import time
from typing import Any

import pytest
from redis import Connection, Redis
from rq import Queue

from pipestate.pipeline.queues.rq import RqQueues
from support.queue_scene import Scene
from support.queues import RqBed


def test_a_scheduled_job_that_comes_due_is_seen_in_one_place_or_the_other(
    scene: Scene, queues_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = RqBed(scene.redis).put("scheduled", "ocr_page_job")
    queue = Queue("ocr", connection=scene.redis)
    plain: Any = Connection.send_packed_command
    moved: list[str] = []

    def send(self: Connection, command: Any, check_health: bool = True) -> None:
        plain(self, command, check_health)
        if not moved and queue.key.encode() in b"".join(command):
            moved.append(job_id)
            with Redis.from_url(queues_url) as other:
                time.sleep(0.1)
                other.zrem(queue.scheduled_job_registry.key, job_id)
                other.rpush(queue.key, job_id)

    monkeypatch.setattr(Connection, "send_packed_command", send)
    assert dict(RqQueues(scene.redis).alive(["ocr"]).calls) == {("a.gov", "ocr_page_job"): 1}
