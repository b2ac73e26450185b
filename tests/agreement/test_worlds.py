"""One answer for a gate: `gate`, an upgrade online, its script in psql, and an upgrade on SQLite.

A world is a runbook, with rows and records. A closed gate is then forced, and the ledger has the outcome of each check.
"""

import io
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, event

from attacks.psql import feed
from pipestate.migration.failure import MigrationError
from pipestate.migration.gate import GateClosed
from support.runbook_samples import block, explained
from support.servers import Database, Postgres, Sqlite, postgres_binary
from support.shop_project import ROWS, Shop, open_shop

PHASES = """  expand: {{from: "b2", until: "c3"}}
  ready: {{from: "b2", until: "c3", opens: ["c3"]{soak}}}
"""
FORCE = "shop/ready: the world wants it"
WRONG = ("failed", "errored")
BACKUP = "- [ ] `backup` (24h{}): A backup is on another machine.\n"
HOSTILE = "quote ' \" backslash \\ {query} % %s :y $$ $q$ /* -- ; end"
CONTROLS = "line\nbreak \x1b[31m red \u202e turned"
HOSTILE_ROW = "UPDATE orders SET old_status = '{}'"


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def signed(person: str, days: float = 0.1) -> str:
    return (
        "INSERT INTO pipestate.attestation (runbook, phase, name, person, signed_at) "
        f"VALUES ('shop', 'ready', 'backup', '{person}', '<{days}d>')"
    )


def recorded(*days: float, gate: str = "open") -> tuple[str, ...]:
    return tuple(
        "INSERT INTO pipestate.run (recorded_at, actor, event, runbook, phase, gate, runbook_sha256, passed) "
        f"VALUES ('<{each}d>', 'ci', 'verify', 'shop', 'expand', '{gate}', '', 1)"
        for each in days
    )


def counted(require: str, **directives: str) -> str:
    """A check `c` of the two orders."""
    return block("SELECT id FROM orders ORDER BY id", require=require, **directives)


def column(value: str, require: str = "x = 1", **directives: str) -> str:
    """A check `c` of a value in the only row."""
    return block(f"SELECT {value} AS x", require=require, **directives)


@dataclass(frozen=True)
class World:
    """The blocks of the phase, the outcome of each check, and what is in the database.

    `on_sqlite` has the outcomes where SQLite has another: it divides by zero. With `own_words` the engines' own errors
    are the sentences.
    """

    blocks: Sequence[str]
    outcomes: Mapping[str, str]
    data: Sequence[str] = ()
    before: str = block("SELECT 1 AS x", check="e")  # the phase `expand`
    soak: str = ""
    gate: str = "closed"
    tables: Sequence[str] = ROWS
    on_sqlite: Mapping[str, str] = field(default_factory=dict)
    own_words: bool = False


PASSES, FAILS, ERRS = {"c": "passed"}, {"c": "failed"}, {"c": "errored"}
SKIPPED, ENDED = {"ended": "skipped"}, column("2", check="ended", until="b2")
SIGN_OFF, PASSES_BACKUP, FAILS_BACKUP = [BACKUP.format("")], {"backup": "passed"}, {"backup": "failed"}
TWO_PEOPLE = [BACKUP.format(", 2 people")]
SOAK = ", soak: 7d"
WEEK = range(7, -1, -1)

WORLDS = {
    "all pass": World(
        [
            counted("rows = 2"),
            block("SELECT 3 / 10.0 AS x, 'open' AS y", check="d", require="x > 0.2 and y = 'open'"),
            BACKUP.format(""),
        ],
        {"c": "passed", "d": "passed", "backup": "passed"},
        data=[signed("ann")],
        gate="open",
    ),
    "rows = 0": World([counted("rows = 0"), column("1", check="d")], {"c": "failed", "d": "passed"}),
    "rows < 2": World([counted("rows < 2")], FAILS),
    "rows >= 3": World([counted("rows >= 3")], FAILS),
    "with evidence": World([counted("rows >= 3"), explained("SELECT line FROM order_log")], FAILS),
    "a column": World([column("2")], FAILS),
    "a fraction": World([column("3 / 10.0", "x > 0.9")], FAILS),
    "rows and a column": World([column("2", "rows = 1 and x = 1")], FAILS),
    "a NULL": World([column("NULL")], FAILS),
    "no row": World([block("SELECT id AS x FROM orders WHERE id > 5")], FAILS),
    "two fail": World(
        [column("2"), block("SELECT 1 AS x", check="d"), block("SELECT 'b' AS x", check="e", require="x = 'a'")],
        {"c": "failed", "d": "passed", "e": "failed"},
    ),
    "a text for a number": World([column("'abc'", "x >= 95")], ERRS),
    "a number for a text": World([column("1", "x = '1'")], ERRS),
    "a missing column": World([column("1", "y = 1")], ERRS),
    "several rows": World([block("SELECT id AS x FROM orders")], ERRS),
    "a column named rows": World([block("SELECT 1 AS x, 3 AS rows", require="rows = 1")], ERRS),
    "two columns of one name": World([column("1 AS x, 2")], ERRS, own_words=True),
    "a column of a name in capitals": World([column("2", "X = 1")], FAILS),
    "a check for one engine": World(
        [column("1", dialect="postgresql"), column("1", check="d")],
        {"c": "passed", "d": "passed"},
        on_sqlite={"c": "skipped"},
        gate="open",
    ),
    "a division by zero": World([column("1 / (SELECT count(*) - 2 FROM orders)")], ERRS, on_sqlite=FAILS),
    "a missing table": World([block("SELECT id AS x FROM nowhere")], ERRS, own_words=True),
    "one fails and one errs": World(
        [column("2"), column("'a'", check="d")], {"c": "failed", "d": "errored"}
    ),
    "not signed": World([column("1"), *SIGN_OFF], PASSES | FAILS_BACKUP),
    "signed": World(SIGN_OFF, PASSES_BACKUP, data=[signed("ann")], gate="open"),
    "signed long ago": World(SIGN_OFF, FAILS_BACKUP, data=[signed("ann", 1.1)]),
    "signed in the future": World(SIGN_OFF, FAILS_BACKUP, data=[signed("ann", -1)]),
    "one of two people": World(TWO_PEOPLE, FAILS_BACKUP, data=[signed("ann"), signed(" ANN")]),
    "two people": World(TWO_PEOPLE, PASSES_BACKUP, data=[signed("ann"), signed("bob")], gate="open"),
    "a soak without a record": World([], {"soak": "failed"}, soak=SOAK),
    "a soak that has begun": World([], {"soak": "failed"}, data=recorded(2, 1, 0), soak=SOAK),
    "a soak that was long enough": World(
        [], {"soak": "passed"}, data=recorded(8, *WEEK), gate="open", soak=SOAK
    ),
    "a soak with a gap": World([], {"soak": "failed"}, data=recorded(9, 8, 1, 0), soak=SOAK),
    "a soak without a late record": World(
        [], {"soak": "failed"}, data=recorded(*range(12, 2, -1)), soak=SOAK
    ),
    "a soak that was closed": World(
        [],
        {"soak": "failed"},
        data=[*recorded(8, *WEEK), *recorded(1.5, gate="closed")],
        soak=SOAK,
    ),
    "warnings only": World([column("1", level="warn"), ENDED], PASSES | SKIPPED),
    "failing warnings only": World([column("2", level="warn"), ENDED], FAILS | SKIPPED),
    "a failing warning beside a check": World(
        [column("2", level="warn"), column("1", check="d")], {"c": "failed", "d": "passed"}, gate="open"
    ),
    "skipped checks only": World([ENDED], SKIPPED),
    "a skipped check beside another": World([ENDED, column("1")], PASSES | SKIPPED, gate="open"),
    "again, with another criterion": World(
        ["- again: `expand/c`, requires `rows <= 5`\n"], PASSES, before=counted("rows = 0"), gate="open"
    ),
    "again, and failing": World(
        ["- again: `expand/c`, requires `rows <= 1`\n"], FAILS, before=counted("rows = 2")
    ),
    "tables without rows": World([column("2")], FAILS, tables=()),
    "hostile text in a query": World([column(text(HOSTILE), "x = 'a'")], FAILS),
    "hostile text that is required": World(
        [column(text(HOSTILE), f"x = {text(HOSTILE)}"), column("'a'", f"x = {text(HOSTILE)}", check="d")],
        {"c": "passed", "d": "failed"},
    ),
    **{
        f"hostile {kind} in {where}": World(
            [shown], FAILS, data=[f"UPDATE orders SET old_status = {text(value)}"]
        )
        for kind, value in (("text", HOSTILE), ("control characters", CONTROLS))
        for where, shown in (
            ("a value", column("min(old_status)", "x = 'a'").replace(" AS x", " AS x FROM orders")),
            ("a row", block("SELECT old_status FROM orders ORDER BY id", require="rows = 0")),
        )
    },
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """Whether the gate is open, the outcomes of the checks, and the sentence for each that keeps it closed."""

    gate: str
    outcomes: Mapping[str, str]
    sentences: Mapping[str, str]


def settle(world: World, root: Path, database: Database) -> Shop:
    """Fill a database that is at b2, and write the runbook."""
    shop = open_shop(root, database)
    heads = "# The world\n\n## Phase: expand\n\n{}\n## Phase: ready\n\n{}"
    body = heads.format(world.before, "\n".join(world.blocks))
    front = PHASES.format(soak=world.soak)
    (shop.root / "runbooks" / "shop.md").write_text(
        f"---\nrunbook: shop\ndefault: true\nphases:\n{front}---\n{body}", encoding="utf-8"
    )
    revision = shop.root / "migrations" / "versions" / "c3_no_log.py"
    revision.write_text(revision.read_text().replace(', recheck=["approved"]', ""))
    zone = "" if database.is_sqlite else "+00"

    def ago(found: re.Match[str]) -> str:  # 18 seconds: no hundredth of an hour ends while the world is asked
        at = datetime.now(UTC) - timedelta(days=float(found[1]), seconds=18)
        return f"{at:%Y-%m-%d %H:%M:%S}{zone}"

    database.run(*world.tables, *(re.sub(r"<(-?[\d.]+)d>", ago, each) for each in world.data))
    return shop


def by_gate(shop: Shop) -> Answer:
    """Ask `pipestate gate`."""
    found = shop.pipestate("gate", "shop/ready")
    ((phase,),) = (book["phases"] for book in found["runbooks"])
    outcomes = {each["id"]: each["outcome"] for each in phase["checks"]}
    wrong = [each for each in phase["checks"] if each["level"] == "block" and each["outcome"] in WRONG]
    return Answer(phase["gate"], outcomes, {each["id"]: bare(each["message"]) for each in wrong})


def by_upgrade(shop: Shop) -> Answer:
    """Ask `alembic upgrade`; a closed gate is forced, and then the ledger has the outcomes."""
    try:
        shop.upgrade("c3")
    except GateClosed as error:
        ((_, phase),) = error.report.phases()
        reported = {each.check_id: str(each.outcome) for each in phase.checks}
        assert shop.version() == "b2"
        command.upgrade(forced(shop), "c3")
        sentences = {each.check_id: bare(each.message) for each in phase.checks if each.closes}
        answer = Answer("closed", outcomes_of(shop, "closed"), sentences)
        assert applied(Answer("closed", reported, {})) == answer.outcomes
        return answer
    return Answer("open", outcomes_of(shop, "open"), {})


def by_script(shop: Shop) -> Answer:
    """Ask the script of `alembic upgrade --sql` in psql; it evaluates what blocks."""
    try:
        said = feed(shop.database, script(shop))
    except MigrationError as error:  # refused while it is written
        said = str(error)
    gate = "open" if shop.version() == "c3" else "closed"
    sentences = {}
    if gate == "closed":
        assert re.search("the gate shop/ready (is closed|has no blocking check at revision c3)", said)
        found = re.findall(r"(?m)^  ([a-z]+): (.*?) \(\S*shop\.md:\d+\)(?: -- to look closer: .*)?$", said)
        sentences = {name: bare(sentence) for name, sentence in found}
        feed(shop.database, script(shop, force=True))
        assert shop.version() == "c3"
    return Answer(gate, outcomes_of(shop, gate), sentences)


def script(shop: Shop, *, force: bool = False) -> str:
    config = forced(shop) if force else shop.config()
    config.output_buffer = written = io.StringIO()
    command.upgrade(config, "b2:c3", sql=True)
    return written.getvalue()


def forced(shop: Shop) -> Config:
    config = shop.config()
    config.cmd_opts = Namespace(x=[f"force={FORCE}"])
    return config


def outcomes_of(shop: Shop, gate: str) -> Mapping[str, str]:
    """Read the outcomes that the ledger has of the gate, which passed or was forced."""
    runs = shop.database.rows(
        "SELECT event, gate, reason FROM pipestate.run WHERE revision = 'c3' AND event <> 'upgrade'"
    )
    reason = FORCE.partition(": ")[2] if gate == "closed" else None
    assert runs in ([], [("force" if gate == "closed" else "gate", gate, reason)]), runs
    found = shop.database.rows(  # SQLite records a skipped check, PostgreSQL none
        "SELECT check_id, outcome FROM pipestate.result WHERE outcome <> 'skipped' "
        "AND run_id IN (SELECT id FROM pipestate.run WHERE revision = 'c3')"
    )
    return {str(name): str(outcome) for name, outcome in found}


def applied(answer: Answer) -> Mapping[str, str]:
    """Leave out the skipped checks."""
    return {name: outcome for name, outcome in answer.outcomes.items() if outcome != "skipped"}


def blocking(answer: Answer, world: World) -> Mapping[str, str]:
    """Leave out the warnings, which a script does not evaluate."""
    blocks = "\n".join(world.blocks)
    warnings = re.findall(r"check: (.*)\n(?:-- .*\n)*-- level: warn", blocks)
    return {name: outcome for name, outcome in answer.outcomes.items() if name not in warnings}


def bare(sentence: str) -> str:
    """Leave out the first row, which the ways show differently."""
    sentence = re.sub(
        r"(?s)^(\d+) rows?, first: .*; required rows (.*)$", r"rows is \1, required \2", sentence
    )
    return re.sub(r"\\(n|x1b|u202e)", "?", sentence.partition("; first: ")[0])


@pytest.fixture
def shops(
    request: pytest.FixtureRequest, postgres: Postgres, sqlite: Sqlite, tmp_path: Path
) -> Iterator[list[Shop]]:
    """The world, on a database for each way of asking."""
    beds: list[Postgres | Sqlite] = [postgres, postgres, sqlite]
    template = tmp_path / "template"
    databases = [
        bed.copy_of(
            "shop at b2",
            lambda fresh: open_shop(template / fresh.url.get_backend_name(), fresh).upgrade("b2"),
        )
        for bed in beds
    ]
    yield [settle(request.param, tmp_path / str(number), each) for number, each in enumerate(databases)]
    for bed, each in zip(beds, databases, strict=True):
        bed.drop(each)


@pytest.mark.parametrize(("name", "shops"), WORLDS.items(), ids=[*WORLDS], indirect=["shops"])
def test_a_world_has_one_answer(name: str, shops: list[Shop]) -> None:
    world = WORLDS[name]
    on_server, in_script, on_file = shops
    asked, asked_there = by_gate(on_server), by_gate(on_file)
    assert (asked.gate, asked.outcomes) == (world.gate, world.outcomes)
    assert (asked_there.gate, asked_there.outcomes) == (world.gate, {**world.outcomes, **world.on_sqlite})
    assert asked.sentences.keys() == asked_there.sentences.keys()
    assert asked.sentences == asked_there.sentences or world.on_sqlite or world.own_words
    expected, expected_there = (
        replace(each, outcomes=applied(each)) if world.tables else Answer("open", {}, {})
        for each in (asked, asked_there)
    )
    assert by_upgrade(on_server) == expected
    assert by_script(in_script) == replace(expected, outcomes=blocking(expected, world))
    assert by_upgrade(on_file) == expected_there


LATE = "INSERT INTO order_log VALUES (1, 'late') ON CONFLICT DO NOTHING"


@pytest.mark.parametrize(("value", "gate"), [(1, "open"), (2, "closed")])
def test_a_table_that_is_filled_before_the_lock_has_one_answer(
    postgres: Postgres, tmp_path: Path, value: int, gate: str
) -> None:
    """Only PostgreSQL lets another session write there."""
    world = World([column(str(value))], {}, tables=())
    databases = [
        postgres.copy_of("shop at b2", lambda fresh: open_shop(tmp_path / "template", fresh).upgrade("b2"))
        for _ in range(2)
    ]
    online, offline = (settle(world, tmp_path / str(n), each) for n, each in enumerate(databases))

    def write_late(*arguments: object) -> None:
        if "CALL pipestate.judge_gate" in str(arguments[2]):
            online.database.run(LATE)

    event.listen(Engine, "after_cursor_execute", write_late)
    try:
        answer = by_upgrade(online)
    finally:
        event.remove(Engine, "after_cursor_execute", write_late)
    psql = f'{postgres_binary("psql")} -X -q "{offline.database.text}" -c "{LATE}"'
    said = feed(
        offline.database, re.sub(r"(?m)^(CALL pipestate\.judge_gate.*)$", rf"\1\n\\! {psql}", script(offline))
    )
    assert answer.gate == gate
    assert offline.version() == ("c3" if gate == "open" else "b2")
    assert answer.sentences.keys() == ({"c"} if gate == "closed" else set())
    assert all(f"  {name}: {sentence} (" in said for name, sentence in answer.sentences.items()), said
    for each in databases:
        postgres.drop(each)
