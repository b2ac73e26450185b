"""A stored job as JSON, and back: every byte of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipestate.pipeline.queues.port import Blocked, DamagedExport, Obstacle, Saved, State
from pipestate.pipeline.queues.rq.stored_job import EXPIRING, StoredJob, as_content, read_content

JOB = Blocked("1", Obstacle("ocr", State.FAILED, "ocr_page_job"))
ids = st.lists(st.binary(max_size=8).map(lambda raw: raw.decode(errors="surrogateescape"))).map(tuple)
hashes = st.dictionaries(st.binary(), st.binary(), max_size=5)
stored = st.builds(
    StoredJob,
    fields=hashes,
    results=st.lists(st.tuples(st.binary(), hashes), max_size=3),
    score=st.floats(allow_nan=False),
    dependencies=ids,
    dependents=ids,
    expires_at=st.dictionaries(st.sampled_from(EXPIRING), st.integers(0, 2**53)),
)


def saved(content: Any) -> Saved:
    return Saved(JOB, content, "kept.jsonl:7")


@given(stored)
def test_a_job_comes_back_from_its_json(job: StoredJob) -> None:
    assert read_content(saved(json.loads(json.dumps(as_content(job))))) == job


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"status": "no base64!"}},
        {"data": ["status"]},
        {"results": [["1-0"]]},
        {"results": {"1-0": {}}},
        {"score": None},
        {"score": "soon"},
        {"score": "nan"},
        {"dependency_ids": [7]},
        {"dependent_ids": None},
        {"expires_at": {"job": "tomorrow"}},
    ],
    ids=str,
)
def test_what_cannot_have_been_exported_is_refused(change: dict[str, Any]) -> None:
    content = as_content(StoredJob({b"status": b"failed"}, score=1.5)) | change
    with pytest.raises(DamagedExport, match=r"kept.jsonl:7: this job cannot be read"):
        read_content(saved(content))
