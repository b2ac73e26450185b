"""Clearing the queues on a real Redis: only the jobs meant, with all that belongs to them, and in a file."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Barrier, Thread

import pytest
from redis import Redis
from rq import SimpleWorker
from rq.exceptions import InvalidJobOperation, NoSuchJobError
from rq.executions import Execution
from rq.group import Group
from rq.job import Job, JobStatus
from rq.queue import Queue
from rq.results import Result as RqResult

from pipestate.core.errors import ConfigError
from pipestate.pipeline.planning import Plan, Result, SubjectOutcome
from pipestate.pipeline.queues import clear
from pipestate.pipeline.queues.config import QueueConfig
from pipestate.pipeline.queues.depths import Figures, count_blocked, figures
from pipestate.pipeline.queues.port import Blocked, Destination, Exported, Obstacle, State
from pipestate.pipeline.queues.rq import RqQueues
from pipestate.pipeline.queues.rq import jobs as stored
from pipestate.pipeline.queues.rq.jobs import EXECUTIONS, JOBS, keys_of, registry_key
from support.queue_scene import COORDINATOR, OCR, Scene, contents, lines

NOTHING = {"deferred_coordinators": 0.0, "failed_ocr_jobs": 0.0}
BYSTANDERS = {"deferred_coordinators": 1.0, "failed_ocr_jobs": 21.0}
CONFIG = QueueConfig()


@dataclass(frozen=True)
class Cleared:
    """The results of a clearing in short: what was deleted, the ids that changed, and those that were gone."""

    deleted: Figures
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cleared.jsonl"


def plan(scene: Scene, config: QueueConfig = CONFIG) -> Plan[Blocked]:
    return clear.plan(RqQueues(scene.redis), config.obstacles())


def planned(scene: Scene) -> list[Blocked]:
    return [result.subject for result in plan(scene).to_do]


def apply(scene: Scene, plan: Plan[Blocked], file: Path, *then: Callable[[], object]) -> Cleared:
    """Clear; between the export and the deletion, something else happens."""

    def exported(_number: int) -> None:
        for each in then:
            each()

    return in_short(clear.apply(RqQueues(scene.redis), plan, file, on_exported=exported))


def clear_all(scene: Scene, file: Path, *then: Callable[[], object]) -> Cleared:
    return apply(scene, plan(scene), file, *then)


def in_short(results: list[Result[Blocked]]) -> Cleared:
    def ids(outcome: SubjectOutcome) -> tuple[str, ...]:
        return tuple(result.subject.id for result in results if result.outcome is outcome)

    deleted = figures(result.subject for result in results if result.outcome is SubjectOutcome.DELETED)
    return Cleared(deleted, ids(SubjectOutcome.CHANGED), ids(SubjectOutcome.GONE))


def counts(scene: Scene, config: QueueConfig = CONFIG) -> dict[str, float]:
    return count_blocked(RqQueues(scene.redis), config)


@pytest.mark.scene
def test_the_scene_of_the_runbook(scene: Scene, queues_url: str, file: Path) -> None:
    waiting, *_ = scene.bystanders()
    before = contents(scene.redis)
    ran = [scene.run(), scene.run()]
    failed = ran + scene.fail_many(2693)
    for site in range(82):
        scene.defer(on=[waiting, *failed[site * 30 : site * 30 + 3]])
    assert counts(scene) == {"deferred_coordinators": 83.0, "failed_ocr_jobs": 2716.0}

    cleared = clear_all(scene, file)

    assert cleared == Cleared(Figures(82, 2695, 0))
    assert contents(scene.redis) == before, "as if they had never been, and the others as they were"
    assert counts(scene) == BYSTANDERS, "the gate stays closed"
    assert len({line["id"] for line in lines(file)}) == 82 + 2695
    assert planned(scene) == []


def test_planning_changes_nothing(scene: Scene, queues_url: str) -> None:
    scene.bystanders()
    jobs = scene.fail_many(3)
    scene.defer(on=jobs)
    # Expired long ago: what lists a registry through RQ would drop it.
    scene.redis.zadd("rq:failed:ocr", {jobs[0].id: 1.0})
    before = contents(scene.redis)
    assert figures(planned(scene)) == Figures(1, 3, 0)
    counts(scene)
    assert contents(scene.redis) == before


def test_ids_whose_job_is_gone_go_as_well(scene: Scene, queues_url: str, file: Path) -> None:
    scene.bystanders()
    before = contents(scene.redis)
    (failed,) = scene.fail_many(1)
    deferred = scene.defer(on=[failed])
    scene.redis.delete(failed.key, deferred.key)
    (half,) = scene.fail_many(1)
    scene.redis.hdel(half.key, "data")  # what a late heartbeat leaves: RQ finds no job in it
    assert counts(scene) == {"deferred_coordinators": 2.0, "failed_ocr_jobs": 23.0}
    assert clear_all(scene, file).deleted == Figures(0, 0, 3)
    assert contents(scene.redis) == before
    assert [line["dangling"] for line in lines(file)] == [True] * 3


def test_a_dangling_id_whose_job_comes_back_is_left(scene: Scene, file: Path) -> None:
    (job,) = scene.fail_many(1)
    scene.redis.delete(job.key)

    def come_back() -> None:
        scene.redis.zrem("rq:failed:ocr", job.id)
        scene.enqueue("ocr", OCR, "a.ca.us", job_id=job.id)

    assert clear_all(scene, file, come_back).changed == (job.id,)
    assert Job.exists(job.id, scene.redis)


def test_what_cannot_be_read_stays(scene: Scene, queues_url: str, file: Path) -> None:
    (job,) = scene.fail_many(1)
    scene.redis.hset(job.key, "data", b"\x80\x04 no pickle")
    before = contents(scene.redis)
    assert planned(scene) == []
    assert contents(scene.redis) == before
    assert counts(scene) == NOTHING | {"failed_ocr_jobs": 1.0}
    named = clear.plan(RqQueues(scene.redis), CONFIG.obstacles(), [stored.UNREADABLE])
    assert apply(scene, named, file).deleted == Figures(0, 1, 0)


@pytest.mark.parametrize("status", [JobStatus.QUEUED, JobStatus.STARTED, JobStatus.FINISHED])
def test_a_job_that_has_moved_on_stays_although_a_registry_kept_its_id(
    scene: Scene, queues_url: str, status: JobStatus
) -> None:
    deferred = scene.defer(on=[scene.enqueue("ocr", OCR)])
    deferred.set_status(status)
    assert planned(scene) == []
    assert counts(scene) == NOTHING, "it is not deferred"


def test_stopped_jobs_lie_among_the_failed_and_go(scene: Scene, file: Path) -> None:
    (job,) = scene.fail_many(1)
    job.set_status(JobStatus.STOPPED)
    assert clear_all(scene, file).deleted == Figures(0, 1, 0)


def test_jobs_of_the_json_serializer(scene: Scene, file: Path) -> None:
    queue = Queue("compilation", connection=scene.redis, serializer="json")
    job = queue.enqueue(COORDINATOR, "a.ca.us", depends_on=[scene.enqueue("ocr", OCR)])
    assert clear_all(scene, file).deleted == Figures(1, 0, 0)
    (line,) = lines(file)
    assert (line["id"], line["subdomain"]) == (job.id, "a.ca.us")


def test_groups_and_runs_of_a_job_leave_nothing(scene: Scene, file: Path) -> None:
    scene.bystanders()
    before = contents(scene.redis)
    (job,) = Group.create(scene.redis, "pages").enqueue_many(
        scene.queue("ocr"), [Queue.prepare_data(OCR, ("a.ca.us",))]
    )
    scene.queue("ocr").remove(job)
    with scene.redis.pipeline() as pipeline:
        Execution.create(job, 600, pipeline)  # a worker that was killed leaves one behind
        job.set_status(JobStatus.FAILED, pipeline=pipeline)
        job._handle_failure("killed", pipeline)
        pipeline.execute()
    assert clear_all(scene, file).deleted == Figures(0, 1, 0)
    assert contents(scene.redis) == before


def test_other_names_for_queues_and_functions(queues_url: str, scene: Scene, file: Path) -> None:
    other = Scene(scene.redis, ocr="scans", compilation="build")
    other.fail_many(2, "app.read_page")
    other.defer("app.pages_done", on=[other.enqueue("scans", "app.read_page")])
    scene.fail_many(1)
    config = QueueConfig(
        {"ocr": Destination("scans", "app.read_page")}, {"ocr": Destination("build", "app.pages_done")}
    )
    assert counts(scene, config) == {"deferred_coordinators": 1.0, "failed_ocr_jobs": 2.0}
    assert apply(scene, plan(scene, config), file).deleted == Figures(1, 2, 0)
    assert counts(scene) == {"deferred_coordinators": 0.0, "failed_ocr_jobs": 1.0}


def test_the_keys_are_those_of_rq(scene: Scene) -> None:
    job = scene.defer(on=[scene.enqueue("ocr", OCR)])
    keys = keys_of(job.id)
    assert keys.job == job.key
    assert keys.dependents == job.dependents_key
    assert keys.dependencies == job.dependencies_key
    assert keys.executions == job.execution_registry.key
    assert keys.results == RqResult.get_key(job.id)  # type: ignore[no-untyped-call]
    assert scene.queue("ocr").started_job_registry.key == "rq:wip:ocr"
    assert Job.redis_job_namespace_prefix == JOBS
    assert Execution("run", job.id, scene.redis).key == f"{EXECUTIONS}{job.id}:run"
    failed, deferred = (Obstacle("ocr", state, "") for state in (State.FAILED, State.DEFERRED))
    assert registry_key(failed) == scene.queue("ocr").failed_job_registry.key
    assert registry_key(deferred) == scene.queue("ocr").deferred_job_registry.key


# What changes between the plan and the deletion.


def test_a_job_that_is_requeued_after_the_export_stays(scene: Scene, file: Path) -> None:
    back, stays_failed = scene.fail_many(2)
    assert clear_all(scene, file, back.requeue) == Cleared(Figures(0, 1, 0), changed=(back.id,))
    assert Job.fetch(back.id, scene.redis).args == back.args
    assert scene.queue("ocr").job_ids == [back.id]
    assert not Job.exists(stays_failed.id, scene.redis)


def test_a_job_that_failed_once_more_is_not_the_one_in_the_file(scene: Scene, file: Path) -> None:
    job = scene.run()
    queue = scene.queue("ocr")

    def fail_once_more() -> None:
        job.requeue()
        queue.remove(job)
        SimpleWorker([queue], connection=scene.redis).execute_job(job, queue)

    assert clear_all(scene, file, fail_once_more).changed == (job.id,)
    assert job.id in queue.failed_job_registry.get_job_ids()


def test_a_coordinator_whose_jobs_end_meanwhile_stays(scene: Scene, file: Path) -> None:
    parent = scene.enqueue("ocr", OCR)
    coordinator = scene.defer(on=[parent])

    def end() -> None:
        parent.set_status(JobStatus.FINISHED)
        scene.queue("ocr").enqueue_dependents(parent)

    assert clear_all(scene, file, end).changed == (coordinator.id,)
    assert scene.queue("compilation").job_ids == [coordinator.id]


def test_a_job_that_changes_between_plan_and_export_is_not_in_the_file(scene: Scene, file: Path) -> None:
    back, _ = scene.fail_many(2)
    the_plan = plan(scene)
    back.requeue()
    assert apply(scene, the_plan, file).changed == (back.id,)
    assert back.id not in {line["id"] for line in lines(file)}


def test_two_at_once_delete_each_job_once(scene: Scene, queues_url: str, tmp_path: Path) -> None:
    scene.bystanders()
    before = contents(scene.redis)
    scene.fail_many(600)
    the_plan, start, found = plan(scene), Barrier(2), []

    def one() -> None:
        with Redis.from_url(queues_url) as redis:
            found.append(apply(Scene(redis), the_plan, tmp_path / "same.jsonl", lambda: start.wait(10)))

    threads = [Thread(target=one) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(each.deleted.failed_ocr_jobs for each in found) == 600
    assert sum(len(each.gone) for each in found) == 600
    assert contents(scene.redis) == before
    assert len(lines(tmp_path / "same.jsonl")) == 1200, "whole lines, though both wrote"


def test_while_others_requeue_a_job_is_deleted_or_queued_never_both(
    scene: Scene, queues_url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = scene.fail_many(300)
    monkeypatch.setattr(stored, "PAGE", 5)
    start = Barrier(2)

    def requeue() -> None:
        with Redis.from_url(queues_url) as redis:
            start.wait(10)
            for job in reversed(jobs):
                with suppress(InvalidJobOperation, NoSuchJobError):
                    Job.fetch(job.id, redis).requeue()

    thread = Thread(target=requeue)
    thread.start()
    cleared = clear_all(scene, file, lambda: start.wait(10))
    thread.join(30)
    queued = set(scene.queue("ocr").job_ids)
    assert queued == set(cleared.changed)
    assert cleared.deleted.failed_ocr_jobs + len(queued) == 300
    assert {job.id for job in jobs if Job.exists(job.id, scene.redis)} == queued


def test_killed_half_way_a_rerun_finishes(scene: Scene, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.bystanders()
    before = contents(scene.redis)
    scene.defer(on=scene.fail_many(50))
    monkeypatch.setattr(stored, "PAGE", 10)
    list(islice(RqQueues(scene.redis).clear(exported(scene, file)), 20))  # two pages, and then the end
    assert len(planned(scene)) == 31
    assert clear_all(scene, file).deleted == Figures(0, 31, 0)
    assert contents(scene.redis) == before
    assert len(lines(file)) == 51 + 31


# The file.


def test_the_file_tells_what_the_job_was(scene: Scene, file: Path) -> None:
    job = scene.run(OCR, "a.ca.us", Path("x.pdf"), description="page 1")
    clear_all(scene, file)
    (line,) = lines(file)
    assert line["id"] == job.id
    assert (line["queue"], line["registry"], line["origin"]) == ("ocr", "failed", "ocr")
    assert (line["function"], line["subdomain"]) == (OCR, "a.ca.us")
    assert (line["status"], line["description"]) == ("failed", "page 1")
    assert "Traceback" in line["exc_info"]
    assert "clerk" in line["exc_info"]
    assert all(line[name] for name in ("created_at", "enqueued_at", "started_at", "ended_at"))
    assert file.stat().st_mode & 0o077 == 0, "arguments and tracebacks may hold secrets"


def test_a_result_that_rq_has_not_written_is_exported_all_the_same(scene: Scene, file: Path) -> None:
    (job,) = scene.fail_many(1)
    scene.redis.xadd(f"rq:results:{job.id}", {"exc_string": "no base64 at all"})
    assert clear_all(scene, file).deleted == Figures(0, 1, 0)
    assert lines(file)[0]["exc_info"] == "no base64 at all"


def test_the_file_is_appended_to_and_half_a_line_is_ended(scene: Scene, file: Path) -> None:
    file.write_text('{"kept": 1}\n{"half')
    scene.fail_many(1)
    clear_all(scene, file)
    first, half, job = file.read_text().splitlines()
    assert (first, half) == ('{"kept": 1}', '{"half')
    assert json.loads(job)["status"] == "failed"


@pytest.mark.parametrize("where", ["no/such/directory.jsonl", ".", "/dev/full"])
def test_without_a_file_nothing_is_deleted(scene: Scene, tmp_path: Path, where: str) -> None:
    scene.fail_many(3)
    before = contents(scene.redis)
    with pytest.raises(ConfigError, match=r"cannot write .*: .*; nothing was deleted"):
        clear_all(scene, tmp_path / where)
    assert contents(scene.redis) == before


def exported(scene: Scene, file: Path) -> list[Exported]:
    read = clear.export(RqQueues(scene.redis), planned(scene), file)
    return [each for each in read if isinstance(each, Exported)]


def test_only_what_was_exported_is_cleared(scene: Scene, file: Path) -> None:
    scene.fail_many(2)
    first, second = exported(scene, file)
    assert list(RqQueues(scene.redis).clear([first])) == [SubjectOutcome.DELETED]
    assert planned(scene) == [second.job]
