"""OpenMetrics, for a collector of text files: gates, counts, ages and durations.

Every metric is a gauge without a timestamp. Readers of Prometheus's older text format, such as the textfile
collector of node_exporter, accept the same file.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

from pipestate import __version__
from pipestate.core.text import metric_label
from pipestate.ledger.latest import Latest
from pipestate.verify.report import Gate, Outcome, Report, count

# Families in the order of the file, with their help.
FAMILIES = {
    "pipestate_up": "Whether the checks could be run at all.",
    "pipestate_verify_timestamp_seconds": "When the run started, in seconds since 1970.",
    "pipestate_verify_exit_code": "What the command exits with.",
    "pipestate_database_info": "Where the database stands, and what it is.",
    "pipestate_verify_duration_seconds": "How long the run took.",
    "pipestate_gate_open": "Whether the gate is open, for each phase that was evaluated.",
    "pipestate_gate_state": "The state of the gate: 1 for the one that it is in.",
    "pipestate_checks": "How many checks of the phase there are of each outcome.",
    "pipestate_check_passed": "Whether the check passed, for each that was evaluated.",
    "pipestate_check_duration_seconds": "How long the queries of the check took.",
    "pipestate_record_timestamp_seconds": "When the phase was recorded last.",
    "pipestate_record_age_seconds": "How old the last record of the phase was during this run.",
    "pipestate_gate_open_seconds": "For how long all records of the phase have been open.",
    "pipestate_observation_value": "The last value of the observation.",
    "pipestate_observation_timestamp_seconds": "When it was observed.",
    "pipestate_observation_age_seconds": "How old it was during this run.",
}
Sample = tuple[str, float | None, dict[str, str]]


def as_openmetrics(report: Report, latest: Latest | None = None) -> str:
    """Write the results of a run, with the ledger's latest figures if there is a ledger."""
    samples = [
        *_run(report.started_at, report.exit_code, up=True),
        *_report(report),
        *(_ledger(latest) if latest else ()),
    ]
    return _text(report.database.url, samples)


def error_as_openmetrics(url: str, exit_code: int) -> str:
    """Write a failed evaluation; such a file has no gate."""
    return _text(url, _run(datetime.now(UTC), exit_code, up=False))


def database_label(url: str) -> str:
    """Name a database by its place, without the connecting user.

    >>> database_label("postgresql://app:***@db:5433/civic?sslmode=require")
    'db:5433/civic'
    >>> database_label("postgresql://app@/civic?host=/run/postgresql"), database_label("sqlite:////srv/app.db")
    ('/run/postgresql/civic', '/srv/app.db')
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", [""])[0]
    return f"{host}{parts.path}" if host else parts.path.removeprefix("/")


def _run(at: datetime, exit_code: int, *, up: bool) -> Iterator[Sample]:
    yield "up", float(up), {}
    yield "verify_timestamp_seconds", at.timestamp(), {}
    yield "verify_exit_code", exit_code, {}


def _report(report: Report) -> Iterator[Sample]:
    info = report.database
    where = {"revision": info.revision or "", "head": info.head or "", "dialect": info.dialect}
    versions = {"server_version": info.server_version, "pipestate_version": __version__}
    yield "database_info", 1, where | versions
    yield "verify_duration_seconds", round(report.duration_ms / 1000, 6), {}
    for runbook, phase in report.phases():
        labels = {"runbook": runbook.name, "phase": phase.name}
        if phase.gate in (Gate.OPEN, Gate.CLOSED):
            yield "gate_open", float(phase.gate is Gate.OPEN), labels
        for gate in Gate:
            yield "gate_state", float(gate is phase.gate), labels | {"state": gate.name.lower()}
        for outcome, number in count(phase.checks).items():
            yield "checks", number, labels | {"outcome": outcome}
        for verdict in phase.checks:
            if verdict.outcome is not Outcome.SKIPPED:
                check = labels | {"check": verdict.check_id}
                passed = float(verdict.outcome is Outcome.PASSED)
                yield "check_passed", passed, check | {"level": verdict.level}
                yield "check_duration_seconds", round(verdict.duration_ms / 1000, 6), check


def _ledger(latest: Latest) -> Iterator[Sample]:
    for record in latest.records:
        labels = {"runbook": record.runbook, "phase": record.phase}
        yield "record_timestamp_seconds", record.at, labels
        yield "record_age_seconds", record.age_s, labels
        yield "gate_open_seconds", record.open_s, labels
    for fact in latest.observations:
        labels = {"name": fact.name}
        yield "observation_value", fact.value, labels
        yield "observation_timestamp_seconds", fact.at, labels
        yield "observation_age_seconds", fact.age_s, labels


def _text(url: str, samples: Iterable[Sample]) -> str:
    """Write the samples by family; leave out unknown values, and labels that exist already."""
    found: dict[str, dict[str, float]] = {}
    for name, value, labels in samples:
        every = {"database": database_label(url)} | labels
        pairs = ",".join(f'{label}="{metric_label(text)}"' for label, text in every.items())
        if value is not None:
            found.setdefault(f"pipestate_{name}", {}).setdefault(pairs, value)
    lines = []
    for name in filter(found.get, FAMILIES):
        unit = [f"# UNIT {name} seconds"] if name.endswith("_seconds") else []
        lines += [f"# TYPE {name} gauge", *unit, f"# HELP {name} {FAMILIES[name]}"]
        lines += [f"{name}{{{pairs}}} {value:.15g}" for pairs, value in found[name].items()]
    return "\n".join([*lines, "# EOF"])
