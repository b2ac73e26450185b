"""The rule of a gate is in Python and in SQL: both decide every combination of verdicts alike."""

import json
from itertools import combinations_with_replacement, product

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from pipestate.ledger.install import install
from pipestate.runbook.model import Level
from pipestate.verify.report import Gate, Outcome, Verdict, gate_of
from support.servers import Database

VERDICTS = list(product(Outcome, Level))
COMBINATIONS = [found for number in range(4) for found in combinations_with_replacement(VERDICTS, number)]
Found = tuple[tuple[Outcome, Level], ...]


def in_python(found: Found) -> Gate:
    return gate_of(tuple(Verdict("c", *each, "rows = 0", {}, "", "p:1", 0.0) for each in found))


@pytest.mark.parametrize("is_late", [False, True], ids=["first pass", "under the lock"])
def test_python_and_the_server_decide_alike(pg: Database, is_late: bool) -> None:
    """The server's results have no skipped check. Under the lock they may be a part of the phase: none closes."""
    with pg.begin() as connection:
        install(connection)
    settle = text("SELECT pipestate.settle_gate(CAST(:state AS jsonb), :whole)")
    different = []
    with pg.connect() as connection:
        for found in COMBINATIONS:
            results = [
                {"check_id": "c", "outcome": outcome, "level": level, "message": "m", "source": "p:1"}
                for outcome, level in found
                if outcome is not Outcome.SKIPPED
            ]
            state = {"runbook": "b", "phase": "one", "actor": "ann", "enforce": True, "results": results}
            try:
                with connection.begin_nested():
                    connection.execute(settle, {"state": json.dumps(state), "whole": not is_late})
                decided = Gate.OPEN
            except DBAPIError as error:
                if "the gate b/one is closed" not in str(error):
                    raise
                decided = Gate.CLOSED
            blocking = [each for each in results if each["level"] == Level.BLOCK]
            expected = in_python(found) if blocking or not is_late else Gate.OPEN
            if decided != expected:
                different.append((found, decided))
    assert different == []
    assert len(COMBINATIONS) == 165
