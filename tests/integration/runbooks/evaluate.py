"""A check of a shipped runbook on a database, as its SQL stands: the one place that knows how."""

import re
from dataclasses import dataclass

from sqlalchemy import Connection

from bed import Database
from pipestate.db import reader
from pipestate.runbook.model import Check, Phase, Runbook
from pipestate.verify.expect import judge
from pipestate.verify.read import read
from pipestate.verify.run import DEFAULT_TIMEOUT_S, EVIDENCE_ROWS
from pipestate.verify.values import Row
from pipestate.verify.verdict import Outcome


@dataclass(frozen=True)
class Answer:
    outcome: Outcome
    message: str
    evidence: list[Row]

    @property
    def failed(self) -> bool:
        return self.outcome is Outcome.FAILED


def ids(runbook: Runbook, phase: str) -> list[str]:
    """The phase's checks that are SQL, whatever the engine."""
    return list(
        dict.fromkeys(check.id for check in _section(runbook, phase).checks if isinstance(check, Check))
    )


def answers(database: Database, runbook: Runbook, phase: str) -> dict[str, Answer]:
    """Every check that this engine is asked in the phase."""
    dialect = database.url.get_backend_name()
    checks = [check for check in _section(runbook, phase).checks_for(dialect) if isinstance(check, Check)]
    with reader(database.url) as connection:
        return {check.id: _answer(connection, check, dialect) for check in checks}


def not_passed(found: dict[str, Answer]) -> dict[str, str]:
    return {id: answer.message for id, answer in found.items() if answer.outcome is not Outcome.PASSED}


def views(database: Database, runbook: Runbook) -> dict[str, list[tuple[object, ...]]]:
    dialect = database.url.get_backend_name()
    return {view.id: database.rows(view.sql) for phase in runbook.phases for view in phase.views_for(dialect)}


def without_advice(runbook: Runbook) -> list[str]:
    """The checks whose block, with its evidence, is not followed by a paragraph that says what to do."""
    lines = re.MULTILINE | re.DOTALL
    page = re.sub(r"^```sql\n-- explains:.*?^```\n\n", "", runbook.text, flags=lines)
    after = re.findall(r"^-- check: (\S+)$.*?^```\n\n(.*?)$", page, flags=lines)
    defined = {id for phase in runbook.phases for id in ids(runbook, phase.name)}
    assert {id for id, _ in after} == defined, "not every check was found on the page"
    return [id for id, line in after if re.match(r"\*\*|#|```|- again:", line)]


def _section(runbook: Runbook, phase: str) -> Phase:
    section = runbook.phase(phase)
    assert section is not None
    return section


def _answer(connection: Connection, check: Check, dialect: str) -> Answer:
    result = read(connection, check.sql, DEFAULT_TIMEOUT_S, most=EVIDENCE_ROWS)
    judgement = judge(check.require, result)
    evidence = check.evidence_for(dialect)
    rows = list(result.rows) if check.require.counts_rows else []
    if evidence is not None and judgement.outcome is not Outcome.PASSED:
        rows = list(read(connection, evidence.sql, DEFAULT_TIMEOUT_S, most=EVIDENCE_ROWS).rows)
    return Answer(judgement.outcome, judgement.message, rows)
