"""A stored job as JSON, and back: what an export file keeps of it.

Bytes that must come back exactly are base64, or text whose odd bytes are escaped the way Python escapes them
in file names. Function, arguments, times and traceback stand beside them for people, and are not read again.
"""

import base64
import json
import math
import reprlib
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

from pipestate.pipeline.error_text import truncate
from pipestate.pipeline.queues.port import DamagedExport, Saved
from pipestate.pipeline.queues.rq.connection import text
from pipestate.pipeline.queues.rq.function_call import Opaque, load_plain
from pipestate.pipeline.queues.rq.stored_job import EXPIRING, StoredJob

FORMAT = "rq/1"
TIMES = ("created_at", "enqueued_at", "started_at", "ended_at")


def as_content(job: StoredJob) -> dict[str, Any]:
    """Tell people what the job was about; from `data` to `expires_at` stands all that brings it back."""
    call = job.call
    return {
        "origin": job.text("origin"),
        "function": call.function if call else None,
        "args": as_json(call.args) if call else None,
        "kwargs": as_json(call.kwargs) if call else None,
        "status": job.text("status"),
        **{name: job.text(name) for name in TIMES},
        "description": job.text("description"),
        "meta": _meta(job.fields.get(b"meta")),
        "exc_info": job.error,
        "dependency_ids": list(job.dependencies),
        "dependent_ids": list(job.dependents),
        "score": None if job.score is None else str(job.score),
        "data": {text(name): base64.b64encode(value).decode() for name, value in job.fields.items()},
        "results": [[text(id_), {text(k): text(v) for k, v in entry.items()}] for id_, entry in job.results],
        "expires_at": dict(job.expires_at),
    }


def read_content(saved: Saved) -> StoredJob:
    """Make the stored job again; DamagedExport where `as_content` cannot have written this.

    >>> job = StoredJob({b"data": b"\\x80"}, [(b"1-0", {b"type": b"2"})], 1.5, ("a",), (), {"job": 7})
    >>> read_content(Saved(None, as_content(job), "kept.jsonl:1")) == job
    True
    """
    content = saved.content
    try:
        return StoredJob(
            {_bytes(name): base64.b64decode(value, validate=True) for name, value in content["data"].items()},
            [(_bytes(id_), _entry(entry)) for id_, entry in content["results"]],
            _score(content["score"]),
            tuple(map(_id, content["dependency_ids"])),
            tuple(map(_id, content["dependent_ids"])),
            {name: int(content["expires_at"][name]) for name in EXPIRING if name in content["expires_at"]},
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {truncate(str(error), 100)}"
        raise DamagedExport(saved.where, f"this job cannot be read ({reason})") from error


def as_json(value: Any) -> Any:
    """Return what JSON can hold; times and numbers as text, an object of the application as its name.

    >>> as_json((1, {"page": b"x"}, float("nan")))
    "(1, {'page': b'x'}, nan)"
    """
    try:
        return json.loads(json.dumps(value, default=_plain, allow_nan=False))
    except Exception:  # circles, keys that are no text, objects that a pickle left half made
        return _shortened(value)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return list(value)
    return repr(value) if isinstance(value, Opaque | bytes | bytearray) else str(value)


def _shortened(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except Exception:
        return "<not to be shown>"


def _meta(data: bytes | None) -> Any:
    try:
        return as_json(load_plain(data)) if data else {}
    except Exception:  # a pickle can raise anything
        return None


def _bytes(value: str) -> bytes:
    return value.encode(errors="surrogateescape")


def _entry(fields: Mapping[str, str]) -> dict[bytes, bytes]:
    return {_bytes(name): _bytes(value) for name, value in fields.items()}


def _id(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no id")
    return value


def _score(value: str) -> float:
    score = float(value)
    if math.isnan(score):
        raise ValueError("a score that is no number")
    return score
