from datetime import timedelta

import pytest

from pipestate.runbook.criterion import parse_requirement
from pipestate.runbook.model import Check, Evidence, Phase, SignOff, View, is_id, variant


def make_check(id: str = "stuck-sites", *, dialect: str | None = None, line: int = 1) -> Check:
    return Check(id, line, "SELECT 0", parse_requirement("rows = 0"), dialect=dialect)


def make_phase(*checks: Check | SignOff, views: tuple[View, ...] = ()) -> Phase:
    return Phase("ready", 1, None, None, (), checks, views)


def test_the_variant_written_for_an_engine_wins_over_the_one_for_any() -> None:
    anywhere, sqlite = make_check(), make_check(dialect="sqlite", line=9)

    for order in ([anywhere, sqlite], [sqlite, anywhere]):
        assert variant(order, "sqlite") is sqlite
        assert variant(order, "postgresql") is anywhere


def test_a_check_for_another_engine_is_not_evaluated() -> None:
    phase = make_phase(make_check("a", dialect="postgresql"), make_check("b"))

    assert [check.id for check in phase.checks_for("sqlite")] == ["b"]
    assert [check.id for check in phase.checks_for("postgresql")] == ["a", "b"]


def test_checks_and_signoffs_keep_the_order_of_the_document() -> None:
    signoff = SignOff("backup-taken", 5, timedelta(hours=24), "a backup")
    first, second = make_check("a", dialect="postgresql"), make_check("a", dialect="sqlite", line=20)
    phase = make_phase(first, signoff, make_check("b"), second)

    assert [check.id for check in phase.checks_for("sqlite")] == ["a", "backup-taken", "b"]
    assert phase.checks_for("sqlite")[0] is second
    assert phase.signoffs == (signoff,)


def test_a_signoff_is_evaluated_like_a_blocking_check_on_any_engine() -> None:
    signoff = SignOff("backup-taken", 5, timedelta(hours=24), "a backup")

    assert (signoff.level, signoff.dialect, signoff.from_, signoff.until) == ("block", None, None, None)


def test_evidence_and_views_have_variants_too() -> None:
    evidence = (Evidence(("a",), 1, "SELECT 1"), Evidence(("a",), 2, "SELECT 2", "sqlite"))
    check = Check("a", 1, "SELECT 0", parse_requirement("rows = 0"), evidence=evidence)
    views = (
        View("v", 1, "SELECT 1", "postgresql"),
        View("v", 2, "SELECT 2", "sqlite"),
        View("w", 3, "SELECT 3"),
    )

    assert check.evidence_for("sqlite") is evidence[1]
    assert check.evidence_for("postgresql") is evidence[0]
    assert make_check().evidence_for("sqlite") is None
    assert [view.line for view in make_phase(views=views).views_for("sqlite")] == [2, 3]


@pytest.mark.parametrize("text", ["a", "0", "stuck-sites", "p95-latency", "a-"])
def test_ids_are_typeable(text: str) -> None:
    assert is_id(text)


@pytest.mark.parametrize("text", ["", "-a", "Stuck", "stuck_sites", "stuck sites", "stück", "a\n", "a/b"])
def test_other_ids_are_not(text: str) -> None:
    assert not is_id(text)
