"""The documentation is run: every command, every block of SQL, and whatever else claims to work."""

import configparser
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from redis import Redis

from acceptance.test_screens import SCREENS, settled
from pipestate.migration.postgresql.session import one_migration_at_a_time
from pipestate.pipeline.demo import scene
from pipestate.runbook.directives import has_directives
from pipestate.runbook.files import is_beside, runbook_file
from pipestate.runbook.lint import findings
from support.alembic_runs import ROOT, Migrations
from support.documentation import (
    DOCS,
    PAGES,
    Command,
    Example,
    Shell,
    called,
    commands,
    database_of,
    examples,
    find_page,
    find_schema,
    lay_out,
    missing_of,
    roles_of,
)
from support.legacy_database import fill_legacy, fill_legacy_at
from support.new_user import Walk
from support.servers import Database, Postgres, Sqlite
from unit.test_borders import RANKS

EXAMPLES = [example for page in PAGES for example in examples(page)]
RUN = ("console", "sql", "output", "annotation")
# Pages that tests of their own run: test_disuse.py, test_roles.py, test_start.py.
RUN_ELSEWHERE = (
    "how-to/prove-disuse.md",
    "how-to/roles.md",
    "start/project.md",
    "start/guard.md",
    "start/first-check.md",
    "start/first-contract.md",
    "README.md",
)
# What cannot be run: installing it, the commands that set up and test everything, an address, a drawing.
UNCHECKED = [
    ("README.md", "sh"),
    ("README.md", "sh"),
    ("CONTRIBUTING.md", ""),
    ("CONTRIBUTING.md", ""),
    ("RELEASING.md", "sh"),
    ("index.md", "sh"),
    ("migration/index.md", "sh"),
    ("migration/index.md", "sh"),
    ("migration/operations.md", "sh"),
    ("start/guard.md", "sh"),
]


def ini(text: str) -> None:
    configparser.ConfigParser(interpolation=None, strict=False).read_string(text)


def python(text: str) -> None:
    compile(text, "<documentation>", "exec", dont_inherit=True)


def runbook(text: str) -> None:
    name = re.search(r"^runbook: (\S+)$", text, re.MULTILINE)
    assert name is not None
    assert findings(text, f"{name[1]}.md") == []


def beside_its_page(example: Example) -> None:
    """Variants are linted with the page that they stand beside."""
    name = str(runbook_file(str(example.file)))
    (page,) = [each for each in EXAMPLES if (each.page, each.file) == (example.page, name)]
    assert findings(page.text, str(page.file), example.text) == []


def crontab(text: str) -> None:
    """Variables, and lines of five fields and a command of ours."""
    known = {"observe", "reconcile", "report", "verify"}
    for line in text.splitlines():
        found = re.fullmatch(r"[A-Z_]+=\S+|(?:[\d*/]+\s+){5}pipestate (\w+).* >> \S+ 2>&1", line)
        assert found, line
        assert found[1] is None or found[1] in known, line


def screen(text: str) -> None:
    """What a page shows of a terminal stands in a kept screen, whatever the day."""
    kept = {line.strip() for path in SCREENS.glob("*.txt") for line in path.read_text().splitlines()}
    for line in settled(text).splitlines():
        assert line.strip() in kept, line


def printed_by_help(text: str) -> None:
    """tests/unit/test_reference.py compares each line with what `--help` prints."""
    assert text.startswith(("Usage: pipestate", "Which project:"))


def signature(text: str) -> None:
    """tests/unit/test_reference.py compares it with the code."""
    for one in text.strip().split("\n\n"):
        compile(f"def {one}: ...", "<documentation>", "exec")


CHECKS: dict[str, Callable[[str], object]] = {
    "python": python,
    "markdown": runbook,
    "yaml": yaml.safe_load,
    "json": json.loads,
    "toml": tomllib.loads,
    "ini": ini,
    "text": crontab,
    "screen": screen,
    "help": printed_by_help,
    "signature": signature,
}


def scene_at_0005(database: Database) -> None:
    with database.begin() as connection:
        scene.build(connection)
    Migrations(database).upgrade("0005")


WORLDS: dict[str, Callable[[Database], None]] = {
    "legacy": fill_legacy,
    "legacy at 0005": partial(fill_legacy_at, revision="0005"),
    "scene at 0005": scene_at_0005,
}


@pytest.fixture
def world(postgres: Postgres, sqlite: Sqlite, request: pytest.FixtureRequest) -> Iterator[Database]:
    """The database that a page assumes."""
    name = database_of(request.param)
    if name == "sqlite":
        yield (file := sqlite.create())
        sqlite.drop(file)
        return
    database = postgres.copy_of(name, WORLDS[name])
    yield database
    for role in (f"{role}_{database.url.database}" for role in roles_of(request.param)):
        database.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")
    postgres.drop(database)


def fill_environment(storage: Path, redis_url: str) -> dict[str, str]:
    """Files and queues, where the page works with them."""
    scene.write_files(storage)
    with Redis.from_url(redis_url) as redis:
        redis.flushall()
        scene.fill_queues(redis, storage)
    return {"STORAGE_DIR": str(storage), "REDIS_URL": redis_url}


def pages_that_run(*, in_shop: bool) -> list[Any]:
    """Pages with commands or SQL, and the database that each assumes."""
    return [
        pytest.param(each, each, id=called(each))
        for each in PAGES
        if any(example.language in ("console", "sql") for example in examples(each))
        and called(each) not in RUN_ELSEWHERE
        and ("<!-- project: shop -->" in each.read_text(encoding="utf-8")) == in_shop
    ]


def of_its_own(text: str, page: Path, database: Database) -> str:
    """Roles belong to the whole server: the examples make theirs under a name of their own."""
    for role in roles_of(page):
        text = re.sub(rf"\b{role}\b", f"{role}_{database.url.database}", text)
    return text


@pytest.mark.parametrize(("world", "page"), pages_that_run(in_shop=False), indirect=["world"])
@pytest.mark.scene
def test_a_page_runs_top_to_bottom(world: Database, page: Path, tmp_path: Path, redis_url: str) -> None:
    directory = tmp_path / "project"
    directory.mkdir()
    lay_out(directory, examples(page))
    shell = Shell(directory, {"DATABASE_URL": world.text})
    if database_of(page).startswith("scene"):
        shell.environment.update(fill_environment(tmp_path / "sites", redis_url))
    printed = ""
    for example in examples(page):
        if example.language == "sql" and has_directives(example.text):
            world.rows(example.text)
        elif example.language == "sql":
            world.run(of_its_own(example.text, page, world))
        elif example.language == "output":
            assert not missing_of(example.text, printed), printed
        elif example.language == "console":
            for command in commands(example.text):
                printed = shell.must(command)
                if "verify" in command.text and "--json" in command.text:
                    jsonschema.validate(json.loads(printed), json.loads(find_schema("verify").read_text()))


@pytest.mark.parametrize("page", [each.values[1] for each in pages_that_run(in_shop=True)], ids=called)
@pytest.mark.scene
def test_a_page_that_begins_in_the_shop_runs_top_to_bottom(page: Path, pg: Database, tmp_path: Path) -> None:
    walk = Walk(tmp_path / "shop", pg)
    walk.make_shop()
    for example in examples(page):
        walk.take(example)


# Of a page: what the application writes before the contract and after it, and what a query then says.
GOES_BACK: dict[str, tuple[tuple[str, ...], tuple[str, ...], str, list[tuple[object, ...]]]] = {
    "rename-a-column.md": (
        (
            "INSERT INTO order_log (id, said) VALUES (2, 'b'), (3, 'c'), (5, 'e')",
            "UPDATE order_log SET note = 'C' WHERE id = 3",
        ),
        (
            "INSERT INTO order_log (id, note) VALUES (4, 'd')",
            "UPDATE order_log SET note = 'B' WHERE id = 2",
            "UPDATE order_log SET note = NULL WHERE id = 5",
        ),
        "SELECT id, said, note FROM order_log ORDER BY id",
        [(1, *["order 1 was placed"] * 2), (2, "B", "B"), (3, "C", "C"), (4, "d", "d"), (5, None, None)],
    ),
    "split-a-table.md": (
        (
            "INSERT INTO orders (id, status) VALUES (3, 'paid'), (5, 'paid'), (6, 'paid')",
            "UPDATE order_status SET status = 'sent' WHERE order_id = 3",
        ),
        (
            "UPDATE order_status SET status = 'sent' WHERE order_id = 1",
            "INSERT INTO orders (id) VALUES (4)",
            "INSERT INTO order_status VALUES (4, 'new')",
            "UPDATE order_status SET status = NULL WHERE order_id = 5",
            "DELETE FROM order_status WHERE order_id = 6",
        ),
        "SELECT o.id, o.status, s.status FROM orders o JOIN order_status s ON s.order_id = o.id ORDER BY 1",
        [
            *((1, "sent", "sent"), (2, None, None), (3, "sent", "sent"), (4, "new", "new")),
            *((5, None, None), (6, None, None)),
        ],
    ),
    "drop-a-table.md": (
        ("INSERT INTO order_log VALUES (2, 'b')",),
        (),
        "SELECT id, said FROM order_log ORDER BY id",
        [(1, "order 1 was placed"), (2, "b")],
    ),
}


@pytest.mark.parametrize("name", GOES_BACK)
@pytest.mark.scene
def test_a_page_goes_back_and_loses_nothing_newer(name: str, pg: Database, tmp_path: Path) -> None:
    """With the restored triggers, and with whatever `verify` prints next."""
    before, after, query, expected = GOES_BACK[name]
    walk = Walk(tmp_path / "shop", pg)
    walk.make_shop()
    *taken, contract = [each for each in examples(find_page(name)) if "alembic downgrade -1" not in each.text]
    for example in taken:
        walk.take(example)
    pg.run(*before)
    walk.take(contract)
    pg.run(*after)
    walk.shell.must(Command("alembic downgrade -1", 0))
    assert pg.rows(query) == expected
    table = "orders" if "orders" in query else "order_log"
    pg.run(f"UPDATE {table} SET id = id")
    assert pg.rows(query) == expected
    for backfill in ("rename/note", "split/copy"):
        if backfill.split("/")[0] in name:
            refused = walk.shell.run(f"pipestate backfill {backfill}")
            assert refused.returncode == 2, refused.stdout
            assert "would overwrite newer values with old ones" in refused.stderr
            pg.run("ALTER TABLE order_log DISABLE TRIGGER ALL", "ALTER TABLE orders DISABLE TRIGGER ALL")
            pg.run(
                "UPDATE order_log SET said = 'late' WHERE id = 1",
                "DELETE FROM order_status WHERE order_id = 1" if "split" in name else "SELECT 1",
            )
            said = walk.shell.run("pipestate verify " + backfill.split("/")[0]).stdout
            assert f"Run: pipestate backfill {backfill}" not in said
            assert f"{backfill} is refused since the contract e5 was applied" in " ".join(said.split())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: f"{each.page}:{each.line}")
def test_every_example_is_run_parsed_or_known_to_be_neither(example: Example) -> None:
    if example.file is not None and is_beside(example.file):
        if example.page not in RUN_ELSEWHERE:
            beside_its_page(example)
    elif example.file is not None and example.file.endswith(" (appended)"):
        assert example.page in RUN_ELSEWHERE
    elif example.language in CHECKS:
        CHECKS[example.language](example.text)
        if example.language == "python" and example.file is None:
            exec(example.text, {})
    elif example.language in RUN:
        assert example.text.strip()
    else:
        assert (example.page, example.language) in UNCHECKED


def test_what_is_not_checked_is_counted() -> None:
    checked = {*RUN, *CHECKS}
    rest = [(each.page, each.language) for each in EXAMPLES if each.language not in checked]
    assert sorted(rest) == sorted(UNCHECKED)


def test_a_console_block_holds_commands_alone() -> None:
    """Then none of its lines can be taken for a command and silently not be run."""
    for example in (each for each in EXAMPLES if each.language == "console"):
        for line in example.text.splitlines():
            assert line.startswith("$ "), f"{example.page}:{example.line}: {line}"


def test_a_check_in_a_page_would_pass_the_lint() -> None:
    head = "---\nrunbook: sample\nphases:\n  one: {}\n---\n\n## Phase: one\n\n```sql\n"
    for example in (each for each in EXAMPLES if each.language == "sql" and has_directives(each.text)):
        assert findings(f"{head}{example.text}```\n", "sample.md") == [], example.page


@pytest.mark.parametrize(
    ("page", "key", "schema"),
    [
        ("json.md", '"runbooks"', find_schema("verify")),
        ("json.md", '"changes"', find_schema("notice")),
        ("json.md", '"kind"', find_schema("fleet")),
    ],
)
def test_the_samples_of_the_json_are_valid(page: str, key: str, schema: Path) -> None:
    (sample,) = [
        each for each in EXAMPLES if each.language == "json" and each.page.endswith(page) and key in each.text
    ]
    jsonschema.validate(json.loads(sample.text), json.loads(schema.read_text()))


def test_the_query_for_the_migration_lock_shows_who_holds_it(pg: Database) -> None:
    (query,) = [each.text for each in EXAMPLES if "locktype = 'advisory'" in each.text]
    with pg.engine.connect() as holder, one_migration_at_a_time(holder):
        pid = holder.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        assert [row[0] for row in pg.rows(query)] == [pid]
    assert pg.rows(query) == []


def is_explained(key: str, page: str) -> bool:
    """In a table, or by the sample that shows it."""
    return bool(re.search(rf"`(?:\w+(?:\[\])?)?\.?{key}(?:\[\])?[`.]|\"{key}\": ", page))


def test_every_key_of_the_json_is_explained() -> None:
    page = find_page("json.md").read_text()
    schema = json.loads(find_schema("verify").read_text())
    parts = [schema, schema["properties"]["database"], schema["properties"]["runbooks"]["items"]]
    for part in [*parts, *schema["$defs"].values()]:
        for key in part["properties"]:
            assert is_explained(key, page), key


def test_every_metric_is_explained_and_no_other() -> None:
    page = find_page("monitoring.md").read_text()
    source = (ROOT / "src" / "pipestate" / "cli" / "formats" / "openmetrics.py").read_text()
    made = set(re.findall(r"^    \"(pipestate_\w+)\": ", source, re.MULTILINE))
    assert made == set(re.findall(r"`(pipestate_\w+)`", page)) - {"pipestate_version"}


@pytest.mark.parametrize("name", ["status", "plan", "history", "lint"])
def test_every_key_of_the_other_schemas_is_explained(name: str) -> None:
    page = find_page("json.md").read_text()
    schema = json.loads(find_schema(name).read_text())
    for key in keys_of(schema):
        assert is_explained(key, page), key


def keys_of(schema: object) -> set[str]:
    """Every key of an object, however deep."""
    if isinstance(schema, list):
        return set().union(*map(keys_of, schema))
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", ())) | set().union(*map(keys_of, schema.values()))


def test_every_directive_is_explained() -> None:
    from pipestate.runbook.directives import KNOWN

    page = (ROOT / "docs" / "reference" / "directives.md").read_text()
    for name in KNOWN:
        assert re.search(rf"^\|[^|]*`{name}`[^|]*\|", page, re.MULTILINE), name


def test_prose_keeps_to_110_columns() -> None:
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            assert len(line) <= 110 or line.startswith("|"), f"{page.name}:{number}"


PLACES = r"`((?:src|tests|alembic|runbooks|docs|benchmarks|examples)/[\w./-]*)`"


@pytest.mark.parametrize("page", PAGES, ids=called)
def test_every_path_of_the_checkout_that_is_named_exists(page: Path) -> None:
    if called(page).startswith(("how-to/", "start/", "reference/")):
        return  # there `alembic/` and `runbooks/` belong to the reader's project
    named = re.findall(PLACES, page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_file_of_attacks_is_listed() -> None:
    listed = (ROOT / "tests" / "attacks" / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`(?:[\w/]+/)?(test_\w+\.py)`", listed)
    known = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert len(named) > 20
    assert set(named) - known == set()


def test_every_test_that_a_number_of_the_attack_rounds_names_exists() -> None:
    page = (ROOT / "tests" / "attacks" / "NUMBERS.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \|.*\|$", page, re.MULTILINE)
    assert sorted(map(int, rows)) == [*range(1, 31), *range(79, 88)]
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", page)
    assert page.count("::") == len(named) > 140
    defined = {path: (ROOT / path).read_text(encoding="utf-8") for path, _ in named}
    assert [name for path, name in named if f"\ndef {name}(" not in defined[path]] == []


def test_the_picture_of_the_tree_has_every_package_in_the_order_of_the_borders() -> None:
    drawn = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("```\nsrc/pipestate/\n")[2]
    lines = [re.findall(r"(\w+)/ ", line) for line in drawn.partition("```")[0].splitlines()]
    package = ROOT / "src" / "pipestate"
    real = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    shown = [[name for name in line if name in real] for line in lines]
    assert {name for line in shown for name in line} == real
    ranks = [RANKS[name] for line in shown for name in line if name in RANKS]
    assert ranks == sorted(ranks)


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:`|^)make ([a-z]+)\b", page.read_text(), re.MULTILINE))
        assert named <= targets, f"{page.name}: {named - targets}"


def test_make_alone_lists_the_targets() -> None:
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("demo", "test", "lint", "bench"):
        assert f"make {target}" in listed


@pytest.mark.parametrize("page", PAGES, ids=called)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        place = ROOT if target.startswith("runbooks/") else page.parent  # the site has them below migration/
        assert (place / target).exists(), target


@pytest.mark.scene
def test_the_site_is_built_strictly_and_can_be_searched(tmp_path: Path) -> None:
    """Strict: no broken link or anchor, and no page outside the navigation."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "search" / "search_index.json").read_text())["docs"]
    assert {"how-to/backfill.html", "migration/runbooks/queue-cutover.html"} <= {
        each["location"] for each in found
    }


def test_every_page_has_its_place_in_the_navigation() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert {str(each.relative_to(DOCS)) for each in DOCS.rglob("*.md")} <= named
