"""The start in somebody's project: a page to be filled in, and the ledger in the project's chain."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from pipestate.chain.graph import Chain, Revision
from pipestate.chain.literals import read_source
from pipestate.chain.project import Project
from pipestate.errors import ConfigError
from pipestate.paths import from_here
from pipestate.runbook.model import is_id
from pipestate.scaffold.draft import Draft, refuse_existing
from pipestate.scaffold.place import WantedRevision, find_place
from pipestate.scaffold.revision import engines_of, ledger_revision

MESSAGE = "pipestate ledger"
_INSTALLS = re.compile(rb"^[^#\n]*\binstall_ledger\(", re.MULTILINE)
_GUARDED = re.compile(r"^[^#\n]*\bpipestate\.environment\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Started:
    """What is to be written, and what is left to a person."""

    name: str
    page: Path
    drafts: tuple[Draft, ...]
    ledger: str
    env: Path
    guarded: bool


def draft_start(project: Project, chain: Chain, name: str, wanted: WantedRevision) -> Started:
    """Draft the page and, unless the chain installs a ledger already, its revision."""
    if not is_id(name):
        raise ConfigError(f"a runbook cannot be called {name}: write lower-case letters, digits and hyphens")
    page = runbooks_for(project) / f"{name}.md"
    refuse_existing(page)
    there = next(_installing(chain), None)
    ledger, drafts = (there.id, ()) if there is not None else _ledger(project, chain, wanted)
    env = project.scripts / "env.py"
    return Started(
        name,
        page,
        (Draft(page, skeleton(name, ledger)), *drafts),
        ledger,
        env,
        env.is_file() and bool(_GUARDED.search(env.read_text(encoding="utf-8", errors="replace"))),
    )


def runbooks_for(project: Project) -> Path:
    """Return where the project's runbooks are, or shall be: beside its configuration, if that names one chain."""
    if project.runbooks.is_dir() or project.config is None or _names_several_chains(project):
        return project.runbooks
    return from_here(project.config.resolve().parent / "runbooks")


def _names_several_chains(project: Project) -> bool:
    ini = project.configuration.ini if project.configuration else None
    sections = ini.sections() if ini else []
    return sum("script_location" in project.lines(section) for section in sections) > 1


def skeleton(name: str, ledger: str) -> str:
    """Write a page whose checks fail until they are written."""
    source = files("pipestate.scaffold").joinpath("skeleton.md").read_text(encoding="utf-8")
    return Template(source).substitute(name=name, ledger=ledger)


def _installing(chain: Chain) -> Iterator[Revision]:
    return (revision for revision in chain if _INSTALLS.search(read_source(revision.path)))


def _ledger(project: Project, chain: Chain, wanted: WantedRevision) -> tuple[str, tuple[Draft, ...]]:
    place = find_place(project, chain, wanted)
    refuse_existing(place.path)
    text = ledger_revision(place, by_engine=bool(engines_of(project)))
    return place.id, (Draft(place.path, text),)
