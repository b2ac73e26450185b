"""Revisions as they are written: the ledger's, and contracts."""

import re
from collections.abc import Sequence

from pipestate.chain.project import Project
from pipestate.scaffold.going import Going
from pipestate.scaffold.layout import Value, call, text
from pipestate.scaffold.place import NewRevision

_BY_ENGINE = re.compile(r"^def upgrade\(\s*engine_name\b", re.MULTILINE)


def ledger_revision(place: NewRevision, *, by_engine: bool) -> str:
    """Write the revision that installs the ledger, in every database of the project."""
    argument = "engine_name: str" if by_engine else ""
    return (
        f"{_head(place, 'from pipestate.ddl import install_ledger, remove_ledger')}\n\n"
        f"def upgrade({argument}) -> None:\n    install_ledger()\n\n\n"
        f"def downgrade({argument}) -> None:\n    remove_ledger()\n"
    )


def contract_revision(
    place: NewRevision, phase: str, going: Going, recheck: Sequence[str], engine: str | None
) -> str:
    """Write a revision that is nothing but a contract."""
    arguments: dict[str, Value] = {
        "": phase,
        "tables=": going.tables,
        "columns=": going.columns,
        "recheck=": recheck,
        "engine=": engine or "",
    }
    return (
        f"{_head(place, 'from pipestate import Contract')}\n"
        f"{call('contract = Contract', arguments)}\n"
        "upgrade, downgrade = contract.upgrade, contract.downgrade\n"
    )


def engines_of(project: Project) -> tuple[str, ...]:
    """List the databases of a project whose revisions are run once for each (the template multidb)."""
    template = project.scripts / "script.py.mako"
    source = template.read_text(encoding="utf-8", errors="replace") if template.is_file() else ""
    if not _BY_ENGINE.search(source):
        return ()
    return tuple(re.split(r",\s*", project.option("databases") or ""))


def _head(place: NewRevision, imports: str) -> str:
    message = " ".join(place.message.split()).replace("\\", "\\\\").replace('"', "'")
    down = text(place.down) if place.down else "None"
    return (
        f'"""{message}\n\nRevision ID: {place.id}\nRevises: {place.down or ""}'.rstrip() + "\n"
        f"Create Date: {place.created_at}\n"
        '"""\n\n'
        f"{imports}\n\n"
        f"revision = {text(place.id)}\n"
        f"down_revision = {down}\n"
        "branch_labels = None\n"
        "depends_on = None\n"
    )
