"""What becomes of today's statements, in lines and as data."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pipestate.plural import many
from pipestate.rehearse.compat import Compat, Told
from pipestate.render.rehearse import near

LONGEST = 100
SHOWN = 10


def compat_as_lines(found: Compat) -> Iterator[str]:
    for kind, all_told in (("breaks", found.broken), ("changes", found.changed)):
        for told in all_told:
            yield f"{kind}: {_statement(told)}"
            yield f"  {told.revision} ({near(told.path or '')}): {told.what}"
    for told in found.unprepared[:SHOWN]:
        yield f"not prepared: {_statement(told)}"
        yield f"  {told.what}"
    if len(found.unprepared) > SHOWN:
        yield f"not prepared: {len(found.unprepared) - SHOWN} more; --json shows them"
    if found.failure is not None:
        where = f" ({near(found.failure.source)})" if found.failure.source else ""
        yield f"Failed{where}: {found.failure.message}; later revisions were not tried."
    yield (
        f"{many(found.statements, 'statement')}: {len(found.broken)} would break, {len(found.changed)} would return other "
        f"columns, {len(found.unprepared)} cannot be prepared."
    )


def _statement(told: Told) -> str:
    line = " ".join(told.statement.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def compat_as_data(found: Compat) -> dict[str, Any]:
    return {"schema_version": 1, "ok": found.exit_code == 0, **asdict(found)}
