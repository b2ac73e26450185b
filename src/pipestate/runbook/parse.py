"""Parse a runbook: build phases from sections, with unique ids, attached evidence and non-empty gates."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from pipestate.core.errors import PipestateError
from pipestate.runbook.block import read_again, read_block, read_signoff, resolve_again
from pipestate.runbook.files import beside, mentions, read_text
from pipestate.runbook.frontmatter import (
    FORM,
    Header,
    PhaseHeader,
    Section,
    read_header,
    report_mismatch,
    sections,
)
from pipestate.runbook.markdown import AgainItem, Block, Fence, FrontMatter, Heading, Prose, Task, blocks
from pipestate.runbook.model import (
    Advice,
    Again,
    Backfill,
    Check,
    Evidence,
    Finding,
    Findings,
    Level,
    Part,
    Phase,
    Runbook,
    SignOff,
    SqlBlock,
    View,
    ids_of,
    is_variant,
)
from pipestate.runbook.soak import SoakRule, soak_check
from pipestate.runbook.unread import report_hidden, report_outside
from pipestate.runbook.variants import join


def build_phase(
    section: Section,
    header: PhaseHeader,
    parts: list[Part],
    variants: list[SqlBlock],
    earlier: Sequence[Phase],
    found: Findings,
) -> Phase:
    """Build the phase, and report conflicts between its parts to `found`."""
    _report_duplicates(parts, found)
    joined = join(parts, variants, found)
    _report_strays(joined, found)
    evidence = [part for part in joined if isinstance(part, Evidence)]
    checks: list[Check | SignOff] = []
    for part in joined:
        if isinstance(part, SignOff):
            checks.append(part)
        elif isinstance(part, Check):
            own = [each for each in evidence if part.id in each.check_ids and _share_an_engine(part, each)]
            checks.append(replace(part, evidence=tuple(own) or part.evidence))
        elif isinstance(part, Again):
            checks += resolve_again(part, earlier, found)
    name = section.name or ""
    phase = Phase(
        name=name,
        line=section.line,
        from_=header.from_,
        until=header.until,
        opens=header.opens,
        checks=tuple(checks),
        views=tuple(part for part in joined if isinstance(part, View)),
        backfills=tuple(part for part in joined if isinstance(part, Backfill)),
    )
    if not any(isinstance(part, Check | SignOff | Again) for part in parts):
        what = "checks nothing: give it a check or a sign-off, or make it a heading without `Phase:`"
        found.add(phase.line, f"phase {name} {what}")
    elif phase.checks and phase.opens and not is_blocking(phase):
        found.add(phase.line, f"phase {name} {unblocking(phase.opens)}")
    return phase


def _report_duplicates(parts: list[Part], found: Findings) -> None:
    first: dict[tuple[bool, str], int] = {}
    for part in parts:
        for name in ids_of(part):
            line = first.setdefault((isinstance(part, Evidence), name), part.line)
            if line != part.line:
                what = "evidence for" if isinstance(part, Evidence) else "id"
                found.add(
                    part.line, f"{what} {name} appears twice in one phase, first on line {line}: keep one"
                )


def _report_strays(parts: list[Part], found: Findings) -> None:
    """Report evidence without a check that needs it, and evidence for SQLite that appears twice."""
    checks = [part for part in parts if isinstance(part, Check)]
    seen: set[tuple[str, str | None]] = set()
    for part in (part for part in parts if isinstance(part, Evidence)):
        for name in part.check_ids:
            named = [check for check in checks if check.id == name]
            same = [check for check in named if _share_an_engine(check, part)]
            if not named:
                known = ", ".join(dict.fromkeys(check.id for check in checks)) or "none"
                found.at(part.block, f"explains {name}, which is no check of this phase; there are {known}")
            elif not same:
                where = f"{part.dialect}, where that check does not run"
                found.at(part.block, f"explains {name} on {where}: take the block out")
            elif all(check.require.shows_own_rows for check in same):
                found.at(
                    part.block,
                    f"explains {name}, but a check that requires `{same[0].require.text}` shows its own rows: take "
                    "this block out, and select all useful columns in the check",
                )
            if is_variant(part) and (name, part.dialect) in seen:
                found.at(part.block, f"evidence for {name} appears twice in one phase: keep one of them")
            seen.add((name, part.dialect))


def _share_an_engine(check: Check, evidence: Evidence) -> bool:
    return check.dialect is None or evidence.dialect in (None, check.dialect)


def is_blocking(phase: Phase) -> bool:
    """Tell whether a check of the phase can close its gate."""
    return any(check.level is Level.BLOCK for check in phase.checks)


def unblocking(revisions: Iterable[str]) -> str:
    return f"opens {', '.join(revisions)} but has no blocking check: its gate could never open"


# Parse Markdown and its SQLite variants into a Runbook.
#
# `collect` gathers all faults. Lint examines the SQL. Commands load a runbook with `lint.load`.


_HEAD = re.compile(r"---.*?\n---[^\n]*", re.DOTALL)


def collect(text: str, path: str | Path, variants: str | None = None) -> tuple[Runbook | None, list[Finding]]:
    """Parse as much as possible, and list all faults in line order.

    `variants` is the text of the variants file, if there is one.
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
        title=next(
            (part.text for part in parts if isinstance(part, Heading) and part.depth == 1), header.name
        ),
        default=header.default,
        sha256=sha256(both).hexdigest(),
        phases=tuple(_phases(header, cut, _variants(variants, str(path), cut, found), found)),
        text=source,
        variants=None if variants is None else beside(path),
    )
    return runbook, found.in_order()


def may_be_default(path: str | Path) -> bool:
    """Read the front matter only; return False if it is valid and does not set `default`."""
    header = _valid_header(path)
    return header is None or header.default


def may_open(path: Path, revision: str, gates: Iterable[str]) -> bool:
    """Tell whether a faulty runbook may open a revision that checks these gates.

    Its name and its front matter tell; with a faulty front matter, any mention counts.
    """
    bare = {gate for gate in gates if "/" not in gate}
    if path.stem in {gate.partition("/")[0] for gate in gates} - bare:
        return True
    try:
        header = _valid_header(path)
    except PipestateError:
        header = None
    if header is None:
        return any(mentions(path, word) for word in (revision, *bare))
    return any(name in bare or revision in phase.opens for name, phase in header.phases.items())


def _valid_header(path: str | Path) -> Header | None:
    """Read the front matter only; return None if it is faulty."""
    found = Findings(str(path))
    head = _HEAD.match(_normalised(read_text(path)))
    header = _header(list(blocks(head.group() if head else "")), found)
    return None if found.in_order() else header


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


def _variants(text: str | None, path: str, cut: list[Section], found: Findings) -> dict[str, list[SqlBlock]]:
    """Read the blocks of a variants file by phase, and report its faults."""
    theirs = found.beside(beside(path))
    source = _normalised(text or "")
    empty = f"the file is empty: write the variants of {path} here, or take it away"
    if text is None or not _is_text(source, theirs, empty):
        return {}
    phases = list(dict.fromkeys(section.name for section in cut if section.name is not None))
    parts, read = list(blocks(source)), dict[str, list[SqlBlock]]()
    for part in parts:
        if isinstance(part, FrontMatter):
            theirs.add(part.line, f"the front matter belongs to the runbook, {path}: take it out here")
    for section in sections(parts, theirs):
        if section.name is None:
            report_outside(section, theirs)
            continue
        if section.name not in (*phases, *read):
            known = f"its phases are {', '.join(phases)}" if phases else "it has none"
            theirs.add(section.line, f"{path} has no phase {section.name}: {known}")
        own = (part for part in _parts(section, theirs, path) if not isinstance(part, SignOff | Again))
        read.setdefault(section.name, []).extend(own)
    return read


def _phases(
    header: Header, cut: list[Section], variants: dict[str, list[SqlBlock]], found: Findings
) -> Iterator[Phase]:
    earlier: list[Phase] = []
    for section in cut:
        if section.name is None:
            report_outside(section, found)
            continue
        about = header.phases.get(section.name, PhaseHeader(section.line))
        parts = [*_parts(section, found), *_soaked(about.soak, header, section, found)]
        beside_it = variants.get(section.name, [])
        earlier.append(build_phase(section, about, parts, beside_it, tuple(earlier), found))
        yield earlier[-1]


def _soaked(rule: SoakRule | None, header: Header, section: Section, found: Findings) -> Iterator[Part]:
    """Make the check of a phase with `soak:`; it reads the records of another phase of the runbook."""
    names, phase = list(header.phases), section.name or ""
    if rule is None or phase not in names:
        return
    place = names.index(phase)
    of = rule.of or (names[place - 1] if place else None)
    if of is None:
        found.add(
            rule.line,
            f"phase {phase} is the first, so its `soak:` needs `of:`, the phase that must stay open",
        )
    elif of not in names or of == phase:
        others = ", ".join(name for name in names if name != phase) or "none"
        found.add(rule.line, f"`of: {of}` is no other phase of this runbook; there are {others}")
    else:
        yield soak_check(rule, of, runbook=header.name, path=found.path, heading=section.line)


def _parts(section: Section, found: Findings, runbook: str | None = None) -> Iterator[Part]:
    """Read the blocks of a section; the paragraph under a check becomes its advice.

    `runbook` is the path of the runbook if the section is one of its variants.
    """
    for number, block in enumerate(section.blocks):
        report_hidden(block, found)
        part: Part | None = None
        if isinstance(block, Fence):
            part = read_block(block, found, runbook) if block.language == "sql" else None
        elif runbook and (isinstance(block, Task) or (isinstance(block, AgainItem) and block.listed)):
            found.add(
                block.line, f"sign-offs and `again:` belong to the runbook, {runbook}: take it out here"
            )
        elif isinstance(block, Task):
            part = read_signoff(block, found)
        elif isinstance(block, AgainItem) and not runbook:
            part = read_again(block, found)
        if isinstance(part, Check) and not runbook:
            part = replace(part, advice=_advice(section.blocks[number + 1 :], found.path))
        if part is not None:
            yield part


def _advice(below: list[Block], path: str) -> Advice | None:
    """Return the next paragraph, skipping evidence; a paragraph in bold introduces the next check."""
    for block in below:
        if isinstance(block, Prose) and not block.nested:
            is_next = block.text.startswith(("**", "__"))
            return None if is_next else Advice(" ".join(block.text.split()), f"{path}:{block.line}")
        if not (isinstance(block, Fence) and "-- explains:" in block.content):
            return None
    return None
