"""A Markdown file into a Runbook.

`parse` and `read` stop at the first fault, `collect` gathers them all; none of them looks into the SQL,
that is lint's work. What is going to be run comes from `lint.load`.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from pipestate.errors import ConfigError, RunbookError
from pipestate.runbook.block import read_block
from pipestate.runbook.directives import has_directives, mentions_directives
from pipestate.runbook.finding import Finding, Findings
from pipestate.runbook.frontmatter import FORM, Header, PhaseHeader, read_header
from pipestate.runbook.markdown import Block, Fence, FrontMatter, Heading, Task, Unread, blocks
from pipestate.runbook.model import Phase, Runbook
from pipestate.runbook.phases import Part, build_phase
from pipestate.runbook.sections import Section, report_mismatch, sections
from pipestate.runbook.signoff import is_signoff, read_signoff

# Fences that people write instead of `sql`; other languages are prose whatever they hold.
ALMOST_SQL = ("", "postgresql", "postgres", "pgsql", "plpgsql", "psql", "sqlite", "sqlite3")

MOVE_IT = "move it below a `## Phase:` heading"

_HIDDEN = re.compile(r"^\s*(?:<!--\s*)?(##\s+Phase:|[-*+]\s+\[[ xX]\]\s+`)", re.MULTILINE)


def read(path: str | Path) -> Runbook:
    """Parse a file. ConfigError where there is none, RunbookError where it is wrong."""
    return parse(read_text(path), path)


def parse(text: str, path: str | Path) -> Runbook:
    runbook, findings = collect(text, path)
    if findings or runbook is None:
        raise findings[0].error()
    return runbook


def read_text(path: str | Path) -> str:
    """The file's text exactly as it is, byte order mark and line ends included."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot read the runbook {path}: {reason}; give its name or its path") from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8 (byte 0x{content[error.start]:02x}): save the file as UTF-8"
        raise RunbookError(str(path), line, what) from error


def collect(text: str, path: str | Path) -> tuple[Runbook | None, list[Finding]]:
    """What could be read, and everything that is wrong with it, in the order of the lines."""
    found = Findings(str(path))
    source = re.sub(r"\r\n?", "\n", text.removeprefix("\ufeff"))
    if not _is_text(source, found):
        return None, found.in_order()
    parts = list(blocks(source))
    header = _header(parts, found)
    cut = sections(parts, found)
    report_mismatch(header, cut, found)
    runbook = Runbook(
        name=header.name,
        path=str(path),
        title=_title(parts) or header.name,
        default=header.default,
        sha256=sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        phases=tuple(_phases(header, cut, found)),
        text=source,
    )
    return runbook, found.in_order()


def _is_text(source: str, found: Findings) -> bool:
    if not source.strip():
        found.add(1, f"the file is empty: {FORM}")
    nul = source.find("\0")
    if nul >= 0:
        found.add(source.count("\n", 0, nul) + 1, "a NUL byte: save the file as plain UTF-8 text")
    return bool(source.strip()) and nul < 0


def _header(parts: list[Block], found: Findings) -> Header:
    if parts and isinstance(parts[0], FrontMatter):
        return read_header(parts[0], found)
    found.add(1, f"no front matter, or it is not closed: {FORM}")
    return Header()


def _title(parts: list[Block]) -> str:
    headings = (part.text for part in parts if isinstance(part, Heading) and part.depth == 1)
    return next(headings, "")


def _phases(header: Header, cut: list[Section], found: Findings) -> Iterator[Phase]:
    for section in cut:
        if section.name is None:
            _report_outside(section, found)
        else:
            about = header.phases.get(section.name, PhaseHeader(section.line))
            parts = [part for block in section.blocks if (part := _part(block, found)) is not None]
            yield build_phase(section, about, parts, found)


def _part(block: Block, found: Findings) -> Part | None:
    _report_hidden(block, found)
    if isinstance(block, Task):
        return read_signoff(block, found)
    if isinstance(block, Fence) and block.language == "sql":
        return read_block(block, found)
    return None


def _report_hidden(block: Block, found: Findings) -> None:
    """What a reader may take for a check but what would never run, or what nobody would see."""
    if isinstance(block, Unread) and (mentions_directives(block.content) or _HIDDEN.search(block.content)):
        found.add(
            block.line,
            "raw HTML or indented code holds what looks like a part of the runbook and is not read: "
            "take it out, or write it as a fence, a heading or a list with a blank line before it",
        )
    if isinstance(block, Fence) and block.language in ALMOST_SQL and has_directives(block.content):
        found.add(block.line, f"a check stands in a fence ```{block.language}: write ```sql, no other runs")
    if isinstance(block, Fence) and not block.closed:
        found.add(block.line, "this fence is never closed: end it with a line of the same marks")


def _report_outside(section: Section, found: Findings) -> None:
    for block in section.blocks:
        _report_hidden(block, found)
        is_part = isinstance(block, Fence) and block.language == "sql" and has_directives(block.content)
        if is_part or (isinstance(block, Task) and is_signoff(block)):
            found.add(block.line, f"outside of any phase this never runs: {MOVE_IT}")
