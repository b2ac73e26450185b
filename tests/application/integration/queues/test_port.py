"""What every implementation of the queue port promises, over each of them."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from pipestate.core.errors import Unreachable
from pipestate.pipeline.planning import Result, SubjectOutcome
from pipestate.pipeline.queues import clear
from pipestate.pipeline.queues.port import Blocked, Call, Destination, Obstacle, Queues, State
from support.queue_scene import lines
from support.queues import QUEUES, QueueBed

FAILED = Obstacle("ocr", State.FAILED, "ocr_page_job")
DEFERRED = Obstacle("ocr", State.DEFERRED, "ocr_complete_coordinator")
JOB = Destination("ocr", "clerk.workers.ocr_page_job", 600)


@pytest.fixture
def queues(jobs: QueueBed) -> Queues:
    return jobs.queues


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cleared.jsonl"


def call(number: int) -> Call:
    return Call(JOB, {"subdomain": "a.gov", "run_id": "again", "page": number})


def test_what_is_sent_waits_in_order_and_is_alive(jobs: QueueBed, queues: Queues) -> None:
    queues.send([call(number) for number in range(3)])
    assert jobs.waiting() == [("ocr", "ocr_page_job", dict(call(number).kwargs)) for number in range(3)]
    assert dict(queues.alive(QUEUES).calls) == {("a.gov", "ocr_page_job"): 3}
    assert queues.alive(["deploy"]).of("a.gov", JOB) == 0


def test_all_calls_are_sent_or_none(jobs: QueueBed, queues: Queues) -> None:
    unsendable = Call(JOB, {"subdomain": "a.gov", "page": lambda: 0})
    with pytest.raises((TypeError, AttributeError, ValueError)):
        queues.send([call(1), unsendable])
    assert jobs.waiting() == []


def test_a_queue_that_does_not_answer_is_unreachable(jobs: QueueBed) -> None:
    with pytest.raises(Unreachable, match="does not answer"), jobs.unreachable() as lost:
        lost.send([call(1)])


@pytest.mark.parametrize("where", ["queued", "scheduled", "running"])
def test_what_will_run_is_alive_and_does_not_block(jobs: QueueBed, queues: Queues, where: str) -> None:
    jobs.put(where, "ocr_page_job")
    assert queues.alive(QUEUES).of("a.gov", JOB) == 1
    assert queues.blocked([FAILED, DEFERRED]) == []


def test_depths_count_each_queue(jobs: QueueBed, queues: Queues) -> None:
    for where in ("queued", "scheduled", "running", "failed", "deferred"):
        jobs.put(where, "ocr_page_job")
    ocr, deploy = queues.depths(["ocr", "deploy"])
    assert (ocr.queued, ocr.scheduled, ocr.started, ocr.failed, ocr.deferred, ocr.finished) == (
        *(1, 1, 1, 1, 1),
        0,
    )
    assert (deploy.queue, deploy.queued, deploy.failed) == ("deploy", 0, 0)


def put_blocked(jobs: QueueBed) -> list[Blocked]:
    """A job of each obstacle, and others around them."""
    jobs.put("queued", "ocr_page_job")
    other = jobs.put("failed", "split_pdf_job")
    coordinator = jobs.put("deferred", "ocr_complete_coordinator")
    page = jobs.put("failed", "ocr_page_job")
    return [
        Blocked(coordinator, DEFERRED),
        *sorted(
            (Blocked(other, FAILED, other="split_pdf_job"), Blocked(page, FAILED)), key=lambda job: job.id
        ),
    ]


def test_reading_changes_nothing(jobs: QueueBed, queues: Queues) -> None:
    put_blocked(jobs)
    before = jobs.everything()
    queues.depths(QUEUES)
    queues.alive(QUEUES)
    list(queues.export(queues.blocked([DEFERRED, FAILED])))
    assert jobs.everything() == before


def by_id(jobs: Iterable[Blocked]) -> list[Blocked]:
    return sorted(jobs, key=lambda job: (job.obstacle is FAILED, job.id))


def test_clear_takes_its_functions_and_says_what_it_leaves(
    jobs: QueueBed, queues: Queues, file: Path
) -> None:
    blocked = put_blocked(jobs)
    (other,) = [job for job in blocked if job.other]
    before = jobs.everything()
    plan = clear.plan(queues, (DEFERRED, FAILED))
    assert by_id(result.subject for result in plan.expected) == blocked
    results = clear.apply(queues, plan, file)
    assert results == plan.expected
    assert queues.blocked([DEFERRED, FAILED]) == [other]
    assert len(lines(file)) == 2

    cleared = jobs.everything()
    assert cleared != before
    left = [Result(other, SubjectOutcome.SKIPPED)]
    assert clear.apply(queues, clear.plan(queues, (DEFERRED, FAILED)), file) == left
    assert jobs.everything() == cleared


def test_clear_takes_another_function_by_its_name(jobs: QueueBed, queues: Queues, file: Path) -> None:
    put_blocked(jobs)
    results = clear.apply(queues, clear.plan(queues, (DEFERRED, FAILED), ["split_pdf_job"]), file)
    assert [result.outcome for result in results] == [SubjectOutcome.DELETED] * 3
    assert queues.blocked([DEFERRED, FAILED]) == []
    assert len(lines(file)) == 3


def test_what_was_deleted_by_somebody_else_is_gone(jobs: QueueBed, queues: Queues, file: Path) -> None:
    put_blocked(jobs)
    plan = clear.plan(queues, (DEFERRED, FAILED))
    lost = sorted([SubjectOutcome.GONE, SubjectOutcome.GONE, SubjectOutcome.SKIPPED])
    results = clear.apply(queues, plan, file, on_exported=lambda _: jobs.lose_all())
    assert sorted(result.outcome for result in results) == lost
    assert sorted(result.outcome for result in clear.apply(queues, plan, file)) == lost


def test_progress_is_reported_to_its_end(jobs: QueueBed, queues: Queues, file: Path) -> None:
    put_blocked(jobs)
    reported: list[tuple[int, int]] = []
    clear.apply(
        queues,
        clear.plan(queues, (DEFERRED, FAILED)),
        file,
        on_progress=lambda done, total: reported.append((done, total)),
    )
    assert reported[-1] == (2, 2)
    assert reported == sorted(reported)
