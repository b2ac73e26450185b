"""A sign-off is a person's word for one runbook and phase, and it counts from the ledger alone."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks import orders
from attacks.attacked import Done
from attacks.conftest import MakeRole
from attacks.orders import AT_B2, AT_D4, PAGE, approve, assert_refused, state_of
from attacks.project import Project, lay_out
from attacks.psql import feed
from support.alembic_runs import dump
from support.servers import Database, Postgres

CUSTOMERS = """---
runbook: customers
phases:
  ready: {from: "b2"}
---
# Customers

## Phase: ready

- [ ] `backup-taken` (24h): A backup of the customers lies on another machine.
"""
SIGN_OFF = "\n- [ ] `backup-taken` (24h): A backup of the orders lies on another machine.\n"
FORGED = {
    "attestation": "(runbook, phase, name, person, signed_at) "
    "VALUES ('orders', 'ready', 'backup-taken', 'nobody', now())",
    "sign_off": "(runbook, phase, name, person, signed_at, age_seconds) "
    "VALUES ('orders', 'ready', 'backup-taken', 'nobody', now(), 0)",
    "pipestate_attestation": "(name, attested_by, attested_at) VALUES ('backup-taken', 'nobody', now())",
}


@pytest.fixture
def signed(postgres: Postgres, make_role: MakeRole, tmp_path: Path) -> Iterator[Project]:
    """The project with a ledger, all approved; what is missing is a sign-off of its own."""
    del make_role  # roles can only go when the database is gone

    database = postgres.copy_of("attacked", lambda fresh: orders.fill(fresh, tmp_path / "template"))
    project = lay_out("attacked", tmp_path / "signed", database)
    add_sign_offs(project)
    yield project
    postgres.drop(database)


def add_sign_offs(project: Project) -> None:
    approve(project)
    project.write(PAGE, project.read(PAGE) + SIGN_OFF)
    project.write("runbooks/customers.md", CUSTOMERS)


def attest(project: Project, name: str, *, by: str = "dba@example.com") -> Done:
    """Sign off."""
    return project.pipestate("attest", name, "--by", by)


def test_a_sign_off_of_its_own_opens_the_gate(signed: Project) -> None:
    assert signed.pipestate("gate", "orders/ready").returncode == 1
    assert attest(signed, "orders/ready/backup-taken").returncode == 0
    assert signed.pipestate("gate", "orders/ready").returncode == 0
    done = signed.alembic("upgrade", "head")
    assert (done.returncode, state_of(signed.database)) == (0, AT_D4), done.stderr


@pytest.mark.parametrize(
    "rewritten",
    [SIGN_OFF.replace("lies on another machine", "exists"), SIGN_OFF.replace("(24h)", "(90d)")],
    ids=["its text", "how long it holds"],
)
def test_a_sign_off_that_is_rewritten_must_be_signed_again(signed: Project, rewritten: str) -> None:
    assert attest(signed, "orders/ready/backup-taken").returncode == 0
    signed.edit(PAGE, (SIGN_OFF, rewritten))
    assert signed.pipestate("gate", "orders/ready").returncode == 1
    assert_refused(signed.alembic("upgrade", "head"), signed.database, "backup-taken")
    feed(signed.database, signed.script("b2:head"))
    assert state_of(signed.database) == AT_B2
    assert attest(signed, "orders/ready/backup-taken").returncode == 0
    assert signed.pipestate("gate", "orders/ready").returncode == 0


def test_a_copy_inherits_no_sign_off_until_it_is_adopted(signed: Project, postgres: Postgres) -> None:
    assert attest(signed, "orders/ready/backup-taken").returncode == 0
    copy = signed.connect_as(postgres.create(str(signed.database.url.database)))
    try:
        assert_refused(copy.alembic("upgrade", "head"), copy.database, "backup-taken")
        feed(copy.database, copy.script("b2:head"))
        assert state_of(copy.database) == AT_B2
        adopted = copy.pipestate("ledger", "adopt")
        assert adopted.returncode == 0, adopted.stderr
        assert "adopted 1 sign-off" in adopted.stderr
        done = copy.alembic("upgrade", "head")
        assert (done.returncode, state_of(copy.database)) == (0, AT_D4), done.stderr
    finally:
        postgres.drop(copy.database)


def test_a_sign_off_for_another_runbook_opens_nothing(signed: Project) -> None:
    assert attest(signed, "customers/ready/backup-taken").returncode == 0
    assert signed.pipestate("gate", "customers/ready").returncode == 0
    assert signed.pipestate("gate", "orders/ready").returncode == 1
    assert_refused(signed.alembic("upgrade", "head"), signed.database, "backup-taken")
    feed(signed.database, signed.script("b2:head"))
    assert state_of(signed.database) == AT_B2


def test_a_sign_off_that_two_runbooks_ask_for_must_say_which(signed: Project) -> None:
    done = signed.pipestate("attest", "backup-taken", "--by", "dba@example.com")
    assert done.returncode == 2, done.stderr
    assert "orders/ready/backup-taken" in done.stderr
    assert "customers/ready/backup-taken" in done.stderr


def test_one_person_is_not_two(signed: Project) -> None:
    """Only since there is a number of people: 0.1.0 refuses the page."""
    signed.edit(PAGE, ("(24h)", "(24h, 2 people)"))
    for _ in range(2):
        assert attest(signed, "orders/ready/backup-taken").returncode == 0
    assert_refused(signed.alembic("upgrade", "head"), signed.database, "backup-taken")
    feed(signed.database, signed.script("b2:head"))
    assert state_of(signed.database) == AT_B2
    assert attest(signed, "orders/ready/backup-taken", by="somebody else").returncode == 0
    done = signed.alembic("upgrade", "head")
    assert (done.returncode, state_of(signed.database)) == (0, AT_D4), done.stderr


# --- Forged ledgers --------------------------------------------------------------------------------


def forge(schema: str, database: Database, forger: Database) -> None:
    """Have somebody else write, in a schema of his, tables that look like those of a ledger."""
    for name, row in FORGED.items():
        columns = row.partition(")")[0].strip("(").replace("age_seconds", "age_seconds bigint")
        types = ", ".join(
            f"{column} timestamptz"
            if column.endswith("_at")
            else column
            if " " in column
            else f"{column} text"
            for column in columns.split(", ")
        )
        forger.run(f"CREATE TABLE {schema}.{name} ({types})", f"INSERT INTO {schema}.{name} {row}")
    database.run(
        f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO PUBLIC",
    )


def own(project: Project, owner: Database) -> Project:
    """Give the application, its ledger and the database to a role, and connect as that."""
    role, name = owner.url.username, project.database.url.database
    owned = project.database.rows(
        "SELECT format('ALTER %s %I.%I OWNER TO ', CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, "
        "nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE nspname IN ('public', 'pipestate') AND relkind IN ('r', 'v')"
    )
    schemas = project.database.rows(
        "SELECT nspname FROM pg_namespace WHERE nspname IN ('public', 'pipestate')"
    )
    routines = project.database.rows(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = to_regnamespace('pipestate')"
    )
    project.database.run(
        *(f"{statement}{role}" for (statement,) in owned),
        *(f"ALTER SCHEMA {schema} OWNER TO {role}" for (schema,) in schemas),
        *(f"ALTER ROUTINE {routine} OWNER TO {role}" for (routine,) in routines),
        f"ALTER DATABASE {name} OWNER TO {role}",
    )
    return project.connect_as(owner)


@pytest.mark.parametrize(
    "again",
    [
        "jose\u0301 ruiz",
        "José\u00a0Ruiz",
        "jos\u200bé ruiz",
        "ｊｏｓé ruiz",
        "JOSÉ RUIZ",
        *(f"josé ruiz{each}" for each in "\ufe0f\u034f\u3164\u115f\u2800\u180b\u17b4"),
    ],
)
def test_one_person_on_another_keyboard_is_not_two(signed: Project, again: str) -> None:
    """A Mac may write é as two characters, and what is copied from a chat may have one that nobody sees."""
    signed.edit(PAGE, ("(24h)", "(24h, 2 people)"))
    for person in ("josé ruiz", again):
        assert attest(signed, "orders/ready/backup-taken", by=person).returncode == 0
    assert signed.pipestate("gate", "orders/ready").returncode == 1


def test_a_schema_named_like_the_migrating_role_is_no_ledger(signed: Project, make_role: MakeRole) -> None:
    """`"$user"` comes first on the path by default, and whoever may create a schema may call it so."""
    owner, forger = make_role(signed.database), make_role(signed.database)
    project = own(signed, owner)
    schema = str(owner.url.username)
    signed.database.run(f"GRANT CREATE ON DATABASE {signed.database.url.database} TO {forger.url.username}")
    forger.run(f"CREATE SCHEMA {schema}")
    forge(schema, signed.database, forger)
    assert project.pipestate("gate", "orders/ready").returncode in (1, 3)
    assert_refused(project.alembic("upgrade", "head"), signed.database)
    feed(project.database, project.script("b2:head"))
    assert state_of(signed.database) == AT_B2


def test_a_ledger_that_somebody_else_has_made_is_none(
    gated: Project, signed: Project, make_role: MakeRole
) -> None:
    """The same tables to the letter, but made, and filled, by a role that has no say here."""
    add_sign_offs(gated)
    owner, forger = make_role(gated.database), make_role(gated.database)
    gated.database.run("DROP SCHEMA pipestate CASCADE")
    project = own(gated, owner)
    gated.database.run(
        f"GRANT CREATE ON DATABASE {gated.database.url.database} TO {forger.url.username}",
        f"GRANT CREATE, USAGE ON SCHEMA public TO {forger.url.username}",
    )
    ledger = dump(signed.database, "--schema=pipestate", "--no-privileges")
    # A newer pg_dump begins with a setting that an older server does not know.
    ledger = ledger.replace("SET transaction_timeout = 0;", "")
    said = feed(forger, ledger, "-v", "ON_ERROR_STOP=1")
    assert "ERROR" not in said, said
    schema, name = "pipestate", "attestation"
    forger.run(f"INSERT INTO {schema}.{name} {FORGED[name]}")
    gated.database.run(
        f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC",
        f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO PUBLIC",
    )
    done = project.pipestate("gate", "orders/ready")
    assert (done.returncode, f"belongs to {forger.url.username}" in done.stdout) == (3, True), done.stdout
    assert_refused(project.alembic("upgrade", "head"), gated.database)
    feed(project.database, project.script("b2:head"))
    assert state_of(gated.database) == AT_B2


@pytest.fixture
def forged(gated: Project, make_role: MakeRole) -> Project:
    """A database without a ledger, where somebody has made a schema of its name with the sign-off that is missing."""
    add_sign_offs(gated)
    owner, forger = make_role(gated.database), make_role(gated.database)
    gated.database.run("DROP SCHEMA pipestate CASCADE")
    project = own(gated, owner)
    gated.database.run(f"GRANT CREATE ON DATABASE {gated.database.url.database} TO {forger.url.username}")
    forger.run("CREATE SCHEMA pipestate")
    forge("pipestate", gated.database, forger)
    return project


def test_a_schema_with_nothing_but_the_sign_off_opens_no_gate(forged: Project) -> None:
    """There is no table of runs, and so no ledger to write to; the sign-off could be read all the same."""
    for command in ("gate orders/ready", "verify orders"):
        done = forged.pipestate(*command.split())
        assert done.returncode == 3, done.stdout + done.stderr
        assert "the schema pipestate belongs to" in " ".join(done.stdout.split())
    found = json.loads(forged.pipestate("verify", "orders", "--json", "--jobs", "2").stdout)
    (outcome,) = (
        each["outcome"]
        for each in found["runbooks"][0]["phases"][0]["checks"]
        if each["id"] == "backup-taken"
    )
    assert outcome == "errored"
    assert_refused(forged.alembic("upgrade", "head"), forged.database, "the schema pipestate belongs to")


def test_a_schema_with_nothing_but_the_sign_off_opens_no_gate_of_a_script(forged: Project) -> None:
    said = feed(forged.database, forged.script("b2:head"))
    assert "the schema pipestate belongs to" in said
    assert state_of(forged.database) == AT_B2


@pytest.fixture
def administered(gated: Project, make_role: MakeRole) -> Iterator[tuple[Project, Database]]:
    """The project of a role that creates roles, and one that it has created: from 16 on it is a member of that."""
    add_sign_offs(gated)
    owner = make_role(gated.database, "CREATEROLE")
    name = f"{owner.url.username}_created"
    owner.run(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    gated.database.run("DROP SCHEMA pipestate, pipestate_archive CASCADE")
    yield own(gated, owner), Database(owner.url.set(username=name))
    gated.database.run(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


@pytest.mark.parametrize("script", [False, True], ids=["alembic", "psql"])
def test_a_role_that_the_migrating_one_has_created_forges_no_sign_off(
    administered: tuple[Project, Database], script: bool
) -> None:
    """That membership has neither INHERIT nor SET: its administrator can neither act as it nor answer for it."""
    project, created = administered
    name = created.url.username
    Database(project.database.url).run(f"GRANT CREATE ON DATABASE {created.url.database} TO {name}")
    created.run("CREATE SCHEMA pipestate")
    forge("pipestate", created, created)
    if script:
        said = feed(project.database, project.script("b2:head"))
        assert state_of(project.database) == AT_B2
    else:
        done = project.alembic("upgrade", "head")
        assert_refused(done, project.database)
        said = done.stdout + done.stderr
    assert f"the schema pipestate belongs to {name}" in said


@pytest.mark.parametrize("script", [False, True], ids=["alembic", "psql"])
def test_a_role_that_the_migrating_one_has_created_is_another_role(
    administered: tuple[Project, Database], script: bool
) -> None:
    """Its function is an impostor of what a check of the gate calls."""
    project, created = administered
    project.add_check("SELECT id FROM old_orders WHERE lower(note) = 'x'", "rows = 0")
    assert project.pipestate("ledger", "install").returncode == 0
    assert attest(project, "orders/ready/backup-taken").returncode == 0
    project.database.run(f"GRANT CREATE, USAGE ON SCHEMA public TO {created.url.username}")
    created.run("CREATE FUNCTION public.lower(varchar) RETURNS text LANGUAGE sql AS $$ SELECT 'planted' $$")
    if script:
        said = feed(project.database, project.script("b2:head"))
        assert state_of(project.database) == AT_B2
    else:
        done = project.alembic("upgrade", "head")
        assert_refused(done, project.database)
        said = done.stdout + done.stderr
    assert f"public.lower(character varying) of {created.url.username}" in " ".join(said.split())


def test_what_a_stranger_has_added_to_a_ledger_closes_the_gate(signed: Project, make_role: MakeRole) -> None:
    """One view of the ledger is his: he may have been its owner for a moment."""
    owner, forger = make_role(signed.database), make_role(signed.database)
    project = own(signed, owner)
    assert attest(project, "orders/ready/backup-taken").returncode == 0
    assert project.pipestate("gate", "orders/ready").returncode == 0
    signed.database.run(f"ALTER VIEW pipestate.sign_off OWNER TO {forger.url.username}")
    done = project.pipestate("gate", "orders/ready")
    assert done.returncode == 3
    assert f"pipestate.sign_off belongs to {forger.url.username}" in " ".join(done.stdout.split())
    assert_refused(project.alembic("upgrade", "head"), signed.database, "pipestate.sign_off belongs to")


def test_a_reader_and_a_superuser_trust_the_ledger_of_who_migrates(
    signed: Project, make_role: MakeRole
) -> None:
    """The role that owns the version table migrates; the database belongs to somebody else, and nobody is a member."""
    migrating, reading, other = (make_role(signed.database) for _ in range(3))
    project = own(signed, migrating)
    signed.database.run(f"ALTER DATABASE {signed.database.url.database} OWNER TO {other.url.username}")
    signed.database.run(
        f"GRANT USAGE ON SCHEMA pipestate TO {reading.url.username}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA pipestate, public TO {reading.url.username}",
    )
    assert attest(project, "orders/ready/backup-taken").returncode == 0
    for database in (signed.database, reading):
        done = signed.connect_as(database).pipestate("gate", "orders/ready", "--jobs", "2")
        assert done.returncode == 0, done.stdout + done.stderr


# --- What commands that only look show of a forged ledger ------------------------------------------


def test_who_only_looks_is_told_whose_a_forged_ledger_is_and_shown_nothing_of_it(
    signed: Project, make_role: MakeRole
) -> None:
    """Reading his view would run his functions with the rights of whoever looks."""
    owner, forger = make_role(signed.database), make_role(signed.database)
    project = own(signed, owner)
    assert attest(project, "orders/ready/backup-taken", by="FORGED").returncode == 0
    signed.database.run(f"ALTER VIEW pipestate.sign_off OWNER TO {forger.url.username}")
    said = f"pipestate.sign_off belongs to {forger.url.username}"
    status = project.pipestate("status", "orders")
    assert status.returncode == 0
    assert f"warning: {said}" in status.stderr
    assert said in " ".join(status.stdout.split())
    found = json.loads(project.pipestate("status", "orders", "--json").stdout)
    assert said in found["no_ledger"]
    assert any(said in warning for warning in found["warnings"])
    assert found["runbooks"][0]["phases"][0]["gate"] == "closed"
    report = project.pipestate("report", "orders", "--output", "-")
    assert (report.returncode, f"warning: {said}" in report.stderr) == (0, True), report.stderr
    assert report.stdout.count(said) >= 1
    assert "on record" not in report.stdout, "nothing of a forged ledger is there, nor said to be missing"
    history = project.pipestate("history")
    assert (history.returncode, said in history.stderr) == (2, True), history.stderr
    assert "FORGED" not in status.stdout + json.dumps(found) + report.stdout + history.stdout


@pytest.mark.parametrize("command", ["status orders", "history", "report orders --output -"])
def test_tables_that_only_look_like_a_ledger_are_said_to_be_a_stranger_s(
    forged: Project, command: str
) -> None:
    """Not that there is none: whoever is told to install one would run into the stranger's."""
    done = forged.pipestate(*command.split())
    assert "the schema pipestate belongs to" in done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("command", ["status orders", "history", "report orders --output -"])
def test_a_superuser_is_shown_the_ledger_of_who_migrates(
    signed: Project, make_role: MakeRole, command: str
) -> None:
    migrating, other = make_role(signed.database), make_role(signed.database)
    project = own(signed, migrating)
    signed.database.run(f"ALTER DATABASE {signed.database.url.database} OWNER TO {other.url.username}")
    assert attest(project, "orders/ready/backup-taken").returncode == 0
    done = signed.pipestate(*command.split())
    assert done.returncode == 0, done.stderr
    assert "dba@example.com" in done.stdout


# --- What commands that write leave alone ----------------------------------------------------------


WRITING = {
    "attest orders/ready/backup-taken --by dba@example.com": "attestation",
    "observe --set depth=1": "observation",
    "verify orders --record": "run",
    "ledger prune --older-than 1d --yes": "observation",
}


@pytest.mark.parametrize("command", WRITING)
def test_a_strangers_trigger_does_not_run_with_the_rights_of_who_writes(
    signed: Project, make_role: MakeRole, command: str
) -> None:
    owner, forger = make_role(signed.database), make_role(signed.database)
    own(signed, owner)
    table = f"pipestate.{WRITING[command]}"
    signed.database.run(
        "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) "
        "SELECT now() - interval '1 year' * n, 'depth', n, 'test', 'test' FROM generate_series(1, 2) AS n",
        "CREATE TABLE obeyed (whom text)",
        "CREATE FUNCTION public.act() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN INSERT INTO public.obeyed VALUES (current_user); RETURN NEW; END$$",
        f"CREATE TRIGGER act BEFORE INSERT OR DELETE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION public.act()",
        f"ALTER TABLE {table} OWNER TO {forger.url.username}",
    )
    done = signed.pipestate(*command.split())
    assert (done.returncode, f"{table} belongs to {forger.url.username}" in done.stderr) == (2, True), (
        done.stderr
    )
    assert signed.database.rows("SELECT whom FROM obeyed") == []


@pytest.mark.parametrize("command", WRITING)
def test_who_may_write_into_the_ledger_of_who_migrates_does(
    signed: Project, make_role: MakeRole, command: str
) -> None:
    """An operator is no member of the role that migrates, which owns the version table and the ledger."""
    migrating, operator, other = (make_role(signed.database) for _ in range(3))
    own(signed, migrating)
    name = operator.url.username
    signed.database.run(
        f"ALTER DATABASE {signed.database.url.database} OWNER TO {other.url.username}",
        f"GRANT USAGE ON SCHEMA pipestate TO {name}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA pipestate, public TO {name}",
        f"GRANT INSERT, DELETE ON pipestate.run, pipestate.result, pipestate.attestation, pipestate.observation TO {name}",
    )
    done = signed.connect_as(operator).pipestate(*command.split())
    assert done.returncode in (0, 1), done.stderr
    assert "belongs to" not in done.stderr
