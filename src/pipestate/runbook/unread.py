"""What a reader may take for a part of the runbook but what would never run, or what nobody would see."""

import re

from pipestate.runbook.again import is_again
from pipestate.runbook.directives import KNOWN, has_directives, mentions_directives
from pipestate.runbook.finding import Findings
from pipestate.runbook.markdown import AgainItem, Block, Fence, Task, Unread
from pipestate.runbook.sections import Section
from pipestate.runbook.signoff import is_signoff

# Fences that people write instead of `sql`, besides whatever else has those letters in its name (`sql+jinja`, `mysql`);
# other languages are prose whatever they hold.
ALMOST_SQL = ("", "postgres", "sqlite", "sqlite3")

MOVE_IT = "move it below a `## Phase:` heading"

_HIDDEN = re.compile(r"^\s*(?:<!--\s*)?(##\s+Phase:|[-*+]\s+\[[ xX]\]\s+`|[-*+]\s+again:)", re.MULTILINE)

# What editors make of `--`, and other languages' comments, before a directive.
_DASHED = re.compile(rf"^\s*([–—―−#]+|//)\s*(?:{'|'.join(KNOWN)})\s*:", re.MULTILINE)


def report_hidden(block: Block, found: Findings) -> None:
    if isinstance(block, Unread) and (mentions_directives(block.content) or _HIDDEN.search(block.content)):
        found.add(
            block.line,
            "raw HTML or indented code holds what looks like a part of the runbook and is not read: "
            "take it out, or write it as a fence, a heading or a list with a blank line before it",
        )
    if isinstance(block, Fence) and _is_almost_sql(block.language) and has_directives(block.content):
        found.add(block.line, f"a check stands in a fence ```{block.language}: write ```sql, no other runs")
    if isinstance(block, Fence) and block.language == "sql" and (found_line := _DASHED.search(block.content)):
        found.add(
            block.line + 1 + block.content.count("\n", 0, found_line.start(1)),
            f"`{found_line[1]}` is no comment of SQL, so this line is not read: write `--`",
        )
    if isinstance(block, Fence) and not block.closed:
        found.add(block.line, "this fence is never closed: end it with a line of the same marks")


def _is_almost_sql(language: str) -> bool:
    return language in ALMOST_SQL or (language != "sql" and "sql" in language)


def report_outside(section: Section, found: Findings) -> None:
    for block in section.blocks:
        report_hidden(block, found)
        if _is_part(block):
            found.add(block.line, f"outside of any phase this never runs: {MOVE_IT}")


def _is_part(block: Block) -> bool:
    if isinstance(block, Fence):
        return block.language == "sql" and has_directives(block.content)
    if isinstance(block, Task):
        return is_signoff(block)
    return isinstance(block, AgainItem) and is_again(block)
