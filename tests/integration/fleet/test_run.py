"""Many databases: each answers for itself, and what differs is named."""

import time
from pathlib import Path

import pytest

from attacks.sessions import wait_until
from pipestate.core.errors import ConfigError
from pipestate.database.urls import shown
from pipestate.fleet.evaluate import Answer
from pipestate.fleet.run import Group
from pipestate.project.find import Project
from pipestate.verify.report import Gate
from support.fleets import APPROVAL, UNREACHABLE, Tenants, evaluate_list
from support.servers import Database, Sqlite
from support.shop_project import open_shop


def differences(answer: Answer) -> set[str]:
    assert answer.drift is not None
    return {str(each) for each in answer.drift.differences}


def by_name(groups: tuple[Group, ...]) -> dict[tuple[str, ...], Group]:
    return {group.names: group for group in groups}


def test_each_state_is_reported_and_nobody_stops_the_others(shop: Project, tenants: Tenants) -> None:
    healthy = tenants.create("b2", APPROVAL)
    lines = [
        f"north = {healthy.text}",
        tenants.named("south", "b2", APPROVAL),
        tenants.named("behind", "a1"),
        tenants.named("closed"),
        f"gone = {UNREACHABLE}",
        tenants.named(
            "drifted", "b2", APPROVAL, "ALTER TABLE orders ADD COLUMN extra text", "DROP TABLE order_log"
        ),
        f"again = {healthy.url.set(username='somebody_else', drivername='postgresql').render_as_string(False)}",
    ]
    fleet, answers = evaluate_list(shop, lines)
    assert {name: each.exit_code for name, each in answers.items()} == {
        **{"north": 0, "south": 0, "behind": 2, "closed": 1, "gone": 3, "drifted": 0}
    }
    assert (fleet.exit_code, fleet.total, fleet.evaluated) == (3, 6, 6)
    assert fleet.codes == {0: 3, 1: 1, 2: 1, 3: 1}
    assert [(each.source, each.name) for each in fleet.repeated] == [("list:7", "again")]

    (closed,) = answers["closed"].closed
    assert (closed.name, closed.closed_by) == ("shop/ready", ("approved",))
    assert answers["behind"].revision == "a1"
    assert [phase.gate for phase in answers["behind"].phases] == [Gate.NOT_STARTED]
    assert "cannot reach" in str(answers["gone"].error)
    assert "s3cret" not in str(fleet) + str(answers["gone"].error)

    groups = by_name(fleet.groups)
    assert groups[("north", "south")].state.evaluated
    assert fleet.groups[0].names == ("north", "south")
    assert set(groups) == {("north", "south"), ("behind",), ("closed",), ("gone",), ("drifted",)}
    assert fleet.drifted == ("drifted",)
    assert differences(answers["drifted"]) == {
        "column orders.extra added",
        "column order_log.id removed",
        "column order_log.line removed",
        "constraint order_log.order_log_pkey removed",
        "index order_log_pkey removed",
        "table order_log removed",
    }
    assert str(groups[("drifted",)].state.drift).startswith("schema differs from its record: ")
    assert answers["behind"].drift is None, "there is no ledger at a1, and so no record"


def test_one_gate_is_evaluated_alone_and_a_finished_phase_is_no_failure(
    shop: Project, tenants: Tenants
) -> None:
    lines = [tenants.named("ready", "b2", APPROVAL), tenants.named("done", "d4")]
    # Empty tables need no gate to go: so the one at d4 came there.
    fleet, answers = evaluate_list(shop, lines, phase="shop/ready", compare=False)
    assert {name: each.exit_code for name, each in answers.items()} == {"ready": 0, "done": 2}
    assert fleet.exit_code == 0
    assert answers["ready"].drift is None


def test_a_plan_says_how_many_revisions_wait_and_what_comes_next(shop: Project, tenants: Tenants) -> None:
    lines = [
        tenants.named("a", "b2", APPROVAL),
        tenants.named("b"),
        tenants.named("c", "a1"),
        f"gone = {UNREACHABLE}",
    ]
    fleet, answers = evaluate_list(shop, lines, planned=True)
    plans = {name: each for name, each in answers.items() if each.pending}
    assert {name: each.pending for name, each in plans.items()} == {
        **{"a": ("c3", "d4"), "b": ("c3", "d4"), "c": ("b2", "c3", "d4")}
    }
    assert str(plans["a"].next).startswith("the gate is open: alembic")
    assert str(plans["b"].next).startswith("c3 waits for shop/ready: pipestate gate shop/ready")
    assert str(plans["c"].next).endswith("upgrade b2")
    assert (fleet.exit_code, fleet.codes) == (3, {0: 3, 1: 0, 2: 0, 3: 1})


def test_runs_are_recorded_in_each_ledger_and_one_that_cannot_stops_nobody(
    shop: Project, tenants: Tenants
) -> None:
    kept, bare = tenants.create("b2", APPROVAL), tenants.create("a1")
    fleet, answers = evaluate_list(shop, [f"bare = {bare.text}", f"kept = {kept.text}"], record=True)
    assert kept.rows("SELECT event, phase, gate FROM pipestate.run WHERE event = 'verify'") == [
        ("verify", "ready", "open")
    ]
    assert "has no ledger" in str(answers["bare"].error)
    assert fleet.exit_code == 2


def test_each_database_is_compared_with_its_own_record(shop: Project, tenants: Tenants) -> None:
    """Most have drifted in the same way, and that does not make it right; owners are not compared."""
    change = "CREATE INDEX by_status ON orders (status)"
    lines = [*(tenants.named(name, "b2", change) for name in ("a", "b", "c")), tenants.named("right")]
    fleet, answers = evaluate_list(shop, lines)
    assert fleet.drifted == ("a", "b", "c")
    assert differences(answers["a"]) == {"index by_status added"}
    assert differences(answers["right"]) == set()


def test_drift_is_compared_without_owners(shop: Project, tenants: Tenants) -> None:
    """Tenants have roles of their own."""
    owned = tenants.create("b2", APPROVAL)
    role = f"{owned.url.database}_owner"
    owned.run(
        f"CREATE ROLE {role}", f"ALTER TABLE orders OWNER TO {role}", f"GRANT SELECT ON order_log TO {role}"
    )
    try:
        lines = [
            f"owned = {owned.text}",
            tenants.named("usual", "b2", APPROVAL),
            tenants.named("early", "a1"),
        ]
        fleet, _ = evaluate_list(shop, lines)
        assert fleet.drifted == ()
    finally:
        owned.run(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


def test_files_of_sqlite_are_evaluated_too(shop: Project, sqlite: Sqlite, tmp_path: Path) -> None:
    def fill(fresh: Database) -> None:
        open_shop(tmp_path / "template", fresh).upgrade("b2")

    open_, odd = sqlite.copy_of("shop at b2", fill), sqlite.copy_of("shop at b2", fill)
    open_.run(APPROVAL)
    odd.run("CREATE INDEX by_status ON orders (status)")
    lines = [open_.text, open_.text, f"odd = {odd.text}", "sqlite:////nowhere/at-all.db"]
    fleet, answers = evaluate_list(shop, lines)
    assert [each.exit_code for each in answers.values()].count(0) == 1
    assert answers["odd"].exit_code == 1
    assert "there is no file" in str(answers["at-all"].error)
    assert len(fleet.repeated) == 1
    assert fleet.drifted == ("odd",)
    assert differences(answers["odd"]) == {"index by_status added"}
    for database in (open_, odd):
        sqlite.drop(database)


def test_a_query_names_the_databases(shop: Project, tenants: Tenants) -> None:
    first, second = tenants.create("b2", APPROVAL), tenants.create()
    admin = tenants.server.admin.set(drivername="postgresql").render_as_string(False)
    names = f"('{first.url.database}', '{second.url.database}')"
    query = f"SELECT datname FROM pg_database WHERE datname IN {names}"
    fleet, answers = evaluate_list(shop, [f"eu = {admin} databases: {query}", first.text])
    assert {name: each.exit_code for name, each in answers.items()} == {
        f"eu/{first.url.database}": 0,
        f"eu/{second.url.database}": 1,
    }
    assert len(fleet.repeated) == 1


def test_queries_of_the_list_wait_together(shop: Project, tenants: Tenants) -> None:
    view = "CREATE VIEW slow AS SELECT current_database()::text AS name FROM pg_sleep(2)"
    database = tenants.create("b2", APPROVAL, view)
    slow = "databases: SELECT name FROM slow"
    lines = [f"s{number} = {database.text} {slow}" for number in range(4)]
    start = time.monotonic()
    fleet, answers = evaluate_list(shop, [*lines, f"gone = {UNREACHABLE} {slow}"], jobs=5, compare=False)
    assert time.monotonic() - start < 7, "one after another they take eight seconds"
    assert (fleet.total, set(answers)) == (2, {f"s0/{database.url.database}", "gone"})
    assert [each.source for each in fleet.repeated] == ["list:2", "list:3", "list:4"], "in the list's order"
    assert answers["gone"].exit_code == 3


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("SELECT datname FROM pg_database WHERE false", 2, "its query returned no row"),
        ("SELECT datname, oid FROM pg_database", 2, "one column"),
        ("SELECT NULL::text", 2, "a row without a name"),
        ("SELECT nowhere FROM pg_database", 3, 'column "nowhere" does not exist'),
        ("SELECT generate_series(1, 100001)::text", 2, "100,001 rows"),
    ],
)
def test_a_query_that_names_nothing_is_an_answer_of_its_line(
    shop: Project, tenants: Tenants, query: str, code: int, said: str
) -> None:
    admin = tenants.server.admin.set(drivername="postgresql").render_as_string(False)
    lines = [f"eu = {admin} databases: {query}", tenants.named("fine", "b2", APPROVAL)]
    fleet, answers = evaluate_list(shop, lines)
    assert (answers["eu"].exit_code, answers["fine"].exit_code, fleet.exit_code) == (code, 0, code)
    assert said in str(answers["eu"].error)


def test_names_that_are_not_unique_become_addresses(shop: Project, tenants: Tenants) -> None:
    lines = [tenants.named("acme"), tenants.named("acme")]
    _, answers = evaluate_list(shop, lines, compare=False)
    assert sorted(answers) == sorted(shown(database.url) for database in tenants.made)


def test_connections_are_closed_and_no_more_than_wanted_are_open(shop: Project, tenants: Tenants) -> None:
    lines = [tenants.named(f"t{number}") for number in range(4)]
    evaluate_list(shop, lines, jobs=2)
    names = ", ".join(f"'{database.url.database}'" for database in tenants.made)
    left = (
        f"SELECT count(*) FROM pg_stat_activity WHERE datname IN ({names}) AND pid <> pg_backend_pid() "
        "AND application_name = 'pipestate'"
    )
    # The server notices a moment later that a client has gone.
    wait_until(lambda: tenants.made[0].value(left) == 0, "no connection is left", patience_s=5)


def test_records_of_schemas_are_refused(shop: Project, tenants: Tenants) -> None:
    database = tenants.create()
    line = f"{database.text} schemas: SELECT 'public'"
    with pytest.raises(ConfigError, match="list:1: --record cannot be used with schemas"):
        evaluate_list(shop, [line], record=True)
