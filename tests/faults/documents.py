"""Documents of all kinds through the parser of runbooks and the grammar of `require`: a value or a clear error."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from faults.case import Complaint
from pipestate.core.errors import PipestateError
from pipestate.runbook.criterion import parse_requirement
from pipestate.runbook.lint import load

# Of the pages, and of the criteria, at least so many must be read, and at least so many be refused.
FAIR_SHARE = 0.2

SCRAPS = st.sampled_from(
    [
        *("---\n", "runbook: orders\n", "default: true\n", "phases:\n", "  ready:\n", "    opens: [c3]\n"),
        *("## Phase: ready\n", "## Phase: \n", "# Orders\n", "```sql\n", "```\n", "````\n", "~~~sql\n"),
        *("-- check: quiet\n", "-- require: rows = 0\n", "-- level: warn\n", "-- from: b2\n"),
        *("-- explains: quiet\n", "-- window: 24 hours\n", "-- dialect: sqlite\n", "-- backfill: state\n"),
        *("-- view: all\n", "-- table: orders\n", "-- key: id\n", "| a | b |\n", "\t\n", "\n"),
        "SELECT id FROM orders WHERE at > now() - interval '24 hours';\n",
        *("UPDATE orders SET a = 1 WHERE id BETWEEN :first AND :last;\n", "SELECT 1; DROP TABLE orders;\n"),
        *("- [ ] `backup` (24h, 2 people): It is there.\n", "- again: `ready/quiet`, requires `rows < 5`\n"),
        *("- again: `ready/quiet`, over `48 hours`\n", "$$ ' \" /* -- */ E'\\\\'\n"),
    ]
)
TEXT = st.text(max_size=40)

COLUMN = st.sampled_from(["x", "größe", "stuck_pct", "a$1"])
NUMBER = st.one_of(
    st.integers().map(str), st.decimals(allow_nan=False, allow_infinity=False, places=3).map("{:f}".format)
)
QUOTED = st.text(max_size=20).map(lambda text: "'" + text.replace("'", "''") + "'")
ORDER, EQUAL = st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from(["=", "!="])
COMPARISON = st.one_of(
    st.tuples(st.just("rows"), st.one_of(ORDER, EQUAL), st.integers(0).map(str)),
    st.tuples(COLUMN, st.one_of(ORDER, EQUAL), NUMBER),
    st.tuples(COLUMN, EQUAL, st.one_of(QUOTED, st.sampled_from(["true", "false"]))),
).map(" ".join)
WHOLE_CRITERIA = st.lists(COMPARISON, min_size=1, max_size=4).map(" and ".join)
LOOSE_CRITERIA = st.lists(
    st.one_of(
        st.sampled_from(
            ["rows", "x", "=", "<=", ">=", "<>", "and", "or", "'a'", "0", "1.5", "-1", "true", "null"]
        ),
        st.text(max_size=8),
    ),
    max_size=9,
).map(" ".join)
CRITERIA = st.one_of(WHOLE_CRITERIA, LOOSE_CRITERIA)

OPTIONS = st.sampled_from(
    ["", "-- level: warn\n", "-- from: b2\n", "-- dialect: postgresql\n", "-- a note\n"]
)
PROSE = st.text(st.characters(categories=["L", "N", "Zs"]), max_size=40).map("Text {}\n\n".format)
SQL = st.sampled_from(["SELECT {} AS x", "SELECT id FROM orders WHERE note = '%;--' AND id = {}"])


@st.composite
def whole_pages(draw: st.DrawFn) -> str:
    """A page as people write them: checks with their evidence, a view, a backfill, a sign-off, prose."""
    parts = ["---\nrunbook: orders\n", draw(st.sampled_from(["", "default: true\n"]))]
    parts += ["phases:\n  ready: {}\n---\n# Orders\n\n## Phase: ready\n\n"]
    for number in range(draw(st.integers(1, 4))):
        evident = draw(st.booleans())
        require = draw(st.sampled_from(["x <= 1.5 and y != 'a'", "gone = true"])) if evident else "rows = 0"
        head = f"-- check: c{number}\n-- require: {require}\n{draw(OPTIONS)}"
        parts += [draw(PROSE), f"```sql\n{head}{draw(SQL).format(number)};\n```\n\n"]
        if evident:
            parts.append(f"```sql\n-- explains: c{number}\n{draw(SQL).format(-1 - number)};\n```\n\n")
    others = [
        "```sql\n-- view: all\nSELECT 1 AS x;\n```\n\n",
        "```sql\n-- backfill: state\n-- table: orders\n-- key: id\n"
        "UPDATE orders SET a = 1 WHERE id BETWEEN :first AND :last AND a IS NULL;\n```\n\n",
        "- [ ] `backup` (24h, 2 people): It is there.\n\n",
    ]
    return "".join(parts + draw(st.lists(st.sampled_from(others), unique=True)))


@st.composite
def damaged_pages(draw: st.DrawFn) -> str:
    """The same with something taken out, and something else in its place."""
    page = draw(whole_pages())
    start = draw(st.integers(0, len(page)))
    end = min(len(page), start + draw(st.integers(0, 40)))
    return page[:start] + draw(st.one_of(SCRAPS, TEXT, st.just(""))) + page[end:]


LOOSE_PAGES = st.lists(st.one_of(SCRAPS, SCRAPS, SCRAPS, TEXT), max_size=40).map("".join)
PAGES = st.one_of(whole_pages(), whole_pages(), damaged_pages(), LOOSE_PAGES)


@dataclass
class Reader:
    """Read documents, and count what became of them."""

    read: Callable[[str], object]
    accepted: int = 0
    refused: int = 0
    complaints: list[Complaint] = field(default_factory=list)

    def try_all(self, documents: st.SearchStrategy[str], number: int) -> None:
        """Try so many; what is raised and is no error of ours is kept, with the document that shows it."""

        @seed(14)
        @settings(max_examples=number, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(documents)
        def each(text: str) -> None:
            try:
                self.read(text)
            except PipestateError:
                self.refused += 1
            else:
                self.accepted += 1

        try:
            each()
        except Exception as error:
            self.complaints.append(Complaint("tracebacks", f"{type(error).__name__}: {error}"))
        if min(self.accepted, self.refused) < number * FAIR_SHARE:
            reported = f"{self.accepted} were read, {self.refused} refused"
            self.complaints.append(Complaint("too few hits", reported))


def read_pages(number: int) -> Reader:
    """Read so many pages from a file, as every command does."""
    with TemporaryDirectory() as directory:
        page = Path(directory) / "orders.md"

        def read(text: str) -> None:
            page.write_bytes(text.encode("utf-8", "surrogatepass"))
            load(page)

        reader = Reader(read)
        reader.try_all(PAGES, number)
    return reader


def read_criteria(number: int) -> Reader:
    """Parse so many criteria."""
    reader = Reader(parse_requirement)
    reader.try_all(CRITERIA, number)
    return reader
