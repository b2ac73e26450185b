"""Ask the application which jobs of a stage have not succeeded, through the function that the ini names."""

import importlib
import pickle
from collections.abc import Callable
from typing import Any

from pipestate.errors import ConfigError, PipestateError
from pipestate.pipeline.queues.config import SECTION

# Subdomain and stage in; the keywords of each job that has not succeeded out, None where it does not know.
Missing = Callable[[str, str], "list[dict[str, Any]] | None"]


class HookFailed(PipestateError):
    """The application's function raised, or its answer is no list of keywords."""


def nobody_knows(subdomain: str, stage: str) -> None:
    """Answer for an application that names no function."""


def load_missing(path: str | None) -> Missing:
    """Import the application's function when it is first asked; what it raises becomes HookFailed."""
    if path is None:
        return nobody_knows

    def ask(subdomain: str, stage: str) -> list[dict[str, Any]] | None:
        hook = _imported(path)
        try:
            answer = hook(subdomain, stage)
            return None if answer is None else [_keywords(kwargs) for kwargs in answer]
        except Exception as error:  # it is not our code
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise HookFailed(f"{path} does not say which {stage} jobs are missing: {reason}") from error

    return ask


def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # a module can raise anything
        raise ConfigError(f"[{SECTION}] names missing = {path}, which cannot be imported: {error}") from error


def _keywords(kwargs: Any) -> dict[str, Any]:
    """Refuse what cannot be sent as keywords."""
    found = dict(kwargs)
    if not all(isinstance(name, str) for name in found):
        raise TypeError(f"{found} are no keywords")
    pickle.dumps(found)
    return found
