"""`opens` is a promise: a revision that a page opens and that does not ask that gate is found, and refused."""

import py_compile
import shutil

import pytest

from attacks.attacked import Done, finish
from attacks.conftest import MakeRole
from attacks.ledger import recorded_revisions
from attacks.orders import AT_B2, AT_D4, BODY, CONTRACT, PAGE, State, approve, assert_refused, state_of
from attacks.project import Project
from attacks.psql import feed
from pipestate.ledger.record import who
from support.servers import Database

DROP = '    op.execute("DROP TABLE old_orders")\n'
GATE = """    with gate(
        "orders/ready",
        lock=["old_orders"],
        recheck=["quiet"],
        must_pass=["quiet", "approved"],
        revision=revision,
    ):
"""
EASY_GATE = '    with gate("orders/easy", lock=["old_orders"], revision=revision):\n'
EASY_PHASE = """
## Phase: easy

```sql
-- check: nothing
-- require: n = 0
SELECT 0 AS n;
```
"""


def revision(body: str, *, head: str = "", tail: str = "") -> str:
    """Write c3 with another body."""
    return (
        '"""What must not happen before its gate is open."""\n\nfrom alembic import op\n'
        'from pipestate.gate import gate\n\nrevision = "c3"\ndown_revision = "b2"\n'
        f"{head}\n\ndef upgrade() -> None:\n{body}\n\ndef downgrade() -> None:\n    pass\n{tail}"
    )


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


# Revisions that a reader of the file finds out.
SILENT = {
    "no gate at all": revision(DROP),
    "a gate in a comment": revision(DROP + '    # with gate("orders/ready", lock=["old_orders"]):\n'),
    "a gate in a text": revision(DROP + '    """with gate(\'orders/ready\', lock=[\'old_orders\']):"""\n'),
    "the gate of another phase": revision(
        GATE.replace("orders/ready", "orders/easy").replace(
            'recheck=["quiet"],\n        must_pass=["quiet", "approved"],\n        ', ""
        )
        + f"    {DROP}"
    ),
}
# Revisions that call the gate somewhere, and never get there.
PRETENDING = {
    "behind an if that is never true": revision(
        f"    if revision == 'never':\n{indented(GATE + '        pass')}{DROP}"
    ),
    "in a function that nobody calls": revision(
        DROP, tail=f"\n\ndef unused() -> None:\n{GATE}        pass\n"
    ),
    "on the way down": revision(DROP).replace(
        "def downgrade() -> None:\n    pass\n", f"def downgrade() -> None:\n{GATE}        pass\n"
    ),
}


def write(project: Project, text: str) -> None:
    project.write(CONTRACT, text)
    if "orders/easy" in text:
        project.edit(PAGE, ("phases:\n", 'phases:\n  easy: {from: "b2", until: "c3", opens: ["c3"]}\n'))
        project.edit(PAGE, ("\n## Phase: ready\n", f"{EASY_PHASE}\n## Phase: ready\n"))


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
@pytest.mark.parametrize("command", ["runbook lint", "plan", "verify", "gate orders/ready"])
def test_a_revision_that_does_not_ask_its_gate_is_found(approved: Project, command: str, text: str) -> None:
    write(approved, text)
    done = approved.pipestate(*command.split())
    assert done.returncode == 2, done.stdout + done.stderr
    assert "c3" in done.stdout + done.stderr
    assert "orders/ready" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["runbook lint", "plan", "verify"])
def test_a_revision_that_does_not_exist_is_found(approved: Project, command: str) -> None:
    approved.edit(PAGE, ('opens: ["c3"]', 'opens: ["c3", "c400"]'))
    done = approved.pipestate(*command.split())
    assert done.returncode == 2, done.stdout + done.stderr
    assert "c400" in done.stdout + done.stderr


def test_a_gate_that_is_named_by_a_constant_is_a_gate(gated: Project) -> None:
    text = gated.read(CONTRACT).replace('"orders/ready"', "PHASE")
    gated.write(CONTRACT, text.replace("\n\ndef upgrade", '\nPHASE = "orders/ready"\n\n\ndef upgrade'))
    assert gated.pipestate("runbook", "lint").returncode == 0
    assert gated.pipestate("verify").returncode == 1
    gated.use_environment("guarded")
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "the gate orders/ready is closed")


@pytest.mark.parametrize("text", [*SILENT.values(), *PRETENDING.values()], ids=[*SILENT, *PRETENDING])
def test_the_guard_refuses_what_has_not_asked_its_gate(gated: Project, text: str) -> None:
    approve(gated)
    write(gated, text)
    gated.use_environment("guarded")
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "c3", "orders/ready")


@pytest.mark.parametrize("text", [*SILENT.values(), *PRETENDING.values()], ids=[*SILENT, *PRETENDING])
def test_the_guard_writes_no_script_for_what_does_not_ask_its_gate(gated: Project, text: str) -> None:
    write(gated, text)
    gated.use_environment("guarded")
    done = gated.alembic("upgrade", "b2:head", "--sql")
    feed(gated.database, done.stdout)
    assert_refused(done, gated.database, "c3", "orders/ready")


@pytest.mark.parametrize("script", [False, True], ids=["alembic", "psql"])
def test_of_two_gates_that_open_a_revision_one_is_not_enough(gated: Project, script: bool) -> None:
    """The easy one is open and asked; the other stands where it is never asked."""
    approve(gated)
    never = indented(GATE + "        pass")
    write(gated, revision(f"    if revision == 'never':\n{never}{EASY_GATE}    {DROP}"))
    gated.use_environment("guarded")
    arguments = ("b2:head", "--sql") if script else ("head",)
    done = gated.alembic("upgrade", *arguments)
    assert_refused(done, gated.database, "c3", "without passing the gate orders/ready")


def test_two_gates_that_open_a_revision_and_are_both_passed_are_enough(gated: Project) -> None:
    approve(gated)
    write(gated, revision(f"{GATE}        pass\n{EASY_GATE}    {DROP}"))
    gated.use_environment("guarded")
    done = gated.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


def test_the_guard_refuses_opens_with_a_revision_that_the_project_does_not_have(gated: Project) -> None:
    """The revision that was meant would run without its gate."""
    gated.use_environment("guarded")
    write(gated, SILENT["no gate at all"])
    gated.edit(PAGE, ('opens: ["c3"]', 'opens: ["c30"]'))
    said = "runbooks/orders.md:9: phase ready opens c30, a revision that the project does not have"
    assert_refused(gated.alembic("upgrade", "head"), gated.database, said)
    done = gated.alembic("upgrade", "b2:head", "--sql")
    assert done.returncode != 0
    assert said in done.stdout + done.stderr


NO_OPENS = ('until: "c3", opens: ["c3"]', 'until: "c3"')


@pytest.mark.parametrize("text", PRETENDING.values(), ids=PRETENDING)
def test_without_opens_a_revision_must_pass_the_gate_that_its_file_asks(gated: Project, text: str) -> None:
    if "def downgrade() -> None:\n    with gate" in text:
        text = text.replace(
            "def upgrade() -> None:\n",
            f"def upgrade() -> None:\n    if False:\n{indented(GATE)}            pass\n",
        )
    approve(gated)
    write(gated, text)
    gated.edit(PAGE, NO_OPENS)
    gated.use_environment("guarded")
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "without passing the gate orders/ready")


def test_without_opens_a_phase_opens_what_asks_it(gated: Project) -> None:
    gated.edit(PAGE, (', until: "c3", opens: ["c3"]', ""))
    gated.use_environment("guarded")
    assert gated.pipestate("runbook", "lint").returncode == 0
    assert '"phase": "orders/ready"' in gated.pipestate("plan", "--json").stdout
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "the gate orders/ready is closed")
    approve(gated)
    done = gated.pipestate("upgrade")
    assert done.returncode == 0, done.stdout + done.stderr
    assert state_of(gated.database) == AT_D4
    done = gated.pipestate("verify", "--json")
    assert '"gate": "past"' in done.stdout, "the phase ends with the revision that it opens"


def test_a_revision_that_imports_its_place_in_the_history_stops_no_upgrade(gated: Project) -> None:
    gated.use_environment("guarded")
    gated.write("places.py", 'down_revision = "b2"\n')
    gated.edit(CONTRACT, ('down_revision = "b2"\n', "from places import down_revision\n"))
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "the gate orders/ready is closed")
    approve(gated)
    assert gated.alembic("upgrade", "head").returncode == 0
    assert gated.pipestate("plan").returncode == 0
    gated.write("places.py", 'down_revision = "B2".lower()\n')
    done = gated.pipestate("plan")
    assert done.returncode == 2
    assert "`down_revision` is not a literal: write the ids themselves" in done.stderr


def test_a_revision_without_source_asks_its_own_gate(gated: Project) -> None:
    gated.use_environment("guarded")
    gated.edit("alembic.ini", ("[alembic]\n", "[alembic]\nsourceless = true\n"))
    py_compile.compile(str(gated.root / CONTRACT), cfile=str(gated.root / f"{CONTRACT}c"), doraise=True)
    (gated.root / CONTRACT).unlink()
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "c3", "does not check that gate")
    gated.edit(PAGE, NO_OPENS)
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "the gate orders/ready is closed")
    approve(gated)
    done = gated.alembic("upgrade", "head")
    assert done.returncode == 0, done.stderr
    assert state_of(gated.database) == AT_D4


def test_an_empty_directory_hides_no_runbooks_and_is_said(gated: Project) -> None:
    gated.use_environment("guarded")
    (gated.root / "runbooks").rename(gated.root / "migrations" / "runbooks")
    (gated.root / "runbooks").mkdir()
    (gated.root / "runbooks" / ".gitkeep").touch()
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "the gate orders/ready is closed")
    assert gated.pipestate("runbook", "lint").returncode == 0
    shutil.rmtree(gated.root / "migrations" / "runbooks")
    write(gated, revision("    pass\n"))
    done = gated.alembic("upgrade", "head")
    assert done.returncode == 0, done.stderr
    assert "runbooks holds no runbook: no revision waits for a gate" in done.stderr


def test_the_guard_lets_an_open_gate_through_and_keeps_a_closed_one_closed(gated: Project) -> None:
    gated.use_environment("guarded")
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "the gate orders/ready is closed")
    approve(gated)
    done = gated.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


def test_a_gate_that_has_nothing_to_ask_says_that_nothing_was_asked(gated: Project) -> None:
    gated.edit(CONTRACT, ('recheck=["quiet"],\n        must_pass=["quiet", "approved"],\n        ', ""))
    gated.edit(
        PAGE,
        ("-- require: recent", "-- from: c3\n-- require: recent"),
        ("-- require: rows", "-- from: c3\n-- require: rows"),
    )
    said = "the gate orders/ready is closed: no blocking check applies here, so"
    assert_refused(gated.alembic("upgrade", "head"), gated.database, said)


def test_the_guard_does_not_stop_an_upgrade_that_was_forced(gated: Project) -> None:
    gated.use_environment("guarded")
    done = gated.alembic("-x", "force=incident 7", "upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


def test_the_guard_records_what_was_applied_and_taken_back(gated: Project) -> None:
    gated.use_environment("guarded")
    approve(gated)
    assert gated.alembic("upgrade", "head").returncode == 0
    assert recorded_revisions(gated.database, "upgrade") == ["c3", "d4"]
    assert gated.alembic("downgrade", "c3").returncode == 0
    assert recorded_revisions(gated.database, "downgrade") == ["d4"]
    assert gated.alembic("stamp", "d4").returncode == 0
    assert recorded_revisions(gated.database, "stamp") == ["d4"]
    said = gated.pipestate("history").stdout
    for word in ("upgrade", "downgrade", "stamp", who()):
        assert word in said


def test_the_guard_records_by_whom_when_and_for_how_long(gated: Project) -> None:
    gated.use_environment("guarded")
    approve(gated)
    gated.edit(CONTRACT, (BODY, f'{BODY}\n        op.execute("SELECT pg_sleep(0.3)")'))
    before = gated.database.value("SELECT clock_timestamp()")
    for command in ("upgrade head", "downgrade c3", "stamp d4"):
        assert gated.alembic(*command.split()).returncode == 0
    rows = gated.database.rows(
        "SELECT event, revision, actor, duration_ms, recorded_at >= lag(recorded_at) OVER (ORDER BY id) IS NOT FALSE, "
        f"recorded_at BETWEEN '{before}' AND clock_timestamp() FROM pipestate.run WHERE event <> 'gate' ORDER BY id"
    )
    assert [row[:3] for row in rows] == [
        ("upgrade", "c3", who()),
        ("upgrade", "d4", who()),
        ("downgrade", "d4", who()),
        ("stamp", "d4", who()),
    ]
    assert all(in_order and in_time for *_, in_order, in_time in rows)
    c3, d4, back, stamped = (row[3] for row in rows)
    assert 300 <= float(str(c3)) < 30_000
    assert 0 < float(str(d4)) < 30_000
    assert 0 < float(str(back)) < 30_000
    assert stamped is None  # nothing ran


def test_the_guard_records_where_a_stamp_leads(gated: Project) -> None:
    gated.use_environment("guarded")
    assert gated.pipestate("ledger", "install").returncode == 0
    for revision in ("d4", "b2", "base"):
        assert gated.alembic("stamp", revision).returncode == 0
    assert recorded_revisions(gated.database, "stamp") == ["d4", "b2", "base"]


def test_a_closed_gate_records_no_revision(gated: Project) -> None:
    gated.use_environment("guarded")
    assert gated.alembic("upgrade", "head").returncode != 0
    assert state_of(gated.database) == AT_B2
    assert recorded_revisions(gated.database, "upgrade") == []


# --- A guard that would be off ---------------------------------------------------------------------

GUARD = "guard(context)\n"
BEGIN = "        with context.begin_transaction():\n"
STEPS = """
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory

config = Config("alembic.ini")
script = ScriptDirectory.from_config(config)


def steps(heads, context):
    return script._upgrade_revs("head", heads)


with EnvironmentContext(config, script, fn=steps):
    script.run_env()
"""
IN_CODE = """
from alembic import command
from alembic.config import Config

config = Config()
config.set_main_option("script_location", "migrations")
config.set_main_option("sqlalchemy.url", {url!r})
command.upgrade(config, "head")
"""


def python(project: Project, code: str) -> Done:
    """Run an application that calls Alembic from code: what is raised ends in a traceback, as Alembic's own does."""
    with project.running("-c", code) as process:
        return finish(process)


def test_a_guard_behind_configure_is_refused(gated: Project) -> None:
    gated.use_environment("guarded")
    write(gated, SILENT["no gate at all"])
    gated.edit("migrations/env.py", (GUARD, ""), (BEGIN, f"        {GUARD}{BEGIN}"))
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "guard(context) is called after")


def test_the_guard_holds_where_an_application_brings_its_own_steps(gated: Project) -> None:
    """`EnvironmentContext(config, script, fn=...)`, without a destination."""
    gated.use_environment("guarded")
    write(gated, PRETENDING["behind an if that is never true"])
    done = python(gated, STEPS)
    assert "without passing the gate orders/ready" in done.stderr
    assert state_of(gated.database) == AT_B2
    with gated.database.engine.connect() as other:
        other.exec_driver_sql("SELECT pg_advisory_lock(1885958245, 1937006964)")
        with gated.running("-c", STEPS) as process:
            assert "another migration is running" in str(process.stderr and process.stderr.readline())


def test_pages_that_are_not_there_are_no_leave_to_go_on(gated: Project) -> None:
    """A Config that is made in code has no file beside which they could be."""
    gated.use_environment("guarded")
    write(gated, PRETENDING["behind an if that is never true"])
    url = gated.database.url.render_as_string(hide_password=False).replace("%", "%%")
    done = python(gated, IN_CODE.format(url=url))
    assert "revision c3 checks the gate orders/ready, but there is no runbook in" in done.stderr
    assert state_of(gated.database) == AT_B2
    (gated.root / "elsewhere").mkdir()
    ini = gated.read("alembic.ini").replace("%(here)s/migrations", "%(here)s/../migrations")
    gated.write("elsewhere/alembic.ini", ini)
    done = gated.alembic("-c", "elsewhere/alembic.ini", "upgrade", "head")
    assert_refused(done, gated.database, "c3", "orders/ready", "there is no runbook in")
    shutil.copytree(gated.root / "runbooks", gated.root / "migrations" / "runbooks")
    done = gated.alembic("-c", "elsewhere/alembic.ini", "upgrade", "head")
    assert_refused(done, gated.database, "without passing the gate orders/ready")


def test_commands_that_only_look_need_no_pages_and_do_not_queue(gated: Project) -> None:
    gated.use_environment("guarded")
    shutil.rmtree(gated.root / "runbooks")
    with gated.database.engine.connect() as other:
        other.exec_driver_sql("SELECT pg_advisory_lock(1885958245, 1937006964)")
        for command in ("current", "history -i", "heads"):
            done = gated.alembic(*command.split())
            assert done.returncode == 0, done.stderr
            assert "another migration" not in done.stderr


# --- A ledger that cannot be written ---------------------------------------------------------------


def migrating_as(project: Project, role: Database) -> Project:
    """Give the application to a role, but not the database and not the ledger."""
    name = role.url.username
    project.database.run(
        *(f"ALTER TABLE {table} OWNER TO {name}" for table in ("old_orders", "approvals", "alembic_version")),
        f"GRANT CREATE, USAGE ON SCHEMA public TO {name}",
    )
    return project.connect_as(role)


def test_a_role_that_may_not_write_into_the_ledger_is_told_before_anything_runs(
    gated: Project, make_role: MakeRole
) -> None:
    approve(gated)
    gated.use_environment("guarded")
    role = make_role(gated.database)
    project = migrating_as(gated, role)
    done = project.alembic("upgrade", "head")
    grant = (done.stdout + done.stderr).partition("As its owner: ")[2].partition(")")[0] + ")"
    assert_refused(done, gated.database, "CALL pipestate.grant_migrating(")
    gated.database.run(grant)
    done = project.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr
    assert recorded_revisions(gated.database, "upgrade") == ["c3", "d4"]


def take_the_gate_away(project: Project) -> None:
    """Leave migrations that ask no gate, which would look at the ledger itself."""
    (project.root / CONTRACT).unlink()
    project.edit("migrations/versions/d4_after_orders.py", ('down_revision = "c3"', 'down_revision = "b2"'))
    project.edit(PAGE, (', opens: ["c3"]', ""), ('until: "c3"', 'until: "d4"'))


def test_a_ledger_of_somebody_elses_stops_an_upgrade_in_a_sentence(
    gated: Project, make_role: MakeRole
) -> None:
    take_the_gate_away(gated)
    gated.use_environment("guarded")
    stranger = make_role(gated.database).url.username
    gated.database.run(f"ALTER TABLE pipestate.run OWNER TO {stranger}")
    done = gated.alembic("upgrade", "head")
    assert_refused(done, gated.database, f"pipestate.run belongs to {stranger}")
    assert gated.alembic("current").returncode == 0


def test_an_older_ledger_is_said_once_and_stops_no_upgrade(gated: Project) -> None:
    gated.use_environment("guarded")
    gated.database.run("DROP VIEW pipestate.compat")
    take_the_gate_away(gated)
    gated.write(
        "migrations/versions/e5.py",
        'revision = "e5"\ndown_revision = "d4"\n\n\ndef upgrade() -> None:\n    pass\n',
    )
    done = gated.alembic("upgrade", "head")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("older than this pipestate: it lacks compat") == 1
    assert "no migration is recorded" in done.stderr
    assert recorded_revisions(gated.database, "upgrade") == []


# --- A pooler that hands out sessions --------------------------------------------------------------

LOSES = """
from sqlalchemy import event


@event.listens_for(Engine, "begin")
def lose(connection):
    connection.info["begun"] = connection.info.get("begun", 0) + 1
    if connection.info["begun"] > {transactions}:
        connection.exec_driver_sql("SELECT pg_advisory_unlock_all()")
"""


@pytest.mark.parametrize(("transactions", "reached"), [(1, AT_B2), (2, State("c3", None)), (3, AT_D4)])
def test_a_lock_that_is_lost_under_the_guard_is_noticed(
    gated: Project, transactions: int, reached: State
) -> None:
    """What PgBouncer in transaction mode does: the next transaction is in another session, without the lock.

    Before the first revision, between two of them, and after the last.
    """
    approve(gated)
    gated.use_environment("guarded")
    lose = f"from sqlalchemy import Engine{LOSES.format(transactions=transactions)}"
    gated.edit(
        "migrations/env.py",
        (GUARD, f"{lose}\n\n{GUARD}"),
        (
            "configure(connection=connection)",
            "configure(connection=connection, transaction_per_migration=True)",
        ),
    )
    done = gated.alembic("upgrade", "head")
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert "Traceback" not in said
    assert "pooler in session mode" in said
    assert state_of(gated.database) == reached
