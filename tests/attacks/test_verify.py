"""Whatever a query returns becomes a verdict, in bounded memory, and nobody else's code decides it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks import attacked
from attacks.attacked import Done, finish
from attacks.conftest import MakeRole
from attacks.orders import PAGE, assert_refused
from attacks.project import Project
from attacks.worlds import TABLES
from support.servers import Database, Postgres

# --- Values that no driver, or no JSON, has --------------------------------------------------------

UNREADABLE = [
    "timestamptz '20000-01-01'",
    "timestamp '0044-03-15 BC'",
    "date '0044-03-15 BC'",
    "date '5874897-12-31'",
    "interval '178000000 years'",
    "ARRAY[timestamptz '20000-01-01']",
]
ODD = [
    "timestamptz 'infinity'",
    "date '-infinity'",
    "time '24:00'",
    "numeric 'NaN'",
    "float8 'Infinity'",
    "power(10::numeric, 5000)",
    "CAST('{\"a\": 1e400}' AS jsonb)",
    "ROW(1, timestamptz '20000-01-01')",
    "int4range(1, NULL)",
    "chr(27) || '[2J' || chr(8)",
    "decode('00ff', 'hex')",
]


def verdicts(done: Done) -> dict[str, dict[str, object]]:
    """Return the checks of a report by their id; it must be JSON, as JSON is defined."""

    def refuse(constant: str) -> object:
        raise AssertionError(f"{constant} is no JSON")

    report = json.loads(done.stdout, parse_constant=refuse)
    return {
        check["id"]: check
        for runbook in report["runbooks"]
        for phase in runbook["phases"]
        for check in phase["checks"]
    }


def add_checks(project: Project, values: list[str], columns: str, require: str) -> dict[str, str]:
    """Put a check for each of the values on the page; return their ids, and the values."""
    found = {f"odd-{number}": value for number, value in enumerate(values)}
    for check, value in found.items():
        project.add_check(f"SELECT {columns.format(value)}", require, check=check)
    return found


@pytest.mark.parametrize(
    ("columns", "require"),
    [("{} AS at, 0 AS n", "n = 0"), ("0 AS n, {} AS at", "n = 0"), ("{} AS at", "rows = 1")],
    ids=["beside what is compared", "behind it", "where rows are counted"],
)
def test_a_value_that_cannot_be_read_is_errored_and_the_others_are_not(
    approved: Project, columns: str, require: str
) -> None:
    odd = add_checks(approved, UNREADABLE, columns, require)
    done = approved.pipestate("verify", "--json")
    assert "Traceback" not in done.stderr, done.stderr
    found = {name: check["outcome"] for name, check in verdicts(done).items()}
    assert found == {"quiet": "passed", "approved": "passed", **dict.fromkeys(odd, "errored")}, odd
    assert done.returncode == 3


def test_an_odd_value_is_a_verdict_and_json(approved: Project) -> None:
    odd = add_checks(approved, ODD, "{} AS odd, 1 AS n", "n = 0")
    done = approved.pipestate("verify", "--json")
    assert "Traceback" not in done.stderr, done.stderr
    found = verdicts(done)
    assert {str(found[name]["outcome"]) for name in odd} <= {"failed", "errored"}
    assert done.returncode in (1, 3)
    assert "Traceback" not in approved.pipestate("verify").stderr


def test_a_value_in_the_evidence_that_cannot_be_read_hides_no_verdict(approved: Project) -> None:
    odd = add_checks(approved, UNREADABLE, "1 AS n, ({} IS NULL) AS gone", "n = 0")
    evidence = "".join(
        f"\n```sql\n-- explains: {check}\n-- dialect: postgresql\nSELECT {value} AS at;\n```\n"
        for check, value in odd.items()
    )
    approved.write(PAGE, approved.read(PAGE) + evidence)
    done = approved.pipestate("verify", "--json")
    assert "Traceback" not in done.stderr, done.stderr
    found = verdicts(done)
    assert [found[name]["outcome"] for name in odd] == ["failed"] * len(odd)
    assert done.returncode == 1


def test_a_value_in_a_view_that_cannot_be_read_stops_no_status(approved: Project) -> None:
    views = "".join(
        f"\n```sql\n-- view: v{n}\n-- dialect: postgresql\nSELECT {value} AS at;\n```\n"
        for n, value in enumerate(UNREADABLE)
    )
    approved.write(PAGE, approved.read(PAGE) + views)
    done = approved.pipestate("status")
    assert "Traceback" not in done.stderr, done.stderr
    assert f"v{len(UNREADABLE) - 1}" in done.stdout


def test_a_value_that_cannot_be_read_keeps_the_gate_of_a_migration_closed(approved: Project) -> None:
    odd = add_checks(approved, UNREADABLE, "{} AS at, 0 AS n", "n = 0")
    assert_refused(approved.alembic("upgrade", "head"), approved.database, *(f"{name}: " for name in odd))


# --- Results that are too large --------------------------------------------------------------------

MEMORY = 700 * 2**20
HUGE = "SELECT n, repeat('x', 4000) AS note FROM generate_series(1, 200000) AS n"
LIMITED = (
    f"import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY})); "
    "sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


@pytest.mark.parametrize(
    "command", ["pipestate verify", "pipestate gate orders/ready", "alembic upgrade head"]
)
@pytest.mark.scene
def test_a_huge_result_of_a_check_takes_no_huge_memory(approved: Project, command: str) -> None:
    """800 MB of rows, for a process that may have 700 MB in all."""
    approved.add_check(HUGE, "rows = 0", check="huge")
    with approved.running("-c", LIMITED, *command.split()) as process:
        done = finish(process)
    assert "MemoryError" not in done.stderr, done.stderr[-2000:]
    assert "out of memory" not in done.stdout + done.stderr
    assert "200000" in (done.stdout + done.stderr).replace(",", "")
    assert done.returncode == (255 if command.startswith("alembic") else 1), done.stderr


def test_a_huge_view_takes_no_huge_memory(approved: Project) -> None:
    view = f"\n```sql\n-- view: huge\n-- dialect: postgresql\n{HUGE};\n```\n"
    approved.write(PAGE, approved.read(PAGE) + view)
    with approved.running("-c", LIMITED, "pipestate", "status") as process:
        done = finish(process)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "memory" not in (done.stdout + done.stderr).lower()


# --- Functions that somebody else has planted ------------------------------------------------------

PLANTED = {
    "replace(varchar, text, text)": "text",
    "lower(varchar)": "text",
    "upper(varchar)": "text",
    "length(varchar)": "int",
    "left(varchar, int)": "text",
    "right(varchar, int)": "text",
    "btrim(varchar)": "text",
    "split_part(varchar, text, int)": "text",
    "strpos(varchar, text)": "int",
    "regexp_replace(varchar, text, text)": "text",
    "regexp_replace(varchar, text, text, text)": "text",
    "substr(varchar, int, int)": "text",
    "round(float8, int)": "numeric",
    "starts_with(varchar, text)": "boolean",
}


@pytest.fixture
def shipped(postgres: Postgres, make_role: MakeRole, tmp_path: Path) -> Iterator[Database]:
    """The shipped migrations at 0005, with its gate open."""
    del make_role  # roles can only go when the database is gone
    database = postgres.copy_of("attacked shipped-tables", lambda fresh: TABLES.fill(fresh, tmp_path))
    yield database
    postgres.drop(database)


def verify_shipped(database: Database, *options: str) -> Done:
    root = attacked.shipped_ini().parent
    return attacked.run(
        "pipestate", "verify", *options, cwd=root, environment={"DATABASE_URL": database.text}
    )


def test_a_planted_function_flips_no_shipped_check(shipped: Database, make_role: MakeRole) -> None:
    """By a role that may create functions and nothing else, with the exact types of the application's columns."""
    names = [
        path.stem
        for path in (attacked.shipped_ini().parent / "runbooks").glob("*[a-z].md")
        if "." not in path.stem
    ]
    before = {
        name: (c["outcome"], c["observed"])
        for name, c in verdicts(verify_shipped(shipped, *names, "--json")).items()
    }
    planter = make_role(shipped)
    shipped.run(f"GRANT CREATE, USAGE ON SCHEMA public TO {planter.url.username}")
    for signature, result in PLANTED.items():
        planter.run(
            f"CREATE FUNCTION public.{signature} RETURNS {result} LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'planted'; END $$"
        )
    done = verify_shipped(shipped, *names, "--json")
    assert "planted" not in done.stdout
    after = {name: (c["outcome"], c["observed"]) for name, c in verdicts(done).items()}
    assert {name: outcome for name, (outcome, _) in after.items()} == {
        name: outcome for name, (outcome, _) in before.items()
    }


def test_a_superuser_who_verifies_is_warned(gated: Project) -> None:
    done = gated.pipestate("verify", "--json")
    assert "superuser" in done.stderr
    assert verdicts(done)


def test_a_path_on_which_others_may_create_functions_is_named(gated: Project, make_role: MakeRole) -> None:
    reader = make_role(gated.database)
    gated.database.run(
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader.url.username}",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",  # before 15 everybody could
    )
    project = gated.connect_as(reader)
    quiet = project.pipestate("verify")
    assert "superuser" not in quiet.stderr
    assert "CREATE" not in quiet.stderr
    gated.database.run("GRANT CREATE ON SCHEMA public TO PUBLIC")
    done = project.pipestate("verify")
    assert "public" in done.stderr
    assert "CREATE" in done.stderr


def test_what_somebody_else_has_planted_is_named(gated: Project, make_role: MakeRole) -> None:
    """A function or an operator under a name of the server's, made by a role that may only create."""
    planter = make_role(gated.database)
    gated.database.run(f"GRANT CREATE, USAGE ON SCHEMA public TO {planter.url.username}")
    planter.run(
        "CREATE FUNCTION public.lower(varchar) RETURNS text LANGUAGE sql AS $$ SELECT 'planted' $$",
        "CREATE FUNCTION public.alike(varchar, varchar) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$",
        "CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.alike)",
    )
    done = gated.pipestate("verify", "--json")
    said = " ".join(json.loads(done.stdout)["warnings"])
    assert "lower(character varying)" in said
    assert "operator =(character varying,character varying)" in said
    assert "lower(character varying)" in done.stderr
    gate = gated.alembic("upgrade", "head")
    assert "lower(character varying)" in gate.stderr


WITHIN = """
import resource, runpy, sys

import pipestate.cli.verify, psycopg2, sqlalchemy

size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 300 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (size, size))
sys.argv = ["pipestate", "verify", "--json"]
runpy.run_module("pipestate", run_name="__main__")
"""


@pytest.mark.parametrize(("rows", "megabytes"), [(11, 100), (3, 60)])
@pytest.mark.scene
def test_values_that_do_not_fit_into_memory_are_a_verdict(gated: Project, rows: int, megabytes: int) -> None:
    """In a process that has 300 MB: more than libpq can take, and more than Python can when libpq has it."""
    gated.add_check(f"SELECT repeat('x', {megabytes}000000) AS v FROM generate_series(1, {rows})", "rows = 0")
    with gated.running("-c", WITHIN) as process:
        done = finish(process)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)["runbooks"][0]["phases"][0]["checks"]
    (more,) = (check for check in found if check["id"] == "more")
    assert more["outcome"] == "errored"
    assert "memory" in more["message"]
