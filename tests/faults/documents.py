"""Documents of all kinds through the parser of runbooks and the grammar of `require`: a value or a clear error."""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipestate.errors import PipestateError
from pipestate.runbook.lint import load
from pipestate.runbook.require import RequirementError, parse_requirement

WORDS = st.sampled_from(
    [
        *("---\n", "runbook: orders\n", "default: true\n", "phases:\n", "  ready:\n", "    opens: [c3]\n"),
        *("## Phase: ready\n", "## Phase: \n", "# Orders\n", "```sql\n", "```\n", "````\n", "~~~sql\n"),
        *(
            "-- check: quiet\n",
            "-- require: rows = 0\n",
            "-- level: warn\n",
            "-- from: b2\n",
            "-- view: all\n",
        ),
        *("-- explains: quiet\n", "-- window: 24 hours\n", "-- dialect: sqlite\n", "-- backfill: state\n"),
        *(
            "-- table: orders\n",
            "-- key: id\n",
            "SELECT id FROM orders WHERE at > now() - interval '24 hours';\n",
        ),
        *("UPDATE orders SET a = 1 WHERE id BETWEEN :first AND :last;\n", "SELECT 1; DROP TABLE orders;\n"),
        *("- [ ] `backup` (24h, 2 people): It is there.\n", "- again: `ready/quiet`, requires `rows < 5`\n"),
        *(
            "- again: `ready/quiet`, over `48 hours`\n",
            "$$ ' \" /* -- */ E'\\\\'\n",
            "| a | b |\n",
            "\t\n",
            "\n",
        ),
    ]
)
TEXT = st.text(max_size=40)
DOCUMENTS = st.lists(st.one_of(WORDS, WORDS, WORDS, TEXT), max_size=40).map("".join)
CRITERIA = st.lists(
    st.one_of(
        st.sampled_from(
            ["rows", "x", "=", "<=", ">=", "<>", "and", "or", "'a'", "0", "1.5", "-1", "true", "null"]
        ),
        st.text(max_size=8),
    ),
    max_size=9,
).map(" ".join)


def read_documents(number: int) -> list[str]:
    """Read so many pages and criteria; return what was raised that is no error of ours."""
    raised: list[str] = []
    keep = settings(
        max_examples=number, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    with TemporaryDirectory() as directory:
        page = Path(directory) / "orders.md"

        @keep
        @given(DOCUMENTS)
        def pages(text: str) -> None:
            page.write_bytes(text.encode("utf-8", "surrogatepass"))
            with suppress(PipestateError):
                load(page)

        @keep
        @given(CRITERIA)
        def criteria(text: str) -> None:
            with suppress(RequirementError):
                parse_requirement(text)

        for each in (pages, criteria):
            try:
                each()
            except Exception as error:  # what hypothesis found, with the document that shows it
                raised.append(f"{type(error).__name__}: {error}")
    return raised
