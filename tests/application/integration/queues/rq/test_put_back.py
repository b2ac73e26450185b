"""Jobs put back by the script of the operations page, on a real Redis: byte for byte, and only missing ones."""

import json
import time
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ResponseError
from rq.group import Group
from rq.job import Job, JobStatus
from rq.queue import Queue

from pipestate.pipeline.queues import clear
from pipestate.pipeline.queues.config import QueueConfig
from pipestate.pipeline.queues.depths import Figures, figures
from pipestate.pipeline.queues.rq import RqQueues
from pipestate.pipeline.queues.rq import jobs as stored
from support.queue_scene import OCR, Scene, contents, lines, put_back

OBSTACLES = QueueConfig().obstacles()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cleared.jsonl"


def clear_all(scene: Scene, file: Path) -> None:
    queues = RqQueues(scene.redis)
    clear.apply(queues, clear.plan(queues, OBSTACLES), file)


def dumped(redis: Redis) -> dict[bytes, tuple[object, int]]:
    """Every key with its value and the moment when it expires."""
    now = int(time.time() * 1000)
    ends = {key: redis.pttl(key) for key in redis.keys("*")}
    return {
        key: (value, ends[key] if ends[key] < 0 else round((now + ends[key]) / 1000))
        for key, value in contents(redis).items()
    }


def same(before: dict[bytes, tuple[object, int]], after: dict[bytes, tuple[object, int]]) -> None:
    """A second may pass between two looks at a key that expires."""
    assert before.keys() == after.keys()
    for key, (value, end) in before.items():
        assert (key, value) == (key, after[key][0])
        assert abs(end - after[key][1]) <= 2, key


@pytest.mark.scene
def test_the_scene_of_the_runbook_comes_back(scene: Scene, file: Path) -> None:
    waiting, *_ = scene.bystanders()
    failed = [scene.run(), scene.run(), *scene.fail_many(400)]
    for site in range(82):
        scene.defer(on=[waiting, *failed[site * 4 : site * 4 + 3]], meta={"site": site})
    (gone, half) = scene.fail_many(2)
    scene.redis.delete(gone.key, gone.dependents_key, f"rq:results:{gone.id}")
    scene.redis.hdel(half.key, "data")
    before = dumped(scene.redis)
    clear_all(scene, file)
    assert scene.redis.zcard("rq:failed:ocr") == 20 + 1
    put_back(scene.redis, file)
    same(before, dumped(scene.redis))
    put_back(scene.redis, file)
    same(before, dumped(scene.redis))


def test_a_restored_job_is_one_for_rq(scene: Scene, file: Path) -> None:
    parent = scene.enqueue("ocr", OCR)
    waiting = scene.defer(on=[parent], meta={"a": 1})
    failed = scene.run(OCR, "a.ca.us", Path("x.pdf"))
    clear_all(scene, file)
    assert not Job.exists(failed.id, scene.redis)
    put_back(scene.redis, file)
    again = Job.fetch(failed.id, scene.redis)
    assert (again.args, again.get_status()) == (("a.ca.us", Path("x.pdf")), JobStatus.FAILED)
    result = again.latest_result()
    assert result is not None
    assert "Traceback" in str(result.exc_string)
    again.requeue()
    assert scene.queue("ocr").job_ids == [parent.id, failed.id]
    # And the deferred one starts when its parent ends, as it would have without the clearing.
    parent.set_status(JobStatus.FINISHED)
    scene.queue("ocr").enqueue_dependents(parent)
    assert scene.queue("compilation").job_ids == [waiting.id]


def test_a_group_gets_its_job_back(scene: Scene, file: Path) -> None:
    (job,) = Group.create(scene.redis, "pages").enqueue_many(
        scene.queue("ocr"), [Queue.prepare_data(OCR, ("a.ca.us",))]
    )
    scene.queue("ocr").remove(job)
    with scene.redis.pipeline() as pipeline:
        job.set_status(JobStatus.FAILED, pipeline=pipeline)
        job._handle_failure("killed", pipeline)
        pipeline.execute()
    before = dumped(scene.redis)
    clear_all(scene, file)
    assert scene.redis.keys("rq:group*") == []
    put_back(scene.redis, file)
    same(before, dumped(scene.redis))


def test_bytes_that_are_no_text_come_back(queues_url: str, scene: Scene, file: Path) -> None:
    (job,) = scene.fail_many(1)
    scene.redis.hset(job.key, mapping={b"odd\xff": b"\x00\xfe", b"meta": b"\x80"})
    scene.redis.xadd(f"rq:results:{job.id}", {b"\xff": b"\xfe\x00"})
    scene.redis.sadd(job.dependents_key, b"\xe9")
    before = contents(scene.redis)
    with stored.connected(queues_url) as redis:
        clear_all(Scene(redis), file)
        put_back(redis, file)
    assert contents(scene.redis) == before


def test_an_id_that_is_no_text_is_cleared_and_comes_back(queues_url: str, scene: Scene, file: Path) -> None:
    scene.redis.zadd("rq:failed:ocr", {b"caf\xe9": 7.25})
    before = contents(scene.redis)
    with stored.connected(queues_url) as redis:
        odd = Scene(redis)
        clear_all(odd, file)
        assert contents(scene.redis) == {}
        put_back(redis, file)
    assert contents(scene.redis) == before


def test_a_job_that_was_enqueued_again_is_left_alone(scene: Scene, file: Path) -> None:
    first, second = scene.fail_many(2)
    clear_all(scene, file)
    scene.enqueue("ocr", OCR, "b.ca.us", job_id=first.id)
    put_back(scene.redis, file)
    assert Job.fetch(first.id, scene.redis).args == ("b.ca.us",)
    assert scene.redis.zrange("rq:failed:ocr", 0, -1) == [second.id.encode()]


def test_what_would_have_expired_does_not_come_back(scene: Scene, file: Path) -> None:
    dying, lasting = scene.fail_many(2)
    scene.redis.pexpire(dying.key, 300)
    scene.redis.pexpire(f"rq:results:{lasting.id}", 300)
    clear_all(scene, file)
    time.sleep(0.4)
    put_back(scene.redis, file)
    assert Job.exists(lasting.id, scene.redis)
    assert not Job.exists(dying.id, scene.redis)
    assert scene.redis.exists(f"rq:results:{lasting.id}") == 0


def test_what_expires_later_expires_at_the_same_moment(scene: Scene, file: Path) -> None:
    (job,) = scene.fail_many(1)
    scene.redis.pexpire(job.key, 90_000)
    before = time.time() * 1000 + scene.redis.pttl(job.key)
    clear_all(scene, file)
    time.sleep(0.3)
    put_back(scene.redis, file)
    assert abs(time.time() * 1000 + scene.redis.pttl(job.key) - before) < 100


def test_the_runs_of_a_dead_worker_stay_away(scene: Scene, file: Path) -> None:
    from rq.executions import Execution

    (job,) = scene.fail_many(1)
    with scene.redis.pipeline() as pipeline:
        Execution.create(job, 600, pipeline)
        pipeline.execute()
    clear_all(scene, file)
    put_back(scene.redis, file)
    assert scene.redis.keys("rq:execution*") == []
    assert scene.redis.zcard("rq:wip:ocr") == 0


def test_of_two_lines_for_a_job_the_last_counts(scene: Scene, file: Path) -> None:
    (job,) = scene.fail_many(1)
    queues = RqQueues(scene.redis)
    first = clear.plan(queues, OBSTACLES)

    def change(_number: int) -> None:
        scene.redis.hset(job.key, "description", "another")

    assert [result.outcome for result in clear.apply(queues, first, file, on_exported=change)] == ["changed"]
    before = contents(scene.redis)
    clear_all(scene, file)
    assert len(lines(file)) == 2
    put_back(scene.redis, file)
    assert contents(scene.redis) == before


def test_a_restored_job_can_be_cleared_again(scene: Scene, file: Path) -> None:
    scene.defer(on=scene.fail_many(3))
    clear_all(scene, file)
    put_back(scene.redis, file)
    plan = clear.plan(RqQueues(scene.redis), OBSTACLES)
    assert figures(result.subject for result in plan.to_do) == Figures(1, 3)
    clear_all(scene, file)
    assert contents(scene.redis) == {b"rq:queues": contents(scene.redis)[b"rq:queues"]}


def test_an_altered_value_is_refused_by_redis(scene: Scene, file: Path) -> None:
    (job,) = scene.fail_many(1)
    clear_all(scene, file)
    (line,) = lines(file)
    value = bytearray(b64decode(line["keys"][job.key][0]))
    value[5] ^= 1
    line["keys"][job.key][0] = b64encode(value).decode()
    file.write_text(json.dumps(line))
    with pytest.raises(ResponseError, match="DUMP payload version or checksum are wrong"):
        put_back(scene.redis, file)
    assert not Job.exists(job.id, scene.redis)


def test_half_a_line_stops_the_script_before_anything_is_written(scene: Scene, file: Path) -> None:
    scene.fail_many(2)
    clear_all(scene, file)
    before = contents(scene.redis)
    file.write_text(file.read_text()[:-20])
    with pytest.raises(ValueError, match=r"Unterminated string|delimiter|Expecting"):
        put_back(scene.redis, file)
    assert contents(scene.redis) == before
