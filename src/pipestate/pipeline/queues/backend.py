"""The one place where the queue behind the port is chosen."""

import importlib
import os
from contextlib import AbstractContextManager

from pipestate.errors import ConfigError
from pipestate.pipeline.queues.config import RQ, SECTION, QueueConfig
from pipestate.pipeline.queues.port import Backend, Queues

BACKENDS = {RQ: "pipestate.pipeline.queues.rq:connect"}


def open_queues(config: QueueConfig, redis_url: str | None = None) -> AbstractContextManager[Queues]:
    """Open the queue that the ini names; `redis_url` is what `--redis-url` gave."""
    backend = _load(config.backend)
    url = find_address(config, redis_url)
    if url is None and config.backend == RQ:
        raise ConfigError(
            "no Redis given: give --redis-url, or set REDIS_URL, "
            f"or redis_url under [{SECTION}] in alembic.ini"
        )
    if url is None:
        raise ConfigError(
            f"no queue given: write the url of {config.backend} under [{SECTION}] in alembic.ini"
        )
    return backend(url)


def find_address(config: QueueConfig, redis_url: str | None = None) -> str | None:
    """Find where the queue is: for RQ the option, REDIS_URL, then the ini; for another one the ini."""
    if config.backend == RQ:
        return redis_url or os.environ.get("REDIS_URL") or config.url
    if redis_url is not None:
        raise ConfigError(
            f"--redis-url is for RQ, and backend under [{SECTION}] in alembic.ini is {config.backend}: "
            "write its url there"
        )
    return config.url


def _load(name: str) -> Backend:
    module, colon, attribute = BACKENDS.get(name, name).partition(":")
    if not colon:
        raise ConfigError(
            f"[{SECTION}] names backend = {name}: write one of {', '.join(BACKENDS)}, or module:Class"
        )
    try:
        backend: Backend = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module can raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"[{SECTION}] names backend = {name}, which cannot be imported: {reason}"
        ) from error
    return backend
