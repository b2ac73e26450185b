"""Which sign-off a name means, from values alone."""

from datetime import timedelta

import pytest

from pipestate.core.errors import ConfigError
from pipestate.ledger.record import find_signoff
from pipestate.project.graph import Position
from pipestate.runbook.model import Phase, Runbook, SignOff

MIGRATIONS = frozenset({"a1", "b2", "c3"})


def at(*applied: str) -> Position:
    return Position(MIGRATIONS, frozenset(applied), applied[-1] if applied else None, "c3")


def phase(name: str, from_: str | None, until: str | None, *ids: str) -> Phase:
    signoffs = tuple(SignOff(id, 1, timedelta(hours=24), "word") for id in ids)
    return Phase(name, 1, from_, until, (), signoffs, ())


def book(name: str, *phases: Phase) -> Runbook:
    return Runbook(name, f"{name}.md", name, True, "", phases, "")


BOOKS = (
    book("orders", phase("before", None, "b2", "backup"), phase("ready", "b2", None, "backup", "told")),
    book("invoices", phase("ready", "c3", None, "backup")),
)


@pytest.mark.parametrize(
    ("name", "position", "address"),
    [
        ("backup", at("a1"), "orders/before/backup"),
        ("backup", at("a1", "b2"), "orders/ready/backup"),
        ("told", at("a1", "b2", "c3"), "orders/ready/told"),
        ("before/backup", at("a1", "b2", "c3"), "orders/before/backup"),
        ("orders/ready/backup", at(), "orders/ready/backup"),
        ("invoices/ready/backup", at(), "invoices/ready/backup"),
    ],
)
def test_a_name_means_one_phase(name: str, position: Position, address: str) -> None:
    assert find_signoff(name, BOOKS, position).address == address


@pytest.mark.parametrize(
    ("name", "position", "said"),
    [
        ("backup", at("a1", "b2", "c3"), "2 phases: say which of orders/ready/backup, invoices/ready/backup"),
        ("told", at("a1"), "no phase that applies at revision a1: say which of orders/ready/told"),
        ("ready/backup", at("a1", "b2"), "2 phases: say which of orders/ready/backup, invoices/ready/backup"),
        (
            "bac",
            at("a1"),
            "no runbook has a sign-off bac; there are invoices/ready/backup, orders/before/backup",
        ),
        ("up", at("a1"), "no runbook has a sign-off up"),
        ("/backup", at("a1"), "no runbook has a sign-off /backup"),
        ("", at("a1"), "no runbook has a sign-off"),
        ("x/orders/ready/backup", at("a1"), "no runbook has a sign-off x/orders/ready/backup"),
    ],
)
def test_what_is_not_clear_is_refused_with_the_names_that_would_be(
    name: str, position: Position, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        find_signoff(name, BOOKS, position)


def test_without_any_sign_off_there_is_none_to_name() -> None:
    with pytest.raises(ConfigError, match="none here has any"):
        find_signoff("backup", (), at())
