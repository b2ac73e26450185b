"""Data is data: whatever rows, notes and names contain is shown, escaped, and never obeyed."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from attacks import orders
from attacks.orders import PAGE, approve, assert_refused
from attacks.project import Project, lay_out
from attacks.psql import feed
from attacks.screen import on_screen
from support.servers import Database, Postgres

MARKUP = "[bold red]loud[/bold red] x[/y] [link=http://evil]z[/link]"
TERMINAL = "\x1b[2J\x1b]0;owned\x07\x1b[31m\x9b2J\x08\x7f\u202e \u061c\u200e\u200f\u2028\u2029"
WORKFLOW = "first\n::error file=x,line=1::owned\r\n::stop-commands::me %0A::error::owned too"
MARKDOWN = "![p](http://evil/p.png) @everyone [a](http://evil) <img src=x> | c | `d` \n\n# head\n- item"
XML = "]]> <x/> &amp; \x01 \x0b \ufffe"
HOSTILE = {
    "rich markup": MARKUP,
    "terminal": TERMINAL,
    "workflow": WORKFLOW,
    "markdown": MARKDOWN,
    "xml": XML,
    "all": " ".join((MARKUP, TERMINAL, WORKFLOW, MARKDOWN, XML)),
}
# What a terminal obeys. A colour on a screen is our own; these are nobody's.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
FORMATS = ["console", "json", "junit", "github", "markdown", "openmetrics"]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.fixture(scope="module", params=list(HOSTILE.values()), ids=list(HOSTILE))
def text(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@dataclass(frozen=True)
class Poisoned(Project):
    """The project with a text in its rows, and what was shown of them."""

    screens: dict[str, str] = field(default_factory=dict)

    def shown(self, form: str) -> str:
        """Verify in that format, once; return what it wrote to stdout."""
        if form not in self.screens:
            summary = self.root / f"summary-{form}.md"
            done = self.pipestate("verify", "--format", form, GITHUB_STEP_SUMMARY=str(summary))
            assert done.returncode == 1, done.stderr
            assert "Traceback" not in done.stderr
            self.screens[form] = done.stdout
        return self.screens[form]


@pytest.fixture(scope="module")
def poisoned(postgres: Postgres, text: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Poisoned]:
    """The text in what a check compares, in its evidence, and in an exception of the server."""
    root = tmp_path_factory.mktemp("poisoned")
    database = postgres.copy_of("attacked", lambda fresh: orders.fill(fresh, root / "template"))
    database.run(
        orders.APPROVAL,
        f"UPDATE old_orders SET note = {quoted(text)} || id",
        "CREATE FUNCTION complain() RETURNS int LANGUAGE plpgsql AS "
        f"$f$ BEGIN RAISE EXCEPTION '%', {quoted(text)}; END $f$",
    )
    project = lay_out("attacked", root / "project", database)
    project.add_check("SELECT max(note) AS note FROM old_orders", "note = 'fine'", check="noted")
    evidence = "\n```sql\n-- explains: noted\nSELECT id, note FROM old_orders ORDER BY id;\n```\n"
    project.write(PAGE, project.read(PAGE) + evidence)
    yield Poisoned(project.root, database)
    postgres.drop(database)


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_shows_what_a_terminal_obeys(poisoned: Poisoned, form: str) -> None:
    assert OBEYED.findall(poisoned.shown(form)) == []


@pytest.mark.parametrize("form", ["console", "junit", "markdown"])
def test_no_line_of_a_format_begins_with_a_workflow_command(poisoned: Poisoned, form: str) -> None:
    """A step's log is read for commands, whatever wrote it."""
    assert not re.search(r"^\s*::", poisoned.shown(form), re.MULTILINE)


def test_json_has_the_text_as_it_is(poisoned: Poisoned, text: str) -> None:
    report = json.loads(poisoned.shown("json"))
    (check,) = [c for c in report["runbooks"][0]["phases"][0]["checks"] if c["id"] == "noted"]
    assert check["observed"] == {"note": f"{text}3"}
    assert check["evidence"][0] == {"id": 1, "note": f"{text}1"}


def test_junit_can_be_parsed(poisoned: Poisoned) -> None:
    root = ET.fromstring(poisoned.shown("junit"))
    assert len(root.findall(".//failure")) == 1


def test_github_gets_one_command_a_failure(poisoned: Poisoned, text: str) -> None:
    written = poisoned.shown("github")
    commands = [line for line in written.splitlines() if line.lstrip().startswith("::")]
    assert len(commands) == 1
    assert re.match(r"::error file=runbooks/orders\.md,line=\d+,title=noted::", commands[0])
    if "%0A" in text:
        assert "%0A::error" not in commands[0]


def tokens(markdown: str) -> Iterator[Token]:
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(markdown):
        yield token
        yield from token.children or ()


@pytest.mark.parametrize("form", ["markdown", "github"])
def test_markdown_shows_the_text_and_no_more(poisoned: Poisoned, form: str) -> None:
    """No image is fetched, nobody is called, nothing gets a heading or a link."""
    written = poisoned.shown(form)
    markdown = written if form == "markdown" else poisoned.read("summary-github.md")
    found = list(tokens(markdown))
    kinds = {token.type for token in found}
    assert not kinds & {"image", "link_open", "html_inline", "html_block", "bullet_list_open", "fence"}
    assert "head" not in [each.content.strip() for each in found if each.type == "inline"]
    prose = " ".join(token.content for token in found if token.type == "text")
    assert "@everyone" not in prose
    widths = {line.count("|") - line.count("\\|") for line in markdown.splitlines() if line.startswith("| ")}
    assert widths <= {5, 3}, "a cell has become two"


def test_the_console_shows_markup_as_text(gated: Project) -> None:
    approve(gated)
    gated.database.run(f"UPDATE old_orders SET note = {quoted(MARKUP)}")
    gated.add_check("SELECT max(note) AS note FROM old_orders", "note = 'fine'", check="noted")
    done = gated.pipestate("verify")
    assert "[bold red]loud[/bold red] x[/y]" in done.stdout


def test_a_terminal_gets_no_sequence_from_data(poisoned: Poisoned) -> None:
    screen = on_screen(poisoned, "pipestate", "verify")
    for sequence in ("\x1b[2J", "\x1b]", "\x07", "\x9b", "\x08", "\x7f", "\u202e"):
        assert sequence not in screen
    assert "Traceback" not in screen


def test_a_closed_gate_of_a_migration_says_it_escaped(poisoned: Poisoned) -> None:
    done = poisoned.alembic("upgrade", "head")
    assert_refused(done, poisoned.database, "noted: ")
    assert OBEYED.findall(done.stdout + done.stderr) == []
    assert not re.search(r"^\s*::", done.stdout + done.stderr, re.MULTILINE)


def test_a_closed_gate_in_a_script_says_it_escaped(poisoned: Poisoned) -> None:
    said = feed(poisoned.database, poisoned.script("b2:c3"))
    assert "noted" in said
    assert OBEYED.findall(said) == []
    assert not re.search(r"^\s*::", said, re.MULTILINE)


@pytest.mark.parametrize("form", ["console", "github", "junit"])
def test_an_error_of_the_server_is_data_too(poisoned: Poisoned, tmp_path: Path, form: str) -> None:
    """The message of an exception can hold whatever a row holds."""
    project = lay_out("attacked", tmp_path, poisoned.database)
    project.add_check("SELECT complain() AS n", "n = 0", check="noted")
    done = project.pipestate("verify", "--format", form)
    assert done.returncode == 3, done.stderr
    assert OBEYED.findall(done.stdout + done.stderr) == []
    commands = [line for line in done.stdout.splitlines() if line.lstrip().startswith("::")]
    assert len(commands) == (1 if form == "github" else 0)


# --- Names that are given on the command line ------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "{}"],
        ["verify", "--phase", "{}"],
        ["gate", "{}"],
        ["gate", "orders/{}"],
        ["attest", "{}", "--by", "me"],
        ["observe", "--set", "{}"],
        ["verify", "--config", "{}"],
        ["runbook", "show", "{}"],
        ["runbook", "lint", "{}.md"],
        ["verify", "--database-url", "postgresql://{}@127.0.0.1:1/x"],
        ["verify", "--database-url", "{}"],
    ],
    ids=" ".join,
)
def test_a_hostile_argument_is_a_sentence(approved: Project, arguments: list[str]) -> None:
    for text in (MARKUP, TERMINAL, WORKFLOW.replace("\r", "")):
        done = approved.pipestate(*(argument.format(text) for argument in arguments))
        assert done.returncode in (2, 3), done.stderr
        assert "Traceback" not in done.stderr
        assert OBEYED.findall(done.stdout + done.stderr) == []
        assert not re.search(r"^\s*::", done.stdout + done.stderr, re.MULTILINE)


def test_a_hostile_name_of_a_database_is_a_name(approved: Project, postgres: Postgres) -> None:
    name = "x[/y] \x1b[2J"
    admin = Database(postgres.admin)
    with admin.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
        url = Database(postgres.admin.set(database=name)).text
        for command in (["verify"], ["plan"], ["status"], ["verify", "--format", "markdown"]):
            done = approved.pipestate(*command, "--database-url", url)
            assert "Traceback" not in done.stderr, done.stderr
            assert OBEYED.findall(done.stdout + done.stderr) == []
        connection.exec_driver_sql(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.mark.parametrize(
    "name",
    ["x[red].md", "x\x1b[2J.md", "x\n::error::owned.md", "x\u202e.md"],
    ids=["markup", "escape", "lines", "bidi"],
)
def test_a_hostile_name_of_a_page_is_a_name(approved: Project, name: str) -> None:
    approved.write(f"runbooks/{name}", "---\nrunbook: [x\n---\n# No runbook\n")
    for command in (["runbook", "lint"], ["verify"], ["plan"]):
        done = approved.pipestate(*command)
        assert "Traceback" not in done.stderr
        assert OBEYED.findall(done.stdout + done.stderr) == []
        assert not re.search(r"^\s*::", done.stdout + done.stderr, re.MULTILINE)


@pytest.mark.parametrize("key", ["runbook", "default", "more"])
def test_a_hostile_word_on_a_page_is_a_word(approved: Project, key: str) -> None:
    word = json.dumps(f"{MARKUP} {TERMINAL} {WORKFLOW}")
    approved.edit(
        PAGE,
        (
            "runbook: orders\ndefault: true\n",
            f"runbook: orders\n{key}: {word}\n".replace("runbook: orders\nrunbook:", "runbook:"),
        ),
    )
    done = approved.pipestate("runbook", "lint")
    assert done.returncode == 2, done.stdout
    assert OBEYED.findall(done.stdout + done.stderr) == []
    assert not re.search(r"^\s*::", done.stdout + done.stderr, re.MULTILINE)


# --- What people wrote into the ledger -------------------------------------------------------------


@pytest.mark.parametrize("note", HOSTILE.values(), ids=HOSTILE)
def test_a_note_in_the_history_is_text(gated: Project, note: str, tmp_path: Path) -> None:
    gated.write(PAGE, gated.read(PAGE) + "\n- [ ] `backup-taken` (24h): A backup.\n")
    name = "orders/ready/backup-taken"
    signed = gated.pipestate("attest", name, "--by", f"me {note}", "--note", note)
    assert signed.returncode == 0, signed.stderr
    assert OBEYED.findall(signed.stdout + signed.stderr) == []
    done = gated.pipestate("history")
    assert done.returncode == 0, done.stderr
    assert OBEYED.findall(done.stdout + done.stderr) == []
    assert not re.search(r"^\s*::", done.stdout, re.MULTILINE)
    if note == MARKUP:
        wide = gated.pipestate("history", COLUMNS="400")
        assert note in wide.stdout
    entries = json.loads(gated.pipestate("history", "--json").stdout)
    assert note in str(entries[0]["what"])


def assert_shown_once(said: str) -> None:
    assert said.count("is closed, and forced: ") == 1, said
    assert OBEYED.findall(said) == []
    assert not re.search(r"^\s*::", said, re.MULTILINE)


@pytest.mark.parametrize("reason", [TERMINAL, WORKFLOW], ids=["terminal", "workflow"])
def test_the_reason_of_a_force_is_text_and_said_once(gated: Project, reason: str) -> None:
    done = gated.alembic("-x", f"force={reason}", "upgrade", "head")
    assert done.returncode == 0, done.stderr
    assert_shown_once(done.stderr)


@pytest.mark.parametrize("reason", [TERMINAL, WORKFLOW], ids=["terminal", "workflow"])
def test_the_reason_in_a_forced_script_is_text_and_said_once(gated: Project, reason: str) -> None:
    assert_shown_once(feed(gated.database, gated.script("b2:head", "-x", f"force={reason}")))


# --- Width -----------------------------------------------------------------------------------------


def wide(project: Project, rows: int) -> None:
    """A check with many rows and columns of evidence."""
    names = ", ".join(f"'value of column {n}' AS column_{n}" for n in range(7))
    project.add_check("SELECT 1 AS n", "n = 0", check="wide")
    evidence = f"SELECT i AS id, {names}, now() AS updated_at FROM generate_series(1, {rows}) AS i ORDER BY i"
    project.write(
        PAGE, project.read(PAGE) + f"\n```sql\n-- explains: wide\n-- dialect: postgresql\n{evidence};\n```\n"
    )


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_no_column_of_the_evidence_vanishes(approved: Project, columns: int) -> None:
    wide(approved, rows=2)
    screen = on_screen(approved, "pipestate", "verify", columns=columns)
    for name in (*(f"column_{n}" for n in range(7)), "updated_at"):
        assert name in screen


def test_and_more_counts_the_rows_not_the_sample(approved: Project) -> None:
    wide(approved, rows=17)
    done = approved.pipestate("verify")
    assert "and 14 more" in done.stdout, "three of 17 are shown, as each takes several lines"
    done = approved.pipestate("verify", "--evidence", "5")
    assert "and 12 more" in done.stdout
