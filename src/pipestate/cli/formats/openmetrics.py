"""OpenMetrics, for a collector of text files: gates, counts, ages and durations.

Every metric is a gauge without a timestamp. Readers of Prometheus's older text format, such as the textfile
collector of node_exporter, accept the same file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import SplitResult, parse_qs, urlsplit

from pipestate import __version__
from pipestate.core.text import metric_label
from pipestate.ledger.latest import Latest
from pipestate.verify.report import Gate, Outcome, Report, count


@dataclass(slots=True)
class Family:
    """One metric with its samples, by their labels."""

    name: str
    help: str
    samples: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)

    def add(self, value: float | None, **labels: str) -> None:
        """Add a sample, unless its value is unknown or its labels exist already."""
        if value is not None:
            escaped = tuple((name, metric_label(text)) for name, text in labels.items())
            self.samples.setdefault(escaped, value)

    def lines(self) -> Iterator[str]:
        if not self.samples:
            return
        yield f"# TYPE {self.name} gauge"
        if self.name.endswith("_seconds"):
            yield f"# UNIT {self.name} seconds"
        yield f"# HELP {self.name} {self.help}"
        for labels, value in self.samples.items():
            pairs = ",".join(f'{name}="{text}"' for name, text in labels)
            yield f"{self.name}{{{pairs}}} {value:.15g}"


def as_openmetrics(report: Report, latest: Latest | None = None) -> str:
    """Write the results of a run, with the ledger's latest figures if there is a ledger."""
    info = report.database
    database = database_label(info.url)
    described = Family("pipestate_database_info", "Where the database stands, and what it is.")
    described.add(
        1,
        database=database,
        revision=info.revision or "",
        head=info.head or "",
        dialect=info.dialect,
        server_version=info.server_version,
        pipestate_version=__version__,
    )
    took = Family("pipestate_verify_duration_seconds", "How long the run took.")
    took.add(round(report.duration_ms / 1000, 6), database=database)
    families = [
        *_run(database, report.started_at, report.exit_code, up=True),
        described,
        took,
        *_phases(database, report),
        *_checks(database, report),
        *(_ledger(database, latest) if latest else ()),
    ]
    return _text(families)


def error_as_openmetrics(url: str, exit_code: int) -> str:
    """Write a failed evaluation; such a file has no gate."""
    return _text(_run(database_label(url), datetime.now(UTC), exit_code, up=False))


def database_label(url: str) -> str:
    """Name a database by its place, without the connecting user.

    >>> database_label("postgresql://app:***@db:5433/civic?sslmode=require")
    'db:5433/civic'
    >>> database_label("postgresql://app@/civic?host=/run/postgresql"), database_label("sqlite:////srv/app.db")
    ('/run/postgresql/civic', '/srv/app.db')
    """
    parts = urlsplit(url)
    return _LABELS.get(parts.scheme, _label_of_server)(parts)


def _label_of_server(parts: SplitResult) -> str:
    host = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", [""])[0]
    return f"{host}{parts.path}"


def _label_of_file(parts: SplitResult) -> str:
    return parts.path.removeprefix("/")


_LABELS = {"sqlite": _label_of_file}


def _run(database: str, at: datetime, exit_code: int, *, up: bool) -> list[Family]:
    evaluated = Family("pipestate_up", "Whether the checks could be run at all.")
    evaluated.add(float(up), database=database)
    started = Family("pipestate_verify_timestamp_seconds", "When the run started, in seconds since 1970.")
    started.add(at.timestamp(), database=database)
    ended = Family("pipestate_verify_exit_code", "What the command exits with.")
    ended.add(exit_code, database=database)
    return [evaluated, started, ended]


def _phases(database: str, report: Report) -> list[Family]:
    opened = Family("pipestate_gate_open", "Whether the gate is open, for each phase that was asked.")
    state = Family("pipestate_gate_state", "The state of the gate: 1 for the one that it is in.")
    counts = Family("pipestate_checks", "How many checks of the phase there are of each outcome.")
    for runbook, phase in report.phases():
        labels = {"database": database, "runbook": runbook.name, "phase": phase.name}
        if phase.gate in (Gate.OPEN, Gate.CLOSED):
            opened.add(float(phase.gate is Gate.OPEN), **labels)
        for gate in Gate:
            state.add(float(gate is phase.gate), **labels, state=gate)
        for outcome, number in count(phase.checks).items():
            counts.add(number, **labels, outcome=outcome)
    return [opened, state, counts]


def _checks(database: str, report: Report) -> list[Family]:
    passed = Family("pipestate_check_passed", "Whether the check passed, for each that was asked.")
    took = Family("pipestate_check_duration_seconds", "How long the queries of the check took.")
    for runbook, phase in report.phases():
        for verdict in phase.checks:
            if verdict.outcome is Outcome.SKIPPED:
                continue
            labels = {
                "database": database,
                "runbook": runbook.name,
                "phase": phase.name,
                "check": verdict.check_id,
            }
            passed.add(float(verdict.outcome is Outcome.PASSED), **labels, level=verdict.level)
            took.add(round(verdict.duration_ms / 1000, 6), **labels)
    return [passed, took]


def _ledger(database: str, latest: Latest) -> list[Family]:
    recorded = Family("pipestate_record_timestamp_seconds", "When the phase was recorded last.")
    age = Family("pipestate_record_age_seconds", "How old the last record of the phase was during this run.")
    held = Family("pipestate_gate_held_seconds", "For how long all records of the phase have been open.")
    for record in latest.records:
        labels = {"database": database, "runbook": record.runbook, "phase": record.phase}
        recorded.add(record.at, **labels)
        age.add(record.age_s, **labels)
        held.add(record.held_s, **labels)
    value = Family("pipestate_observation_value", "The last value of the observation.")
    observed = Family("pipestate_observation_timestamp_seconds", "When it was observed.")
    aged = Family("pipestate_observation_age_seconds", "How old it was during this run.")
    for fact in latest.observations:
        labels = {"database": database, "name": fact.name}
        value.add(fact.value, **labels)
        observed.add(fact.at, **labels)
        aged.add(fact.age_s, **labels)
    return [recorded, age, held, value, observed, aged]


def _text(families: list[Family]) -> str:
    return "\n".join([*(line for family in families for line in family.lines()), "# EOF"])
