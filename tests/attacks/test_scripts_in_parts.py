"""A gate in a script that is pasted in parts: from any line on, after a lost connection, after a ROLLBACK.

The long scripts of the shipped migrations are cut at some statements, and what is pasted changes from cut to cut;
the long form tries everything at each of them, as it is always done with the short script.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import pytest

from attacks.orders import AT_B2, AT_D4, BODY, CONTRACT, approve, state_of
from attacks.project import Project
from attacks.psql import feed, feed_each, from_every_line, from_every_statement, without_psql_commands
from attacks.worlds import STRANGER, Status
from support.long_form import LONG, times
from support.servers import Postgres

pytestmark = pytest.mark.scene

Pasted = Callable[[str, str], str]

# What is given to psql of the two parts of a script.
PASTED: dict[str, Pasted] = {
    "the second part alone": lambda _, second: second,
    "the first part, and the rest on another connection": lambda first, second: (
        f"{first}\n\\connect\n{second}"
    ),
    "the first part, ROLLBACK, the rest": lambda first, second: f"{first}\nROLLBACK;\n{second}",
    "the first part, COMMIT, the rest": lambda first, second: f"{first}\nCOMMIT;\n{second}",
    "the first part twice, then the rest": lambda first, second: f"{first}\n{first}\n{second}",
    "the first part alone, committed": lambda first, _: f"{first}\nCOMMIT;\n",
}


# With an open gate, whoever commits half of a script by hand has done half of it.
UNCOMMITTED = {name: pasted for name, pasted in PASTED.items() if "COMMIT" not in pasted("", "")}
RESET = """DROP TABLE IF EXISTS old_orders, after_orders;
CREATE TABLE old_orders (id int PRIMARY KEY, written_at timestamp NOT NULL, note text);
INSERT INTO old_orders SELECT n, '2020-01-01' FROM generate_series(1, 3) AS n;
UPDATE alembic_version SET version_num = 'b2';
DELETE FROM approvals;
"""


@pytest.fixture
def stranger(postgres: Postgres, tmp_path: Path) -> Iterator[Status]:
    """The short script's world alone."""
    databases = Status(STRANGER, postgres, tmp_path / "template")
    yield databases
    databases.drop()


def write_script(standing: Status) -> str:
    return standing.world.write_script(standing.opened(), standing.directory.with_name("project"))


def attempts(standing: Status, script: str, ways: Mapping[str, Pasted], *, step: int) -> dict[str, str]:
    """Name what is pasted, and give it; of a long script, one way at every `step`-th cut."""
    everything = standing.world is STRANGER or LONG
    found = {}
    for number, parts in enumerate(from_every_statement(without_psql_commands(script)), start=1):
        for place, (name, pasted) in enumerate(ways.items()):
            if everything or (number % step == 0 and place == number // step % len(ways)):
                found[f"{name}, cut before statement {number + 1}"] = pasted(*parts)
    return found


@pytest.mark.parametrize("rollback", ["off", "on"])
def test_in_parts_a_closed_gate_drops_and_stamps_nothing(
    standing: Status, script: str, rollback: str
) -> None:
    """psql goes on after errors; with ON_ERROR_ROLLBACK it even goes on in the same transaction."""
    attacks = attempts(standing, script, PASTED, step=7 if rollback == "on" else 11)
    assert standing.try_closed(attacks, "-v", f"ON_ERROR_ROLLBACK={rollback}") == {}


def test_in_parts_an_open_gate_drops_and_stamps_or_does_neither(standing: Status, script: str) -> None:
    assert standing.try_opened(attempts(standing, script, UNCOMMITTED, step=17)) == {}


def test_what_an_open_gate_left_in_the_session_opens_no_second_one(stranger: Status) -> None:
    """The script goes through; in the same session all is as before, the gate is closed, the rest comes again."""
    script = without_psql_commands(write_script(stranger))
    through = []
    for first, second in from_every_statement(script):
        opened = stranger.opened()
        feed(opened, f"{first}{second}\n{RESET}\n{second}")
        if STRANGER.state(opened) != STRANGER.before:
            through.append(second)
        opened.run("INSERT INTO approvals (what) VALUES ('drop old_orders')")
    assert not through


def test_from_any_line_on_even_inside_a_statement_nothing_is_dropped(stranger: Status) -> None:
    """Whoever begins inside of dollar quotes has turned them inside out: what was a text is now a command."""
    cut = from_every_line(without_psql_commands(write_script(stranger)))
    tried = islice(cut, 0, None, times(5, long=1))
    attacks = {f"from line {len(first.splitlines()) + 1} on": second for first, second in tried}
    assert stranger.try_closed(attacks, "-v", "ON_ERROR_ROLLBACK=on") == {}


MULTILINE = '''op.execute(
            """DO $x$
BEGIN
  PERFORM 1;
DROP TABLE old_orders;
END $x$;
/*
DROP TABLE old_orders;
*/
"""
        )'''


@pytest.mark.parametrize("rollback", ["off", "on"])
def test_from_any_line_of_a_long_body_on_nothing_is_dropped(gated: Project, rollback: str) -> None:
    """A line of the body is a command by itself, and must not be one in the script."""
    gated.edit(CONTRACT, (BODY, MULTILINE))
    gated.add_check(
        "SELECT 0 AS n /*\nDROP TABLE old_orders;\n*/ , '\nDROP TABLE old_orders;\n' AS t", "n = 0"
    )
    script = without_psql_commands(gated.script("b2:head"))
    assert script.count("DROP TABLE old_orders") >= 4
    cuts = [second for _, second in from_every_line(script)]
    feed_each(gated.database, cuts, gated.root / "cuts", "-v", f"ON_ERROR_ROLLBACK={rollback}")
    assert state_of(gated.database) == AT_B2
    approve(gated)
    said = feed(gated.database, script)
    assert state_of(gated.database) == AT_D4, said
