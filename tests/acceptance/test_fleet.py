"""`pipestate fleet` as it is typed: lines of JSON that a script can rely on, and a screen that fits."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support.documentation import find_schema
from support.fleets import APPROVAL, UNREACHABLE, Tenants
from support.miniatures import copy_project
from support.programs import run_program
from support.runbook_samples import block, page
from support.servers import Database, Postgres
from support.terminal import Typed, in_terminals, plain

LINE = jsonschema.Draft202012Validator(json.loads(find_schema("fleet").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def directory(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The project, with lists of its databases: all of them, those that are well, one that is not there."""
    root = copy_project("shop", tmp_path_factory.mktemp("fleet"))
    tenants = Tenants(postgres, root.parent)
    good = [tenants.named(name, "b2", APPROVAL) for name in ("north", "south")]
    closed = tenants.named("c" * 30)
    odd = tenants.named("odd", "b2", APPROVAL, 'ALTER TABLE orders ADD COLUMN "[red]\x1b[31m::error::x" text')
    lists = {
        "good": good,
        "closed": [*good, closed],
        "all": [*good, closed, odd, f"gone = {UNREACHABLE}", good[0]],
    }
    lists["finished"] = [tenants.named("done", "d4")]
    for name, lines in lists.items():
        (root / f"{name}.txt").write_text("\n".join(["# tenants", *lines]) + "\n", encoding="utf-8")
    (root / "empty.txt").write_text("# nobody\n")
    yield root
    tenants.drop()


def run(directory: Path, *arguments: str) -> tuple[int, str, str]:
    done = run_program(["pipestate", "fleet", *arguments], cwd=directory, environment=os.environ)
    assert "Traceback" not in done.stderr, done.stderr
    assert "s3cret" not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def lines_of(stdout: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The summary and the databases, each as the schema has it."""
    data = [json.loads(line) for line in stdout.splitlines()]
    for line in data:
        LINE.validate(line)
    assert [line["kind"] for line in data] == ["database"] * (len(data) - 1) + ["summary"]
    return data[-1], data[:-1]


@pytest.mark.parametrize(
    ("command", "file", "code"),
    [
        (("verify",), "good", 0),
        (("verify",), "closed", 1),
        (("verify",), "all", 3),
        (("gate", "ready"), "good", 0),
        (("gate", "shop/ready"), "closed", 1),
        (("gate", "ready"), "finished", 2),
        (("plan",), "closed", 0),
        (("plan",), "all", 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_the_exit_code_is_the_worst_and_every_line_is_of_the_schema(
    directory: Path, command: tuple[str, ...], file: str, code: int
) -> None:
    done, stdout, _ = run(directory, *command, "--databases", f"{file}.txt", "--json")
    summary, databases = lines_of(stdout)
    assert (done, summary["exit_code"], summary["ok"]) == (code, code, code == 0)
    assert summary["databases"] == summary["asked"] == len(databases)


def test_a_line_says_what_is_wrong_with_one_database_and_the_last_what_differs(directory: Path) -> None:
    _, stdout, stderr = run(directory, "verify", "--databases", "all.txt", "--json", "--jobs", "2")
    summary, databases = lines_of(stdout)
    by_name = {line["name"]: line for line in databases}
    (phase,) = by_name["c" * 30]["phases"]
    assert (phase["phase"], phase["gate"]) == ("shop/ready", "closed")
    assert [wrong["check"] for wrong in phase["wrong"]] == ["approved"]
    assert by_name["gone"]["url"] == "postgresql://app:***@127.0.0.1:1/gone"
    assert by_name["north"]["drift"]["differences"] == []
    assert [each["change"] for each in by_name["odd"]["drift"]["differences"]] == ["added"]
    assert summary["drifted"] == ["odd"]
    assert summary["exit_codes"] == {"0": 3, "1": 1, "2": 0, "3": 1}
    assert len(summary["repeated"]) == 1
    assert "all.txt:7 names" in stderr
    assert "\x1b" not in stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("verify", "--databases", "nowhere.txt"), "cannot read nowhere.txt: No such file"),
        (("verify", "--databases", "empty.txt"), "empty.txt names no database"),
        (("verify", "--databases", "-"), "stdin names no database"),
        (("verify", "--databases", "good.txt", "--phase", "nowhere"), "no phase is called nowhere"),
        (("gate", "nowhere", "--databases", "good.txt"), "no phase is called nowhere"),
        (("plan",), "--databases"),
        (("verify", "--databases", "good.txt", "--jobs", "0"), "--jobs"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_is_one_sentence_before_anything_is_evaluated(
    directory: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, stdout, stderr = run(directory, *arguments)
    assert (code, stdout) == (2, "")
    assert said in stderr


def test_phases_that_are_named_are_evaluated_each_once(directory: Path) -> None:
    more = directory / "runbooks" / "more.md"
    more.write_text(page(block("SELECT 2 AS x"), name="more", front="  one: {}\n").replace("true", "false"))
    phases = ["--phase", "shop/ready", "--phase", "more/one", "--phase", "shop/ready"]
    try:
        code, stdout, _ = run(directory, "verify", *phases, "--databases", "good.txt", "--json")
        wrong, _, stderr = run(directory, "verify", *phases, "--phase", "two", "--databases", "good.txt")
    finally:
        more.unlink()
    _, databases = lines_of(stdout)
    assert code == 1
    for line in databases:
        assert [(phase["phase"], phase["gate"]) for phase in line["phases"]] == [
            ("more/one", "closed"),
            ("shop/ready", "open"),
        ]
    assert (wrong, "no phase is called two" in stderr) == (2, True)


def test_a_broken_page_is_refused_once_for_all(directory: Path) -> None:
    page = directory / "runbooks" / "shop.md"
    whole = page.read_text()
    try:
        page.write_text(whole.replace('opens: ["c3"]', 'opens: ["d4"]'))
        code, stdout, stderr = run(directory, "verify", "--databases", "good.txt", "--json")
    finally:
        page.write_text(whole)
    assert (code, stdout) == (2, "")
    assert "c3_no_log.py:5 checks phase ready, whose `opens` does not have c3" in stderr


@pytest.mark.parametrize("columns", [60, 80])
def test_the_screen_fits_and_obeys_no_name(directory: Path, columns: int) -> None:
    typed = [Typed(("fleet", command, "--databases", "all.txt"), columns) for command in ("verify", "plan")]
    for written in in_terminals(typed, cwd=directory):
        seen = plain(written)
        assert [line for line in seen.splitlines() if len(line) > columns and "━" not in line] == []
        assert "\x1b[31m::error" not in written
        assert "[red]\\x1b[31m" in "".join(line.strip() for line in seen.splitlines())
        assert "2 alike: at b2 of d4" in seen


def test_a_bar_is_for_terminals(directory: Path) -> None:
    (written,) = in_terminals([Typed(("fleet", "verify", "--databases", "good.txt"), 100)], cwd=directory)
    assert "evaluating ━" in plain(written)
    assert "━" not in "".join(run(directory, "verify", "--databases", "good.txt")[1:])


# --- upgrade and merge -----------------------------------------------------------------------------


@pytest.fixture
def tenants(directory: Path, postgres: Postgres) -> Iterator[Database]:
    """A database with five empty schemas, and the list of them."""
    database = postgres.create()
    database.run(*(f"CREATE SCHEMA t_{number}" for number in range(5)))
    query = "SELECT nspname FROM pg_namespace WHERE nspname ~ '^t_' ORDER BY 1"
    (directory / "schemas.txt").write_text(f"{database.text} schemas: {query}\n")
    yield database
    postgres.drop(database)


def test_an_upgrade_says_what_is_left_pending(directory: Path, tenants: Database) -> None:
    code, stdout, _ = run(directory, "upgrade", "--databases", "schemas.txt", "--dry-run")
    assert (code, "5 pending." in stdout, "4 revisions pending" in stdout) == (0, True, True)
    assert run(directory, "upgrade", "b2", "--databases", "schemas.txt")[0] == 0
    tenants.run("INSERT INTO t_3.order_log VALUES (1, 'x')")
    code, stdout, _ = run(directory, "upgrade", "c3", "--databases", "schemas.txt")
    assert (
        code,
        "4 upgraded, 1 left pending." in stdout,
        "left pending: shop/ready is closed" in stdout,
    ) == (1, True, True)
    assert run(directory, "upgrade", "c3", "--databases", "schemas.txt", "--hold")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("upgrade", "--databases", "good.txt", "--waves", "many"), "write how far each wave goes"),
        (("upgrade", "nowhere", "--databases", "good.txt"), "nowhere: no revision"),
        (("upgrade", "--databases", "good.txt", "--phase", "nowhere"), "no phase is called nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_upgrade_is_one_sentence(directory: Path, arguments: tuple[str, ...], said: str) -> None:
    code, stdout, stderr = run(directory, *arguments)
    assert (code, stdout) == (2, "")
    assert said in stderr
