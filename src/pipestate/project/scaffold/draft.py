"""Drafts of files, written all together or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipestate.core.errors import ConfigError
from pipestate.core.text import replace_text


@dataclass(frozen=True, slots=True)
class Draft:
    """The future text of a file; `replaces` is its present text, None if the file must be missing."""

    path: Path
    text: str
    replaces: str | None = None


def write(drafts: Sequence[Draft]) -> None:
    """Write all drafts; if one fails, undo the earlier ones and raise ConfigError."""
    done: list[Draft] = []
    try:
        for draft in drafts:
            if draft.replaces is None:
                draft.path.parent.mkdir(parents=True, exist_ok=True)
                with draft.path.open("xb") as file:
                    file.write(draft.text.encode("utf-8"))
            else:
                replace_text(draft.path, draft.text)
            done.append(draft)
    except OSError as error:
        for earlier in reversed(done):
            if earlier.replaces is None:
                earlier.path.unlink()
            else:
                earlier.path.write_bytes(earlier.replaces.encode("utf-8"))
        nothing = "nothing was written"
        if isinstance(error, FileExistsError):
            raise ConfigError(f"{draft.path} exists already, and is not overwritten: {nothing}") from error
        raise ConfigError(f"cannot write {draft.path}: {error.strerror}; {nothing}") from error


def refuse_existing(path: Path) -> None:
    """Refuse to draft a file that already exists."""
    if path.exists():
        raise ConfigError(f"{path} exists already, and is not overwritten: take another name")


# Python source of a call.


WIDTH = 88


class Name(str):
    """A name of the module, written without quotes."""

    __slots__ = ()


Value = str | Sequence[str] | Mapping[str, Sequence[str]]


def text(value: str) -> str:
    """Write a string in double quotes.

    >>> text("orders")
    '"orders"'
    """
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def call(function: str, arguments: Mapping[str, Value], after: str = "", *, used: int = 0) -> str:
    """Write a call, with one argument per line if it is too long; empty arguments are omitted.

    A key is the prefix of the value, such as `tables=` or empty; `used` is the indentation of the call.

    >>> call("contract = Contract", {"": "orders/readiness", "tables=": ["order_log"], "columns=": {}})
    'contract = Contract("orders/readiness", tables=["order_log"])'
    """
    given = {key: value for key, value in arguments.items() if value}
    flat = ", ".join(f"{key}{_flat(value)}" for key, value in given.items())
    if used + len(whole := f"{function}({flat}){after}") <= WIDTH:
        return whole
    lines = (f"    {key}{_flat(value)}," for key, value in given.items())
    return "\n".join([f"{function}(", *lines, f"){after}"])


def _flat(value: Value) -> str:
    if isinstance(value, str):
        return str(value) if isinstance(value, Name) else text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(key)}: {_flat(items)}" for key, items in value.items()) + "}"
    return "[" + ", ".join(map(text, value)) + "]"
