"""OpenMetrics, read by the reference parser, and by that of the older format, which node_exporter reads."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pipestate.cli.formats.openmetrics import as_openmetrics, error_as_openmetrics
from pipestate.ledger.latest import LastObservation, LastRecord, Latest
from pipestate.runbook.model import Level
from pipestate.verify.report import DatabaseInfo, Gate, Outcome, PhaseReport, Report, RunbookReport, Verdict
from support.metrics import older_format, open_metrics

AT = datetime(2026, 1, 20, 10, tzinfo=UTC)
HOSTILE = 'a"b\\c\nd{e="f"} 1\n# EOF\n\x1b[2J\u202eé'


def verdict(check: str, outcome: Outcome, level: Level = Level.BLOCK) -> Verdict:
    return Verdict(check, outcome, level, "n = 0", {"n": 3}, "…", "p:1", 1.5)


def report(database: str = "postgresql://app:***@db:5433/civic") -> Report:
    checks = (
        verdict("good", Outcome.PASSED),
        verdict("bad", Outcome.FAILED),
        verdict("odd", Outcome.FAILED, Level.WARN),
        verdict("later", Outcome.SKIPPED),
    )
    phases = (
        PhaseReport("ready", Gate.CLOSED, ("b2",), checks),
        PhaseReport("calm", Gate.OPEN, (), checks[:1]),
        PhaseReport("done", Gate.NOT_STARTED, (), checks[3:]),
    )
    info = DatabaseInfo(database, "postgresql", "18.4", "a1", "b2")
    return Report(info, AT, 41.7, (RunbookReport("orders", "orders.md", "", phases),))


LATEST = Latest(
    (
        LastRecord("orders", "ready", False, AT.timestamp(), 60.5, None),
        LastRecord("orders", "calm", True, None, None, 86400.0),
    ),
    (LastObservation("depth", 12.0, AT.timestamp(), 30.0), LastObservation(HOSTILE, -0.5, None, None)),
)


def samples(text: str) -> dict[str, list[tuple[Mapping[str, str], float]]]:
    """Read the text as both parsers do; they must agree."""
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for family in open_metrics(text + "\n"):
        assert family.type == "gauge"
        assert family.documentation
        assert family.unit == ("seconds" if family.name.endswith("_seconds") else "")
        for sample in family.samples:
            assert sample.timestamp is None, "the textfile collector refuses them"
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    older = [
        (sample.name, sample.labels, sample.value)
        for family in older_format(text + "\n")
        for sample in family.samples
    ]
    assert older == [(name, *each) for name, many in found.items() for each in many]
    return found


def by(found: list[tuple[Mapping[str, str], float]], *labels: str) -> dict[tuple[str, ...], float]:
    assert all(each["database"] == "db:5433/civic" for each, _ in found)
    return {tuple(each[label] for label in labels): value for each, value in found}


def test_gates_counts_and_durations() -> None:
    found = samples(as_openmetrics(report()))
    assert by(found["pipestate_up"]) == {(): 1.0}
    assert by(found["pipestate_verify_exit_code"]) == {(): 1.0}
    assert by(found["pipestate_verify_timestamp_seconds"]) == {(): AT.timestamp()}
    assert by(found["pipestate_verify_duration_seconds"]) == {(): 0.0417}
    assert by(found["pipestate_gate_open"], "runbook", "phase") == {
        ("orders", "ready"): 0.0,
        ("orders", "calm"): 1.0,
    }, "a phase that has not started is neither"
    states = by(found["pipestate_gate_state"], "phase", "state")
    assert {key for key, value in states.items() if value} == {
        ("ready", "closed"),
        ("calm", "open"),
        ("done", "not_started"),
    }
    assert len(states) == 12
    counts = by(found["pipestate_checks"], "phase", "outcome")
    assert [counts["ready", outcome] for outcome in ("passed", "failed", "warned", "errored", "skipped")] == [
        *(1, 1, 1, 0, 1)
    ]
    assert by(found["pipestate_check_passed"], "phase", "check", "level") == {
        ("ready", "good", "block"): 1.0,
        ("ready", "bad", "block"): 0.0,
        ("ready", "odd", "warn"): 0.0,
        ("calm", "good", "block"): 1.0,
    }
    assert by(found["pipestate_check_duration_seconds"], "phase", "check")["ready", "bad"] == 0.0015
    ((info, one),) = found["pipestate_database_info"]
    assert (info["revision"], info["head"], info["server_version"], one) == ("a1", "b2", "18.4", 1.0)


def test_without_a_ledger_its_figures_are_not_there() -> None:
    assert not [
        name for name in samples(as_openmetrics(report())) if "record" in name or "observation" in name
    ]


def test_ages_and_last_records_come_from_the_ledger() -> None:
    found = samples(as_openmetrics(report(), LATEST))
    assert by(found["pipestate_record_age_seconds"], "phase") == {("ready",): 60.5}
    assert by(found["pipestate_record_timestamp_seconds"], "phase") == {("ready",): AT.timestamp()}
    assert by(found["pipestate_gate_open_seconds"], "phase") == {("calm",): 86400.0}
    assert by(found["pipestate_observation_value"], "name")["depth",] == 12.0
    assert by(found["pipestate_observation_age_seconds"], "name") == {("depth",): 30.0}
    assert by(found["pipestate_observation_timestamp_seconds"], "name") == {("depth",): AT.timestamp()}


def test_hostile_names_stay_within_their_label() -> None:
    text = as_openmetrics(report(), LATEST)
    assert not {"\x1b", "\u202e"} & set(text)
    (name,) = [each["name"] for each, value in samples(text)["pipestate_observation_value"] if value == -0.5]
    assert name == 'a"b\\c\\nd{e="f"} 1\\n# EOF\\n\\x1b[2J\\u202eé'


def test_names_that_look_the_same_are_one_sample() -> None:
    """A collector refuses a file in which a sample appears twice."""
    namesakes = tuple(LastObservation(name, 1.0, None, None) for name in ("a\nb", "a\\nb"))
    assert len(samples(as_openmetrics(report(), Latest((), namesakes)))["pipestate_observation_value"]) == 1


def test_where_nothing_could_be_evaluated_no_gate_is_there() -> None:
    found = samples(error_as_openmetrics("postgresql://app:***@db:5433/civic", 3))
    assert set(found) == {"pipestate_up", "pipestate_verify_timestamp_seconds", "pipestate_verify_exit_code"}
    assert by(found["pipestate_up"]) == {(): 0.0}
    assert by(found["pipestate_verify_exit_code"]) == {(): 3.0}
