"""The file cut into its phases, and whether the front matter names the same ones."""

import re
from dataclasses import dataclass, field

from pipestate.runbook.finding import Findings
from pipestate.runbook.frontmatter import Header
from pipestate.runbook.markdown import Block, Heading
from pipestate.runbook.model import is_id

_PHASE = re.compile(r"Phase:\s*(?P<name>.*)")
_ALMOST = re.compile(r"phase\s*:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Section:
    """What stands between two headings; without a name, outside of any phase."""

    name: str | None
    line: int
    blocks: list[Block] = field(default_factory=list)


def sections(parts: list[Block], found: Findings) -> list[Section]:
    """Cut at the headings of the first two depths; deeper ones structure a phase."""
    cut = [Section(None, 1)]
    for part in parts:
        if not isinstance(part, Heading):
            cut[-1].blocks.append(part)
        elif (name := _phase_name(part, found)) is not None:
            cut.append(Section(name, part.line))
        elif part.depth <= 2 and not part.nested:
            cut.append(Section(None, part.line))
    return cut


def _phase_name(heading: Heading, found: Findings) -> str | None:
    match = _PHASE.fullmatch(heading.text)
    if match is None or heading.depth != 2 or heading.nested:
        if _ALMOST.match(heading.text):
            found.add(heading.line, f"`{heading.text}`: a phase begins with a heading `## Phase: its-name`")
        return None
    if not is_id(match["name"]):
        found.add(heading.line, f"phase `{match['name']}`: a name is lower-case letters, digits and hyphens")
    return match["name"]


def report_mismatch(header: Header, cut: list[Section], found: Findings) -> None:
    """Front matter and sections name the same phases, in the same order, each once."""
    written = _written(cut, found)
    if not header.phases:
        return
    for name in (name for name in written if is_id(name) and name not in header.phases):
        found.add(written[name], f"phase {name} is not in the front matter: add it to `phases:`")
    for name in (name for name in header.phases if name not in written):
        found.add(header.phases[name].line, f"phase {name} has no section: add a heading `## Phase: {name}`")
    if set(written) == set(header.phases) and list(written) != list(header.phases):
        line = next(iter(header.phases.values())).line
        found.add(line, f"`phases:` has another order than the sections, {', '.join(written)}: use one order")


def _written(cut: list[Section], found: Findings) -> dict[str, int]:
    written: dict[str, int] = {}
    for section in (section for section in cut if section.name is not None):
        first = written.setdefault(str(section.name), section.line)
        if first != section.line:
            found.add(section.line, f"phase {section.name} stands twice, first on line {first}: join the two")
    return written
