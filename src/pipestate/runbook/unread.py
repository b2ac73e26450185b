"""Report ignored lines that look like parts of the runbook, and parts outside any phase."""

import re
from collections.abc import Iterator

from pipestate.runbook.block import AGAIN_FORM, SIGNOFF_FORM, is_again, is_signoff
from pipestate.runbook.directives import almost_directive, has_directives, is_directive, mentions_directives
from pipestate.runbook.frontmatter import Section
from pipestate.runbook.markdown import AgainItem, Block, Fence, Prose, Task, Unread
from pipestate.runbook.model import Findings

MOVE_IT = "move it below a `## Phase:` heading"

_HEADING = re.compile(r"[ \t]*(?:<!--)?[ \t]*##[ \t]+Phase:")
_TAGS = re.compile(r"<[^<>]*>")
# A check box in any form, or the `id` (24h) after one; an `again` with an address.
_BOXED = re.compile(
    r"[^\w\[\\(`☐☑✅［]*(?:\\?[\[［]\s*\\?[\]］]|[☐☑✅]|(?:\[\W?[xX✓✔-]\W?\]|\(\s?[xX]?\s?\))[\s*_]*`)"
)
_SIGNED = re.compile(r"[^\w`]*(?:[xX][^\w`]+)?`[^`]*`\s*\(\s*[0-9]+\s*[mhd]\s*[,)]")
_AGAIN = re.compile(r"\W*again\b\W*`[^`/]+/[^`/]+`", re.IGNORECASE)
_INPUT = re.compile(r"<input\b[^<>]*checkbox", re.IGNORECASE)
_KIND = re.compile(r"\b(?:check|require|explains|view|backfill)\b", re.IGNORECASE)
_BEHIND = re.compile(r";[ \t]*(--.*)")
_DASHES = re.compile(r"[ \t]*(?:<!)?--+|[ \t]*[\u2010-\u2015\u2212]")


def report_hidden(block: Block, found: Findings) -> None:
    """Report text that a reader would mistake for a part of the runbook."""
    if isinstance(block, Fence):
        if block.language == "sql":
            for number, fault in _almost_in(block.content):
                found.add(block.line + 1 + number, fault)
        elif has_directives(block.content):
            found.add(
                block.line,
                f"a check is in a fence ```{block.language}: write ```sql, because other fences do not run",
            )
        if not block.closed:
            found.add(block.line, "this fence is never closed: end it with a line of the same marks")
    elif isinstance(block, Prose):
        for number, line in enumerate(block.text.split("\n")):
            if what := _unread(line):
                found.add(block.line + number, what)
    elif isinstance(block, Unread):
        lines = block.content.split("\n")
        if mentions_directives(block.content) or any(_HEADING.match(line) or _unread(line) for line in lines):
            found.add(
                block.line,
                "raw HTML or indented code holds what looks like a part of the runbook and is not read: "
                "take it out, or write it as a fence, a heading or a list with a blank line before it",
            )


def _almost_in(content: str) -> Iterator[tuple[int, str]]:
    """Find the lines of a block that are almost directives, including lines in comments."""
    in_comment, is_read = False, has_directives(content)
    for number, line in enumerate(content.split("\n")):
        if is_read and is_directive(line):
            continue  # `read_directives` reports unknown directives
        if what := almost_directive(line, in_comment=in_comment):
            yield number, what
        elif (behind := _BEHIND.search(line)) and mentions_directives(behind[1]):
            yield number, f"`{behind[1]}` is after SQL: move directives to the top of the block"
        in_comment = "*/" not in line and (in_comment or "/*" in line)


def _unread(line: str) -> str | None:
    """Explain why a line outside fences is ignored although it resembles a part."""
    text = _TAGS.sub(" ", line.replace("<!--", "").replace("-->", ""))
    if _AGAIN.match(text):
        return f"`again:` is not read here: write `{AGAIN_FORM}`"
    if _BOXED.match(text) or _SIGNED.match(text) or _INPUT.search(line):
        return f"this looks like a sign-off and is none: write `{SIGNOFF_FORM}`"
    if (
        _DASHES.match(line)
        and _KIND.search(line)
        and (mentions_directives(f"-- {text.strip(' -')}") or almost_directive(line))
    ):
        return "a directive is read only at the top of a fence: write it below ```sql"
    return None


def report_outside(section: Section, found: Findings) -> None:
    """Report the parts outside any phase."""
    for block in section.blocks:
        report_hidden(block, found)
        if (
            (isinstance(block, Fence) and block.language == "sql" and has_directives(block.content))
            or (isinstance(block, Task) and is_signoff(block))
            or (isinstance(block, AgainItem) and is_again(block))
        ):
            found.add(block.line, f"outside of any phase this never runs: {MOVE_IT}")
