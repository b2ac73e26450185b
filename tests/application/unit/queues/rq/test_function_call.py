"""Jobs are read without importing the application, and without executing anything of what they hold."""

import json
import pickle
import sys
import uuid
from collections import OrderedDict, deque
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pipestate.pipeline.queues.rq.jobs import FunctionCall, Opaque, load_plain, read_call


def job(*args: Any, **kwargs: Any) -> bytes:
    return pickle.dumps(("clerk.workers.ocr_page_job", None, args, kwargs), protocol=4)


class Bomb:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, (f"import pathlib; pathlib.Path({str(self.marker)!r}).touch()",))


def test_function_and_site() -> None:
    call = read_call(job("a.ca.us", page=3))
    assert call == FunctionCall("clerk.workers.ocr_page_job", "a.ca.us")
    assert call.name == "ocr_page_job"


def test_the_site_may_be_a_keyword_or_missing() -> None:
    assert read_call(job(7, subdomain="b.ca.us")) == FunctionCall("clerk.workers.ocr_page_job", "b.ca.us")
    assert read_call(job(7)) == FunctionCall("clerk.workers.ocr_page_job", None)


def test_jobs_of_the_json_serializer() -> None:
    data = json.dumps(["clerk.workers.deploy_job", None, ["a.ca.us"], {"n": 1}]).encode()
    assert read_call(data) == FunctionCall("clerk.workers.deploy_job", "a.ca.us")


@pytest.mark.parametrize("protocol", range(3, pickle.HIGHEST_PROTOCOL + 1))
def test_values_of_any_class_do_not_hide_the_site(protocol: int) -> None:
    values = (
        *("a.gov", datetime(2026, 1, 20, tzinfo=UTC), Decimal("1.5"), uuid.UUID(int=7), {1, 2}),
        *(b"raw", bytearray(b"x"), Path("a.pdf"), OrderedDict(a=1), deque([1])),
    )
    assert read_call(pickle.dumps(("f", None, values, {}), protocol=protocol)) == FunctionCall("f", "a.gov")


def test_a_hostile_pickle_executes_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    assert read_call(job("a.gov", Bomb(marker))) == FunctionCall("clerk.workers.ocr_page_job", "a.gov")
    assert not marker.exists()
    pickle.loads(job(Bomb(marker)))
    assert marker.exists(), "the bomb is a real one"


@pytest.mark.parametrize(
    "pickled",
    [
        b"cos\nsystem\n(S'exit 1'\ntR.",
        b"cbuiltins\neval\n(S'1/0'\ntR.",
        b"(S'exit 1'\nios\nsystem\n.",
        b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93.",
        b"\x80\x04\x8c\x08datetime\x8c\x0dsys.modules.x\x93.",
    ],
)
def test_nothing_is_imported_by_name(pickled: bytes) -> None:
    assert isinstance(load_plain(pickled), Opaque) or issubclass(load_plain(pickled), Opaque)


@pytest.mark.parametrize(
    ("module", "name"),
    [("pathlib", "Path"), ("uuid", "UUID"), ("datetime", "datetime"), ("decimal", "Decimal")],
)
def test_a_pickle_cannot_set_attributes_on_classes_of_python(module: str, name: str) -> None:
    state = b"(N}X\x05\x00\x00\x00ownedK\x01stb."
    read_call(b"\x80\x02c" + module.encode() + b"\n" + name.encode() + b"\n" + state)
    assert not hasattr(getattr(sys.modules[module], name), "owned")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"[1, 2]",
        b'{"a": 1}',
        b"\x80\x04",
        pickle.dumps("only text"),
        pickle.dumps(("f", None, "text for args", {})),
        pickle.dumps(("f", None, range(10**12), {})),
        pickle.dumps(("f", None, (), 3)),
        b"[" * 100_000,
    ],
    ids=repr,
)
def test_what_rq_has_not_written_is_none(data: bytes) -> None:
    assert read_call(data) is None
