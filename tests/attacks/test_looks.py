"""A look sets up its own world: what a role, a database or a psqlrc has set does not change what it sees."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from attacks.conftest import MakeRole
from attacks.ledger import let_use_ledger
from attacks.orders import AT_B2, AT_D4, approve, state_of
from attacks.project import Project
from attacks.psql import feed
from support.servers import Database

# What goes through a gate: Alembic, and a script that psql runs.
Way = Callable[[Project], str]


def with_alembic(project: Project) -> str:
    done = project.alembic("upgrade", "head")
    return done.stdout + done.stderr


def with_psql(project: Project) -> str:
    return feed(project.database, project.script("b2:head"))


both_ways = pytest.mark.parametrize("way", [with_alembic, with_psql])


@dataclass(frozen=True)
class Setting:
    """A setting under which a check would find what it must not; `rows` prepares what it looks at."""

    name: str
    value: str
    check: str = "SELECT 0 AS n"
    require: str = "n = 0"
    rows: str = "SELECT 1"

    def apply(self, database: Database) -> None:
        name = database.url.database
        database.run(f"ALTER DATABASE {name} SET {self.name} = {self.value}", self.rows)


SETTINGS = [
    Setting(
        # Times without a zone, twelve hours old: read in a zone that is 14 hours ahead, 26 hours old.
        "TimeZone",
        "'Pacific/Kiritimati'",
        rows="UPDATE old_orders SET written_at = now() AT TIME ZONE 'UTC' - interval '12 hours'",
    ),
    Setting(
        "DateStyle",
        "'German'",
        check="SELECT count(*) AS n FROM old_orders WHERE CAST(written_at AS text) >= '2000'",
        rows="UPDATE old_orders SET written_at = '2020-01-05'",
    ),
    Setting(
        "IntervalStyle",
        "'iso_8601'",
        check="SELECT count(*) AS n FROM old_orders "
        "WHERE CAST(timestamp '2020-01-07' - written_at AS text) LIKE '2 days%'",
        rows="UPDATE old_orders SET written_at = '2020-01-05'",
    ),
    Setting(
        "transform_null_equals",
        "on",
        check="SELECT count(*) AS n FROM approvals WHERE revoked_at = NULL",
        require="n >= 1",
    ),
    Setting(
        "bytea_output",
        "'escape'",
        check=r"SELECT count(*) AS n FROM old_orders WHERE starts_with(CAST(convert_to(note, 'UTF8') AS text), '\x')",
    ),
    Setting(
        # Functions of the catalogue, and behind them, on this path in front of them, somebody's own.
        "search_path",
        "public, pg_catalog",
        rows="UPDATE old_orders SET written_at = now(); "
        "CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE "
        "AS 'SELECT timestamptz ''2990-01-01'''",
    ),
]


@both_ways
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_setting_of_the_database_opens_no_gate(gated: Project, setting: Setting, way: Way) -> None:
    approve(gated)
    gated.add_check(setting.check, setting.require)
    setting.apply(gated.database)
    way(gated)
    assert state_of(gated.database) == AT_B2
    assert gated.pipestate("gate", "orders/ready").returncode in (1, 3)


@both_ways
def test_an_open_gate_stays_open_under_all_of_them(gated: Project, way: Way) -> None:
    approve(gated)
    for setting in SETTINGS:
        Setting(setting.name, setting.value).apply(gated.database)
    said = way(gated)
    assert state_of(gated.database) == AT_D4, said


@both_ways
@pytest.mark.parametrize(("require", "opens"), [("state != 'revoked'", False), ("state = 'revoked'", True)])
def test_the_blanks_behind_a_char_make_no_difference(
    gated: Project, require: str, opens: bool, way: Way
) -> None:
    """What is compared is what SQL compares: 'revoked   ' of a char(10) is revoked."""
    approve(gated)
    gated.database.run("ALTER TABLE approvals ADD state char(10) DEFAULT 'revoked'")
    gated.add_check("SELECT state FROM approvals", require)
    assert gated.pipestate("gate", "orders/ready").returncode == (0 if opens else 1)
    said = way(gated)
    assert state_of(gated.database) == (AT_D4 if opens else AT_B2), said


@both_ways
def test_a_check_that_is_one_statement_stays_one(gated: Project, way: Way) -> None:
    r"""Where `\'` is a quote inside a text, this text ends early, and what follows is a command."""
    name = gated.database.url.database
    gated.database.run(f"ALTER DATABASE {name} SET standard_conforming_strings = off")
    gated.add_check(
        r"SELECT '\''; COMMIT; DROP TABLE old_orders; SELECT 0 AS n --' AS label, 0 AS n", "n = 0"
    )
    way(gated)
    assert state_of(gated.database) == AT_B2


def owned_by(gated: Project, owner: Database) -> Project:
    """Give the whole application to a role without other rights, and connect as that."""
    role = owner.url.username
    tables = ("old_orders", "new_orders", "approvals", "alembic_version")
    gated.database.run(
        *(f"ALTER TABLE {table} OWNER TO {role}" for table in tables),
        f"GRANT CREATE ON SCHEMA public TO {role}",
    )
    let_use_ledger(gated.database, owner)
    return gated.connect_as(owner)


@both_ways
@pytest.mark.parametrize(
    ("rows", "policy"),
    [
        ("SELECT 1", "false"),  # all of them: the table looks empty, and there would be nothing to lose
        ("UPDATE old_orders SET written_at = now() WHERE id = 1", "id > 1"),  # those of today
    ],
)
def test_rows_that_a_policy_hides_are_not_absent(
    gated: Project, make_role: MakeRole, way: Way, rows: str, policy: str
) -> None:
    if policy != "false":
        approve(gated)
    gated.database.run(
        rows,
        f"CREATE POLICY hidden ON old_orders USING ({policy})",
        "ALTER TABLE old_orders ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE old_orders FORCE ROW LEVEL SECURITY",
    )
    way(owned_by(gated, make_role(gated.database)))
    assert state_of(gated.database) == AT_B2


@both_ways
def test_an_owner_without_other_rights_goes_through_an_open_gate(
    gated: Project, make_role: MakeRole, way: Way
) -> None:
    approve(gated)
    said = way(owned_by(gated, make_role(gated.database)))
    assert state_of(gated.database) == AT_D4, said


@both_ways
def test_a_role_s_time_zone_and_style_are_back_for_the_body(gated: Project, way: Way) -> None:
    """A look gives back what it has set: what the revision writes is read by the application's own rules."""
    approve(gated)
    gated.edit(
        "migrations/versions/c3_drop_old_orders.py",
        (
            'op.execute("DROP TABLE old_orders")',
            "op.execute(\"INSERT INTO approvals (what) SELECT current_setting('TimeZone')\")\n"
            '        op.execute("DROP TABLE old_orders")',
        ),
    )
    name = gated.database.url.database
    gated.database.run(f"ALTER DATABASE {name} SET TimeZone = 'Pacific/Kiritimati'")
    said = way(gated)
    assert state_of(gated.database) == AT_D4, said
    assert ("Pacific/Kiritimati",) in gated.database.rows("SELECT what FROM approvals")


@both_ways
def test_a_check_that_writes_through_a_function_is_refused(gated: Project, way: Way) -> None:
    gated.database.run(
        "CREATE FUNCTION sneaky() RETURNS int LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO approvals (what) VALUES ('drop old_orders'); RETURN 0; END $$"
    )
    page = "runbooks/orders.md"
    gated.edit(page, ("## Phase: ready\n", "## Phase: ready\n\n" + SNEAKY))
    way(gated)
    assert state_of(gated.database) == AT_B2
    assert gated.database.value("SELECT count(*) FROM approvals") == 0


SNEAKY = """```sql
-- check: sneaky
-- dialect: postgresql
-- require: n = 0
SELECT sneaky() AS n;
```
"""
