"""The export file: what is written can be read, and what was changed since cannot."""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipestate.core.errors import ConfigError
from pipestate.pipeline.queues.clear import appending, as_line, read_saved
from pipestate.pipeline.queues.port import Blocked, DamagedExport, Exported, Obstacle, Saved, State
from support.long_form import times
from support.servers import memory

names = st.text(min_size=1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
blocked = st.builds(
    Blocked, names, st.builds(Obstacle, names, st.sampled_from(State), st.just("")), st.booleans()
)
OWN = {"format", "id", "queue", "registry", "dangling", "sha256", "function"}
contents = st.dictionaries(names.filter(lambda name: name not in OWN), json_values, max_size=4)


@pytest.fixture
def file() -> Iterator[Path]:
    """In memory: each line is written through to the disk, which is what an export is for, not these tests."""
    with TemporaryDirectory(dir=memory()) as directory:
        yield Path(directory, "kept.jsonl")


def make_exported(job_id: str = "1", **content: Any) -> Exported:
    return Exported(Blocked(job_id, Obstacle("ocr", State.FAILED, "")), content, proof=None)


def write(file: Path, *jobs: Exported, format: str = "rq/1") -> None:
    with appending(file) as append:
        append(b"".join(as_line(format, job) for job in jobs))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=times(60, long=500),
)
@given(st.lists(st.tuples(blocked, contents), min_size=1, max_size=5, unique_by=lambda each: each[0].id))
def test_what_is_written_is_read(file: Path, jobs: list[tuple[Blocked, dict[str, Any]]]) -> None:
    file.unlink(missing_ok=True)
    write(file, *(Exported(job, content, None) for job, content in jobs))
    assert read_saved(file, "rq/1") == [
        Saved(job, content, f"{file}:{number}") for number, (job, content) in enumerate(jobs, 1)
    ]


def test_the_last_line_of_a_job_counts(file: Path) -> None:
    write(file, make_exported("1", n=1), make_exported("2", n=2))
    write(file, make_exported("1", n=3))
    assert [(saved.job.id, saved.content["n"]) for saved in read_saved(file, "rq/1")] == [("1", 3), ("2", 2)]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=times(60, long=500),
)
@given(st.data())
def test_a_byte_that_changes_is_noticed(file: Path, data: st.DataObject) -> None:
    file.unlink(missing_ok=True)
    write(file, make_exported("1", text="abc", number=7))
    line = bytearray(file.read_bytes())
    at = data.draw(st.integers(0, len(line) - 2))
    line[at] = data.draw(st.integers(0, 255).filter(lambda value: value != line[at]))
    file.write_bytes(bytes(line))
    try:
        (saved,) = read_saved(file, "rq/1")
    except DamagedExport:
        return
    assert saved.content == {"text": "abc", "number": 7}, "only a space can have become another one"


@pytest.mark.parametrize("key", ["id", "queue", "registry", "dangling"])
def test_a_line_without_its_job_is_refused(file: Path, key: str) -> None:
    from pipestate.pipeline.queues.clear import _digest

    write(file, make_exported())
    fields = json.loads(file.read_text())
    del fields[key], fields["sha256"]
    file.write_text(json.dumps({**fields, "sha256": _digest(fields)}))
    with pytest.raises(DamagedExport, match=f"kept.jsonl:1: this job has no usable '{key}'"):
        read_saved(file, "rq/1")


def test_a_state_that_blocks_nothing_is_refused(file: Path) -> None:
    from pipestate.pipeline.queues.clear import _digest

    write(file, make_exported())
    fields = json.loads(file.read_text()) | {"registry": "finished"}
    del fields["sha256"]
    file.write_text(json.dumps({**fields, "sha256": _digest(fields)}))
    with pytest.raises(DamagedExport, match="'finished' is not a valid State"):
        read_saved(file, "rq/1")


def test_a_deeply_nested_line_is_refused(file: Path) -> None:
    file.write_text("[" * 100_000)
    with pytest.raises(DamagedExport, match="no line of JSON"):
        read_saved(file, "rq/1")


def test_a_missing_file_is_named(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*kept.jsonl: No such file"):
        read_saved(file, "rq/1")
