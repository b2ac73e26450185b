"""Compiled verdicts beside both judges, on every generated value, before the judges are deleted."""

from collections import Counter

from sqlalchemy import Connection

from integration.migration.test_agreement import by_server, by_verify, cases, connection  # noqa: F401
from pipestate.database.connections import engine_of
from pipestate.plan.compile import compile_criterion
from pipestate.runbook.criterion import parse_requirement


def compiled(connection: Connection, query: str, criterion: str) -> tuple[str, str]:
    with engine_of(connection).look(connection):
        nested = connection.begin_nested()
        try:
            row = connection.exec_driver_sql(
                compile_criterion(query, parse_requirement(criterion), "postgresql"),
                execution_options={"no_parameters": True},
            ).one()
            return row[0], row[1]
        except Exception as error:
            nested.rollback()
            return "errored", str(getattr(error, "orig", error)).splitlines()[0]


def test_compiled(connection: Connection) -> None:
    found = Counter()
    shown = []
    for query, criterion in cases(2500):
        answers = by_verify(connection, query, criterion), by_server(connection, query, criterion)
        new, message = compiled(connection, query, criterion)
        if {new} != set(answers):
            found[(answers, new)] += 1
            shown.append((query, criterion, answers, new, message))
    print(found)
    for line in sorted(shown):
        print(line)
    assert 0
