import hashlib
import pickle
import time
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError, PipestateError, RunbookError
from pipestate.runbook.criterion import Comparison, Requirement
from pipestate.runbook.lint import load
from pipestate.runbook.model import Advice, Check, Evidence, Phase, SignOff
from pipestate.runbook.parse import collect
from support.parsed import parse

Lint = Callable[[str], list[tuple[int, str]]]

SAMPLE = """\
---
runbook: sample
default: true
phases:
  preflight: {from: "0002", until: "0003"}
  readiness:
    from: "0005"
    opens: ["0006", "0007"]
---
# One row a site

Why it is done, and who does it.

## Phase: preflight

- [ ] `backup-taken` (24h): a dump was taken,
  and restored

## Phase: readiness

Less than one site in a hundred may stand still.

```sql
-- check: stuck-sites
-- require: stuck_pct < 1.0
SELECT 0.5 AS stuck_pct;
```

```sql
-- explains: stuck-sites
SELECT subdomain FROM sites LIMIT 10;
```

Look around, if you like:

```sql
SELECT * FROM sites; -- prose
```

## Rollback

```bash
alembic downgrade -1
```
"""


def test_a_runbook_becomes_frozen_values() -> None:
    runbook = parse(SAMPLE, Path("runbooks/sample.md"))

    assert (runbook.name, runbook.path, runbook.title) == ("sample", "runbooks/sample.md", "One row a site")
    assert runbook.default
    assert runbook.text == SAMPLE
    assert runbook.phases == (
        Phase(
            name="preflight",
            line=14,
            from_="0002",
            until="0003",
            opens=(),
            checks=(SignOff("backup-taken", 16, timedelta(days=1), "a dump was taken, and restored"),),
            views=(),
        ),
        Phase(
            name="readiness",
            line=19,
            from_="0005",
            until=None,
            opens=("0006", "0007"),
            checks=(
                Check(
                    id="stuck-sites",
                    line=23,
                    sql="SELECT 0.5 AS stuck_pct",
                    require=Requirement("stuck_pct < 1.0", (Comparison("stuck_pct", "<", Decimal("1.0")),)),
                    evidence=(
                        Evidence(
                            ("stuck-sites",),
                            29,
                            "SELECT subdomain FROM sites LIMIT 10",
                            block="runbooks/sample.md:29",
                        ),
                    ),
                    block="runbooks/sample.md:23",
                    advice=Advice("Look around, if you like:", "runbooks/sample.md:34"),
                ),
            ),
            views=(),
        ),
    )
    assert runbook.phase("preflight") is runbook.phases[0]
    assert runbook.phase("cleanup") is None


def test_a_runbook_without_a_title_is_called_by_its_name() -> None:
    assert parse(SAMPLE.replace("# One row a site", ""), "sample.md").title == "sample"


@pytest.mark.parametrize("before", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_byte_order_mark_and_any_line_end_are_tolerated(before: str, newline: str, tmp_path: Path) -> None:
    content = (before + SAMPLE.replace("\n", newline)).encode()
    path = tmp_path / "sample.md"
    path.write_bytes(content)
    runbook = load(path)

    assert runbook.phases == parse(SAMPLE, path).phases
    assert runbook.text == SAMPLE
    assert runbook.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (
            SAMPLE.encode().replace(b"One row", b"Une rang\xe9e"),
            10,
            "not UTF-8 (byte 0xe9): save the file as UTF-8",
        ),
        (SAMPLE.encode("utf-16"), 1, "not UTF-8 (byte 0xff): save the file as UTF-8"),
        (SAMPLE.encode("utf-16-le"), 1, "a NUL byte: save the file as plain UTF-8 text"),
        (
            SAMPLE.encode().replace(b"One row", b"One\0row"),
            10,
            "a NUL byte: save the file as plain UTF-8 text",
        ),
        (b"", 1, "the file is empty: begin the file with `---`, `runbook: its-name`"),
        (b"\xef\xbb\xbf \n\n", 1, "the file is empty"),
    ],
)
def test_a_file_that_is_not_text_is_reported_with_its_line(
    content: bytes, line: int, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "sample.md"
    path.write_bytes(content)
    with pytest.raises(RunbookError) as caught:
        load(path)

    assert str(caught.value).startswith(f"{path}:{line}: {what}")


@pytest.mark.parametrize(
    ("name", "reason"), [("none.md", "no such file or directory"), (".", "is a directory")]
)
def test_a_file_that_cannot_be_read_is_a_matter_of_configuration(
    name: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=f"cannot read the runbook .*: {reason}; give its name or its path"):
        load(tmp_path / name)


def test_parse_stops_at_the_first_fault_and_collect_tells_them_all() -> None:
    text = (
        SAMPLE.replace("stuck_pct < 1.0", "stuck_pct").replace("(24h)", "(soon)").replace("true", "perhaps")
    )
    runbook, findings = collect(text, "sample.md")

    assert runbook is not None
    assert [finding.line for finding in findings] == [3, 16, 23]
    with pytest.raises(RunbookError) as caught:
        parse(text, "sample.md")
    assert str(caught.value) == str(findings[0]) == "sample.md:3: `default:` must be true or false"


def test_the_error_carries_where_and_what() -> None:
    error = pickle.loads(pickle.dumps(RunbookError("sample.md", 3, "is wrong")))

    assert (error.path, error.line, error.what, str(error)) == (
        "sample.md",
        3,
        "is wrong",
        "sample.md:3: is wrong",
    )
    assert isinstance(error, PipestateError)
    assert error.exit_code == 2


@pytest.mark.parametrize("fence", ["```sql", "```SQL", '```sql title="x"', "~~~sql", "`````sql"])
def test_any_sql_fence_will_do(fence: str, phase_of: Callable[[str], Phase]) -> None:
    mark = fence.rstrip('SQLsqltie ="x')
    phase = phase_of(f"{fence}\n-- check: a\n-- require: rows = 0\nSELECT 1;\n{mark}\n")

    assert [(check.id, check.line) for check in phase.checks] == [("a", 9)]


def test_a_check_in_a_list_item_keeps_its_line_and_loses_its_indentation(
    phase_of: Callable[[str], Phase],
) -> None:
    phase = phase_of("1. look:\n\n   ```sql\n   -- check: a\n   -- require: rows = 0\n   SELECT 1;\n   ```\n")
    [check] = phase.checks

    assert isinstance(check, Check)
    assert (check.line, check.sql) == (11, "SELECT 1")


@pytest.mark.parametrize(
    "body",
    [
        "````markdown\n```sql\n-- check: a\n```\n````\n",
        "```text\n# check: a\nSELECT 1\n```\n",
        "```sql\n-- check that nobody writes, then go on\n-- view from above\nSELECT 1;\n```\n",
        "Wait for `quiet` (7 days on record), and\n`soak` (a week).\n",
        "- check: the log\n- `done` (see above): then go on\n",
        "Tick the checkbox in the console.\n\n— from: the book of rules\n",
        "```bash\npsql -c 'SELECT 1'\n```\n",
        "```\nSELECT 1\n```\n",
        "```sql\nDROP TABLE a; DROP TABLE b;\n```\n",
        "    SELECT 1\n",
        "<details><summary>more</summary>\n\ntext\n\n</details>\n",
        "<!-- a comment -->\n",
        "Less than `-- check: a`.\n",
    ],
)
def test_the_rest_is_prose(body: str, findings_in: Lint) -> None:
    assert findings_in(body) == []


HIDDEN = "raw HTML or indented code holds what looks like a part of the runbook and is not read"


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("<!--\n\n```sql\n-- check: a\nSELECT 1\n```\n-->\n", 1, HIDDEN),
        ("Text.\n\n<div>\n```sql\n-- check: a\n```\n</div>\n", 3, HIDDEN),
        ("<!-- - [ ] `backup-taken` (24h): word -->\n", 1, HIDDEN),
        ("<!--\n## Phase: next\n-->\n", 1, HIDDEN),
        ("<!--\n- again: `one/a`\n-->\n", 1, HIDDEN),
        ("Text.\n\n    -- check: a\n    SELECT 1\n", 3, HIDDEN),
        (
            "```\n-- check: a\nSELECT 1\n```\n",
            1,
            "a check is in a fence ```: write ```sql, because other",
        ),
        (
            "```sql\n\n— view: a\nSELECT 1\n```\n",
            3,
            "`— view: a` is not read: write `-- view: a`",
        ),
        (
            "```sql+jinja\n-- view: a\nSELECT 1\n```\n",
            1,
            "a check is in a fence ```sql+jinja: write ```sql",
        ),
        ("```psql\n-- view: a\nSELECT 1\n```\n", 1, "a check is in a fence ```psql: write ```sql"),
        ("~~~bash\nls\n", 1, "this fence is never closed: end it with a line of the same marks"),
    ],
)
def test_what_only_looks_like_a_part_of_the_runbook_is_reported(
    body: str, line: int, message: str, findings_in: Lint
) -> None:
    reported = findings_in(body)

    assert [found for found in reported if found[0] == line and found[1].startswith(message)], reported


def test_a_comment_that_swallows_the_rest_does_not_make_a_pass(findings_in: Lint) -> None:
    reported = findings_in("<!-- never closed\n")

    assert reported[-1][1].startswith(HIDDEN)
    assert "checks nothing" in reported[0][1]


@pytest.mark.parametrize(
    "part",
    [
        "```sql\n-- check: a\n-- require: rows = 0\nSELECT 1;\n```\n",
        "- [ ] `b` (1h): word\n",
        "- again: `preflight/a`, over `2 days`\n",
    ],
)
def test_a_part_outside_of_any_phase_is_reported(part: str, findings_of: Lint) -> None:
    reported = findings_of(SAMPLE.replace("Why it is done", f"{part}\nWhy it is done"))

    assert reported == [(12, "outside of any phase this never runs: move it below a `## Phase:` heading")]


def test_other_boxes_outside_of_any_phase_are_prose(findings_of: Lint) -> None:
    assert (
        findings_of(SAMPLE.replace("Why it is done", "- [ ] read this\n- [x] done\n\nWhy it is done")) == []
    )


def test_ten_thousand_blocks_are_read() -> None:
    block = "```sql\n-- check: c{0}\n-- require: rows = 0\nSELECT {0};\n```\n\n"
    text = "---\nrunbook: sample\nphases: {a: }\n---\n## Phase: a\n\n" + "".join(
        block.format(n) for n in range(10_000)
    )
    [phase] = parse(text, "sample.md").phases

    assert len(phase.checks) == 10_000
    assert phase.checks[-1].line == 7 + 6 * 9_999


SIGNED = "`backup-taken` (24h): A backup lies elsewhere."
CHECKED = "-- check: late\n-- require: rows = 0\nSELECT 1;\n"
NO_SIGN_OFF = "this looks like a sign-off and is none: write `- [ ] `restore-tested` (24h)"
NO_COMMENT = "is not read: write `-- check: late`"
TOP = "a directive is read only at the top of a fence: write it below ```sql"
UNREAD = {
    "no space": (f"-[ ] {SIGNED}", NO_SIGN_OFF),
    "a dash": (f"– [ ] {SIGNED}", NO_SIGN_OFF),
    "a bullet": (f"• [ ] {SIGNED}", NO_SIGN_OFF),
    "escaped": (f"- \\[ \\] {SIGNED}", NO_SIGN_OFF),
    "bold": (f"- **[ ]** {SIGNED}", NO_SIGN_OFF),
    "no space behind": (f"- [ ]{SIGNED}", NO_SIGN_OFF),
    "a minus in the box": (f"- [-] {SIGNED}", NO_SIGN_OFF),
    "a tick in the box": (f"- [✓] {SIGNED}", NO_SIGN_OFF),
    "a box of unicode": (f"- ☐ {SIGNED}", NO_SIGN_OFF),
    "round brackets": (f"- ( ) {SIGNED}", NO_SIGN_OFF),
    "full width": (f"- ［ ］ {SIGNED}", NO_SIGN_OFF),
    "a paragraph": (f"[ ] {SIGNED}", NO_SIGN_OFF),
    "within a paragraph": (f"Text.\n[ ] {SIGNED}", NO_SIGN_OFF),
    "a table": (f"| a | b |\n|---|---|\n| [ ] | {SIGNED} |", NO_SIGN_OFF),
    "a quote": (f"> [ ] {SIGNED}", NO_SIGN_OFF),
    "no box": (f"- {SIGNED}", NO_SIGN_OFF),
    "html": (f"<ul><li>[ ] {SIGNED}</li></ul>", HIDDEN),
    "an input": (f'<input type="checkbox"> {SIGNED}', NO_SIGN_OFF),
    "fence text": (
        f"```text\n{CHECKED}```",
        "a check is in a fence ```text: write ```sql, because other",
    ),
    "fence bash": (
        f"```bash\n{CHECKED}```",
        "a check is in a fence ```bash: write ```sql, because other",
    ),
    "two marks": (f"``sql\n{CHECKED}``", TOP),
    "no fence": (CHECKED, TOP),
    "hyphens": (f"```sql\n{CHECKED.replace('--', '‑‑')}```", NO_COMMENT),
    "minus signs": (f"```sql\n{CHECKED.replace('--', '−')}```", NO_COMMENT),
    "one dash": (f"```sql\n{CHECKED.replace('--', '-')}```", NO_COMMENT),
    "a comment of C": ("```sql\n/* check: late */\nSELECT 1;\n```", "is not read: write `-- check: late`"),
    "lines in a comment": (
        "```sql\n/*\ncheck: late\n*/\nSELECT 1;\n```",
        "is not read: write `-- check: late`",
    ),
    "no colon": (
        f"```sql\n{CHECKED.replace(':', '')}```",
        "`-- check late` is not read: write `-- check: late`",
    ),
    "equals": (f"```sql\n{CHECKED.replace(':', ' =')}```", "`-- check = late` is not read"),
    "a wide colon": (f"```sql\n{CHECKED.replace(':', '：')}```", "`-- check： late` is not read"),
    "a mark before": (f"```sql\n{CHECKED.replace('check', '@check')}```", "`-- @check: late` is not read"),
    "misspelt": ("```sql\n-- chekc: late\nSELECT 1;\n```", "is not read: write `-- check: late`"),
    "behind SQL": ("```sql\nSELECT 1; -- check: late\n```", "`-- check: late` is after SQL"),
    "html comment": ("<!-- check: late -->", HIDDEN),
    "html in capitals": (f"<details>\n```sql\n{CHECKED.upper()}```\n</details>", HIDDEN),
    "again without a space": (
        "-again: `one/late`",
        "`again:` is not read here: write `- again: `phase/check`",
    ),
    "again with a dash": ("– again: `one/late`", "`again:` is not read here: write `- again: `phase/check`"),
}


@pytest.mark.parametrize(("body", "message"), UNREAD.values(), ids=UNREAD)
def test_lint_says_what_it_did_not_read(body: str, message: str, findings_in: Lint) -> None:
    found = findings_in(f"{body}\n")
    assert any(message in each for _, each in found), found


@pytest.mark.parametrize(
    "body",
    [
        "```sql\n{}SELECT 1;\n```\n",
        "```sql\n-- check: a\n-- require: rows = 0\nSELECT 1;\n{}```\n",
        "<!--\n{}-->\n",
        "    a\n{}    b\n",
        "{}",
    ],
)
@pytest.mark.parametrize("blank", ["\n", " ", "   \n"])
def test_a_page_of_blank_lines_is_read_at_once(body: str, blank: str, findings_in: Lint) -> None:
    """Ran for minutes where a pattern of many lines began with any space."""
    began = time.process_time()
    findings_in(body.format(blank * 40_000))
    assert time.process_time() - began < 5


def advice_on(*below: str) -> str | None:
    """Return the advice of a check that is followed by these blocks."""
    head = "---\nrunbook: b\nphases:\n  one: {from: base}\n---\n## Phase: one\n\n"
    block = "```sql\n-- check: a\n-- require: rows = 0\nSELECT 1 WHERE false;\n```"
    (phase,) = parse(head + "\n\n".join((block, *below)) + "\n", "b.md").phases
    (check, *_) = phase.checks
    assert isinstance(check, Check)
    return f"{check.advice.source} {check.advice.text}" if check.advice else None


EVIDENCE = "```sql\n-- explains: a\nSELECT 2;\n```"
SECOND = "```sql\n-- check: b\n-- require: rows = 0\nSELECT 3 WHERE false;\n```"


@pytest.mark.parametrize(
    ("below", "advice"),
    [
        (("Restart it,\nthen wait.", "More."), "b.md:14 Restart it, then wait."),
        (("### The next one", "Its reason."), None),
        (("**The next one holds.**", SECOND), None),
        ((SECOND, "Of the second."), None),
        (("- [ ] `told` (24h): somebody was told", "Below."), None),
        ((), None),
    ],
    ids=["paragraph", "heading", "bold", "next check", "sign-off", "nothing"],
)
def test_the_paragraph_under_a_check_is_its_advice(below: tuple[str, ...], advice: str | None) -> None:
    assert advice_on(*below) == advice


def test_advice_stands_behind_the_evidence_and_comes_along_with_again_and_variants() -> None:
    page = SAMPLE.replace("- [ ] `backup", f"{SECOND}\n\nAsk the owner.\n\n- [ ] `backup").replace(
        "Less than one", "- again: `preflight/b`\n\nLess than one"
    )
    variants = "## Phase: preflight\n\n```sql\n-- check: b\nSELECT 4 WHERE false;\n```\n"
    runbook = parse(page, "sample.md", variants)
    advice = [check.advice for phase in runbook.phases for check in phase.checks if isinstance(check, Check)]
    owner = Advice("Ask the owner.", "sample.md:22")
    assert advice == [owner, owner, owner, owner, Advice("Look around, if you like:", "sample.md:44")]
