"""What is to be written: drafts of files, all of them or none."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipestate.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Draft:
    """A file as it shall be; `replaces` is the text that it has now, None where there must be none."""

    path: Path
    text: str
    replaces: str | None = None


def write(drafts: Sequence[Draft]) -> None:
    """Write all drafts; where one cannot be written, take back those before it and raise ConfigError."""
    done: list[Draft] = []
    try:
        for draft in drafts:
            _write(draft)
            done.append(draft)
    except OSError as error:
        for earlier in reversed(done):
            _take_back(earlier)
        nothing = "nothing was written"
        if isinstance(error, FileExistsError):
            raise ConfigError(f"{draft.path} is there already, and is not overwritten: {nothing}") from error
        raise ConfigError(f"cannot write {draft.path}: {error.strerror}; {nothing}") from error


def refuse_existing(path: Path) -> None:
    """Refuse to draft a file that is there already."""
    if path.exists():
        raise ConfigError(f"{path} is there already, and is not overwritten: take another name")


def _write(draft: Draft) -> None:
    content = draft.text.encode("utf-8")
    if draft.replaces is None:
        draft.path.parent.mkdir(parents=True, exist_ok=True)
        with draft.path.open("xb") as file:
            file.write(content)
        return
    target = draft.path.resolve()  # a link stays one
    beside = target.with_name(f".{target.name}.new")
    try:
        beside.write_bytes(content)
        beside.chmod(target.stat().st_mode)
        beside.replace(target)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise


def _take_back(draft: Draft) -> None:
    if draft.replaces is None:
        draft.path.unlink()
    else:
        draft.path.write_bytes(draft.replaces.encode("utf-8"))
