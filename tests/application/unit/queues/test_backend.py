"""Which queue stands behind the port is chosen in one place, from the ini."""

from contextlib import nullcontext

import pytest

from pipestate.core.errors import ConfigError
from pipestate.pipeline.queues import config as backend
from pipestate.pipeline.queues.config import QueueConfig
from pipestate.pipeline.queues.rq import RqQueues


@pytest.fixture(autouse=True)
def _no_redis_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)


@pytest.mark.parametrize(
    ("option", "variable", "ini", "found"),
    [
        ("redis://option", "redis://variable", "redis://ini", "redis://option"),
        (None, "redis://variable", "redis://ini", "redis://variable"),
        (None, None, "redis://ini", "redis://ini"),
        (None, None, None, None),
    ],
)
def test_the_address_of_redis_is_the_first_that_is_given(
    monkeypatch: pytest.MonkeyPatch,
    option: str | None,
    variable: str | None,
    ini: str | None,
    found: str | None,
) -> None:
    if variable:
        monkeypatch.setenv("REDIS_URL", variable)
    assert backend.find_address(QueueConfig(url=ini), option) == found


def test_rq_is_what_is_opened_where_nothing_else_is_named() -> None:
    opened = backend.open_queues(QueueConfig(), "redis://127.0.0.1:1/0")
    with opened as queues:
        assert isinstance(queues, RqQueues)


def test_another_package_may_name_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://not-for-this-one")
    given: list[str] = []

    def opener(url: str) -> "nullcontext[None]":
        given.append(url)
        return nullcontext()

    monkeypatch.setattr(f"{__name__}.Opened", opener, raising=False)
    monkeypatch.setitem(backend.BACKENDS, "other", f"{__name__}:Opened")
    with backend.open_queues(QueueConfig(backend="other", url="amqp://here")):
        assert given == ["amqp://here"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("celery", "backend = celery: write one of rq, or module:Class"),
        ("nowhere.at.all:Queues", "which cannot be imported: ModuleNotFoundError"),
        ("json:Queues", "which cannot be imported: AttributeError"),
    ],
)
def test_a_backend_that_is_not_there_is_named(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        backend.open_queues(QueueConfig(backend=name, url="x"))
