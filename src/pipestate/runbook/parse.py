"""A Markdown page into a Runbook, with the SQLite variants beside it.

`parse` and `read` stop at the first fault, `collect` gathers them all; none of them looks into the SQL,
that is lint's work. What is going to be run comes from `lint.load`.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from pipestate.runbook.again import read_again
from pipestate.runbook.block import BlockFile, read_block
from pipestate.runbook.files import beside, read_beside, read_text
from pipestate.runbook.finding import Finding, Findings
from pipestate.runbook.frontmatter import FORM, Header, PhaseHeader, read_header
from pipestate.runbook.markdown import AgainItem, Block, Fence, FrontMatter, Heading, Task, blocks
from pipestate.runbook.model import Phase, Runbook
from pipestate.runbook.phases import build_phase
from pipestate.runbook.sections import Section, report_mismatch, sections
from pipestate.runbook.signoff import read_signoff
from pipestate.runbook.unread import report_hidden, report_outside
from pipestate.runbook.variants import Part, Variants, read_variants, report_other_phases

_HEAD = re.compile(r"---.*?\n---[^\n]*", re.DOTALL)


def read(path: str | Path) -> Runbook:
    """Parse a page. ConfigError where there is none, RunbookError where it is wrong."""
    return parse(read_text(path), path, read_beside(path))


def parse(text: str, path: str | Path, variants: str | None = None) -> Runbook:
    runbook, findings = collect(text, path, variants)
    if findings or runbook is None:
        raise findings[0].error()
    return runbook


def collect(text: str, path: str | Path, variants: str | None = None) -> tuple[Runbook | None, list[Finding]]:
    """Read what can be read, and find everything that is wrong with it, in the order of the lines.

    `variants` is the text of the file beside the page, where there is one.
    """
    found = Findings(str(path))
    source = _normalised(text)
    if not _is_text(source, found, f"the file is empty: {FORM}"):
        return None, found.in_order()
    parts = list(blocks(source))
    header = _header(parts, found)
    cut = sections(parts, found)
    report_mismatch(header, cut, found)
    both = (text + (variants or "")).encode("utf-8", "surrogatepass")
    runbook = Runbook(
        name=header.name,
        path=str(path),
        title=_title(parts) or header.name,
        default=header.default,
        sha256=sha256(both).hexdigest(),
        phases=tuple(_phases(header, cut, _variants(variants, path, cut, found), found)),
        text=source,
        variants=None if variants is None else beside(path),
    )
    return runbook, found.in_order()


def may_be_default(path: str | Path) -> bool:
    """Read the front matter alone; False only where it is in order and the page does not run by default."""
    found = Findings(str(path))
    head = _HEAD.match(_normalised(read_text(path)))
    header = _header(list(blocks(head.group() if head else "")), found)
    return header.default or bool(found.in_order())


def _normalised(text: str) -> str:
    return re.sub(r"\r\n?", "\n", text.removeprefix("\ufeff"))


def _is_text(source: str, found: Findings, empty: str) -> bool:
    if not source.strip():
        found.add(1, empty)
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


def _variants(text: str | None, path: str | Path, cut: list[Section], found: Findings) -> Variants:
    if text is None:
        return Variants()
    file = BlockFile(beside(path), page=str(path))
    theirs, source = found.beside(file.path), _normalised(text)
    if not _is_text(source, theirs, f"the file is empty: write the variants of {path} here, or take it away"):
        return Variants()
    read = read_variants(source, file, theirs)
    names = [section.name for section in cut if section.name is not None]
    report_other_phases(read, list(dict.fromkeys(names)), str(path), theirs)
    return read


def _phases(header: Header, cut: list[Section], variants: Variants, found: Findings) -> Iterator[Phase]:
    earlier: list[Phase] = []
    for section in cut:
        if section.name is None:
            report_outside(section, found)
            continue
        about = header.phases.get(section.name, PhaseHeader(section.line))
        parts = [part for block in section.blocks if (part := _part(block, found)) is not None]
        beside_it = variants.blocks.get(section.name, [])
        earlier.append(build_phase(section, about, parts, beside_it, tuple(earlier), found))
        yield earlier[-1]


def _part(block: Block, found: Findings) -> Part | None:
    report_hidden(block, found)
    if isinstance(block, Task):
        return read_signoff(block, found)
    if isinstance(block, AgainItem):
        return read_again(block, found)
    if isinstance(block, Fence) and block.language == "sql":
        return read_block(block, BlockFile(found.path), found)
    return None
