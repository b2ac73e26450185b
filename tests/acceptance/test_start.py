"""The pages under docs/start/, walked by a new user: with Alembic's templates, and with Flask-Migrate."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.documentation import examples, find_page
from support.new_user import Walk, sections
from support.servers import Database, Postgres
from support.versions import needs_alembic

pytestmark = pytest.mark.scene

GUARD, CHECK, CONTRACT = (
    find_page(f"start/{name}.md") for name in ("guard", "first-check", "first-contract")
)
CONTENT = ("SELECT * FROM orders ORDER BY id", "SELECT * FROM order_log ORDER BY id")
CASES = ["generic", "async", "flask", "multidb", pytest.param("pyproject", marks=needs_alembic("1.16"))]


@pytest.fixture
def empty(postgres: Postgres) -> Iterator[Database]:
    """Another database of the server, such as CI makes for each job."""
    database = postgres.create()
    yield database
    postgres.drop(database)


@pytest.fixture(params=CASES)
def walk(request: pytest.FixtureRequest, postgres: Postgres, pg: Database, tmp_path: Path) -> Iterator[Walk]:
    other = postgres.create() if request.param == "multidb" else None
    walk = Walk(tmp_path / "shop", pg, request.param, other)
    walk.make_project()
    yield walk
    if other:
        postgres.drop(other)


def follow(walk: Walk, of: Path) -> None:
    for example in examples(of):
        walk.take(example)


def test_the_guard_refuses_a_drop_after_three_steps_and_two_lines(walk: Walk) -> None:
    follow(walk, GUARD)
    assert walk.database.value("SELECT count(*) FROM order_log") == 1
    (lines,) = [each.text for each in examples(GUARD) if each.file == "alembic/env.py"]
    assert len([line for line in lines.splitlines() if line]) == 2


# Not multidb: its env.py has several addresses, and one variable cannot replace them (async-and-multidb.md).
@pytest.mark.parametrize("walk", [case for case in CASES if case != "multidb"], indirect=True)
def test_a_failing_check_fails_ci_and_its_fix_passes(walk: Walk, empty: Database, postgres: Postgres) -> None:
    *steps, push = sections(CHECK).values()
    for example in (each for step in steps for each in step):
        walk.take(example)
    annotation, fix = push
    code, printed = walk.run_ci(empty)
    assert (code, annotation.text.strip() in printed) == (1, walk.template != "flask"), printed
    walk.take(fix)
    fresh = postgres.create()
    code, printed = walk.run_ci(fresh)
    assert code == 0, printed
    postgres.drop(fresh)


def test_the_first_contract_goes_up_and_down(walk: Walk, empty: Database) -> None:
    follow(walk, GUARD)
    next((walk.directory).glob("*/versions/b2_drop_log.py")).unlink()
    follow(walk, CHECK)
    follow(walk, CONTRACT)
    orders, log = (walk.database.rows(query) for query in CONTENT)
    assert [tuple(row)[:3] for row in orders] == [(1, "paid", "paid"), (2, "sent", "sent")]
    assert [tuple(row) for row in log] == [(1, "order 1 was placed")]
    if walk.other:
        assert walk.other.value("SELECT count(*) FROM order_log") == 1, "the other database keeps its log"
    else:
        code, printed = walk.run_ci(empty)
        assert code == 0, f"the job of the first check fails after the contract was written\n{printed}"


def test_the_readme_shows_what_happens(pg: Database, tmp_path: Path) -> None:
    readme = find_page("README.md")
    walk = Walk(tmp_path / "shop", pg)
    walk.make_project()
    (refusal,) = [each.text for each in examples(readme) if each.language == "output"]
    assert refusal in GUARD.read_text(encoding="utf-8")
    for example in (each for each in examples(readme) if each.language != "output"):
        walk.take(example)
    assert [tuple(row)[:3] for row in pg.rows(CONTENT[0])] == [(1, "paid", "paid"), (2, "sent", "sent")]


@pytest.mark.parametrize(("of", "steps"), [(GUARD, 3), (CHECK, 4), (CONTRACT, 6)])
def test_each_page_has_the_steps_that_it_promises(of: Path, steps: int) -> None:
    numbers = re.findall(r"^## (\d)\. ", of.read_text(encoding="utf-8"), re.MULTILINE)
    assert numbers == [str(number + 1) for number in range(steps)]
