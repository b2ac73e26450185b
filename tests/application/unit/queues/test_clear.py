"""Clearing by the port alone, over a queue that is a list in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipestate.pipeline.planning import SubjectOutcome
from pipestate.pipeline.queues import clear
from pipestate.pipeline.queues.depths import Figures, figures
from pipestate.pipeline.queues.port import Alive, Blocked, Call, Depth, Exported, Obstacle, State
from support.long_form import times
from support.queue_scene import lines

FAILED = Obstacle("ocr", State.FAILED, "ocr_page_job")
DEFERRED = Obstacle("compilation", State.DEFERRED, "ocr_complete_coordinator")


@dataclass
class ListQueues:
    """Jobs by id; an even version blocks the pipeline, and whoever changes a job counts it up."""

    jobs: dict[str, int]
    obstacle: Obstacle = FAILED
    deleted: list[str] = field(default_factory=list)

    def depths(self, queues: Sequence[str]) -> list[Depth]:
        return [Depth(name) for name in queues]

    def alive(self, queues: Sequence[str]) -> Alive:
        return Alive()

    def send(self, calls: Sequence[Call]) -> None:
        raise NotImplementedError

    def blocked(self, obstacles: Sequence[Obstacle]) -> list[Blocked]:
        assert self.obstacle in obstacles
        return [Blocked(job, self.obstacle) for job, version in self.jobs.items() if version % 2 == 0]

    def export(self, jobs: Sequence[Blocked]) -> Iterator[Exported | SubjectOutcome]:
        for job in jobs:
            version = self.jobs.get(job.id)
            if version is None or version % 2:
                yield SubjectOutcome.GONE if version is None else SubjectOutcome.CHANGED
            else:
                yield Exported(job, {"version": version}, proof=version)

    def clear(self, jobs: Sequence[Exported]) -> Iterator[SubjectOutcome]:
        for exported in jobs:
            version = self.jobs.get(exported.job.id)
            if version == exported.proof:
                del self.jobs[exported.job.id]
                self.deleted.append(exported.job.id)
                yield SubjectOutcome.DELETED
            else:
                yield SubjectOutcome.GONE if version is None else SubjectOutcome.CHANGED


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cleared.jsonl"


def test_every_job_is_in_the_file_before_the_first_is_deleted(file: Path) -> None:
    queues = ListQueues({f"j{number}": 0 for number in range(2500)})
    reported: list[tuple[int, int, list[str]]] = []

    def exported(number: int) -> None:
        reported.append((number, len(lines(file)), list(queues.deleted)))

    clear.apply(queues, clear.plan(queues, (DEFERRED, FAILED)), file, on_exported=exported)
    assert reported == [(2500, 2500, [])]
    assert len(queues.deleted) == 2500


def test_figures_tell_jobs_by_what_they_are() -> None:
    jobs = [Blocked("1", DEFERRED), Blocked("2", FAILED), Blocked("3", FAILED), Blocked("4", FAILED, True)]
    assert figures(jobs) == Figures(1, 2, 1)
    assert not figures([])


versions = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 5))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=times(40, long=200),
)
@given(versions, versions, versions)
def test_whatever_others_do_meanwhile_each_result_is_what_happened(
    file: Path, at_first: dict[str, int], at_export: dict[str, int], at_deletion: dict[str, int]
) -> None:
    """Only what is in the file as it was is deleted; everything else stays as others left it."""
    file.unlink(missing_ok=True)
    queues = ListQueues(dict(at_first))
    plan = clear.plan(queues, (FAILED,))
    queues.jobs = dict(at_export)

    def meanwhile(_number: int) -> None:
        queues.jobs = dict(at_deletion)

    results = clear.apply(queues, plan, file, on_exported=meanwhile)
    assert [result.subject.id for result in results] == [job for job, v in at_first.items() if v % 2 == 0]
    saved = {line["id"]: line["version"] for line in lines(file)}
    for result in results:
        job = result.subject.id
        if result.outcome is SubjectOutcome.DELETED:
            assert saved[job] == at_deletion[job] == at_export[job]
            assert job not in queues.jobs
        else:
            assert queues.jobs.get(job) == at_deletion.get(job)
    untouched = {job: version for job, version in at_deletion.items() if job not in queues.deleted}
    assert queues.jobs == untouched
