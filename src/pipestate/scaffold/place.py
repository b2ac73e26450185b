"""Where a new revision goes: its id, what it follows, and the file that the project's settings give it."""

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from pipestate.chain.graph import Chain
from pipestate.chain.project import Project
from pipestate.errors import ConfigError

FILE_TEMPLATE = "%(rev)s_%(slug)s"
SLUG_LENGTH = 40
_ID = re.compile(r"[A-Za-z0-9_.]+")


@dataclass(frozen=True, slots=True)
class WantedRevision:
    """What was said of a new revision; whatever was not is found."""

    message: str
    id: str | None = None
    head: str | None = None
    version_path: Path | None = None


@dataclass(frozen=True, slots=True)
class NewRevision:
    """A revision that is going to be written."""

    id: str
    down: str | None
    path: Path
    message: str
    created_at: datetime


def find_place(project: Project, chain: Chain, wanted: WantedRevision) -> NewRevision:
    """Find the place; ConfigError with what to say where there are several."""
    id_ = wanted.id or uuid.uuid4().hex[-12:]
    if not _ID.fullmatch(id_):
        raise ConfigError(f"--rev-id {id_}: an id is letters, digits, _ and . alone")
    if id_ in chain:
        raise ConfigError(
            f"there is a revision {id_} already ({chain.by_id[id_].source}): give another --rev-id"
        )
    if not wanted.message.isprintable():
        raise ConfigError("the message of a revision is one line of plain text: leave other characters out")
    down = _head(chain, wanted.head)
    directory = wanted.version_path or _directory(project, chain, down)
    _refuse_elsewhere(project, directory)
    created_at = _now(project)
    path = directory / _file_name(project, id_, wanted.message, created_at)
    return NewRevision(id_, down, path, wanted.message, created_at)


def _head(chain: Chain, given: str | None) -> str | None:
    """Return the revision that the new one follows; None where it is the first."""
    if given is None:
        if len(chain.heads) > 1:
            raise ConfigError(
                f"the chain has {len(chain.heads)} heads, {', '.join(chain.heads)}: "
                "say with --head which one the new revision follows"
            )
        return next(iter(chain.heads), None)
    name = given.removesuffix("@head")
    bearer = chain.labels.get(name)
    found = [head for head in chain.heads if head == name or (bearer and bearer in _line(chain, head))]
    if len(found) != 1:
        there = ", ".join(chain.heads) or "none"
        raise ConfigError(f"--head {given} is not one head of this chain; there are {there}")
    return found[0]


def _line(chain: Chain, head: str) -> set[str]:
    """Collect a revision and those below it on its own branch: what it only depends on is another one."""
    found: set[str] = set()
    left = [head]
    while left:
        found.add(here := left.pop())
        left += [down for down in chain.by_id[here].down if down not in found]
    return found


def _directory(project: Project, chain: Chain, down: str | None) -> Path:
    """Return the location that holds the revision before; of several without one, none is guessed."""
    if len(project.versions) == 1:
        return project.versions[0]
    if down is not None:
        file = chain.by_id[down].path.resolve()
        for location in project.versions:
            if file.is_relative_to(location.resolve()):
                return location
    there = ", ".join(map(str, project.versions))
    raise ConfigError(f"the project has several version locations, {there}: name one with --version-path")


def _refuse_elsewhere(project: Project, directory: Path) -> None:
    """Refuse a directory in which Alembic would not look for revisions."""
    for location in project.versions:
        here, there = directory.resolve(), location.resolve()
        if here == there or (project.recursive and here.is_relative_to(there)):
            return
    known = ", ".join(map(str, project.versions))
    raise ConfigError(f"--version-path {directory} is no version location of this project; there are {known}")


def _now(project: Project) -> datetime:
    zone = project.option("timezone")
    if zone is None:
        return datetime.now()
    try:
        return datetime.now(UTC).astimezone(ZoneInfo(zone))
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(f"{project.config}: there is no timezone {zone}: correct it") from error


def _file_name(project: Project, id_: str, message: str, created_at: datetime) -> str:
    """Name the file as `alembic revision` would."""
    slug = "_".join(re.findall(r"\w+", message)).lower()
    length = _slug_length(project)
    if len(slug) > length:
        slug = slug[:length].rsplit("_", 1)[0] + "_"
    parts = {name: getattr(created_at, name) for name in ("year", "month", "day", "hour", "minute", "second")}
    template = project.option("file_template") or FILE_TEMPLATE
    try:
        name = template % {"rev": id_, "slug": slug, "epoch": int(created_at.timestamp()), **parts}
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{project.config}: file_template {template} cannot be filled in: correct it"
        ) from error
    return f"{name}.py"


def _slug_length(project: Project) -> int:
    given = project.option("truncate_slug_length") or str(SLUG_LENGTH)
    if not given.isdigit():
        raise ConfigError(f"{project.config}: truncate_slug_length {given} is no number: correct it")
    return int(given) or SLUG_LENGTH
