"""Which phases a contract ends, and in which database it goes."""

import pytest

from pipestate import Contract
from pipestate.migration.failure import MigrationError
from pipestate.project.graph import Migrations
from pipestate.project.scaffold.contract import ends_with
from pipestate.project.scaffold.revision import read_dropped
from support.parsed import parse

PAGE = """---
runbook: orders
phases:
  one:
  two: {TWO}
  three:
  ready: {READY}
  after:
---
"""


def ends(*, two: str = "", ready: str = "", drop: str = "orders.old") -> tuple[str, ...]:
    page = PAGE.replace("{TWO}", f"{{{two}}}").replace("{READY}", f"{{{ready}}}")
    for phase, sql in {
        "one": "SELECT old FROM orders",
        "two": "SELECT o.old FROM orders o",
        "three": "SELECT older FROM orders",
        "ready": "SELECT 1",
        "after": "SELECT old AS new FROM orders",
    }.items():
        page += f"\n## Phase: {phase}\n\n```sql\n-- check: {phase}\n-- require: rows = 0\n{sql};\n```\n"
    runbook = parse(page, "orders.md")
    return ends_with(Migrations(), runbook, runbook.phases[3], read_dropped([], [drop]))


def test_its_own_phase_and_those_before_it_that_read_what_goes() -> None:
    assert ends() == ("one", "two", "ready")
    assert ends(drop="sales.orders.older") == ("three", "ready")


def test_an_until_of_ones_own_is_kept_and_that_of_an_earlier_contract_moves_on() -> None:
    assert ends(two='until: "x"', ready='until: "y"') == ("one",)
    assert ends(ready='until: "b2", opens: ["a1", "b2"]') == ("one", "two", "ready")


def test_a_contract_for_one_of_several_databases_must_name_which_this_is() -> None:
    contract = Contract("orders/ready", tables=["t"], engine="engine1", revision="b2")
    with pytest.raises(MigrationError, match=r"env.py does not say which this is"):
        contract.upgrade()
