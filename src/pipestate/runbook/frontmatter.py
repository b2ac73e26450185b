"""Front matter: the YAML with the runbook's name and the revisions between which each phase applies.

The reader uses YAML nodes instead of loaded values. Nodes keep their lines, show duplicate keys, and keep
`0012` as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING

from pipestate.core.errors import PipestateError
from pipestate.core.text import parse_age
from pipestate.runbook.markdown import Block, FrontMatter, Heading
from pipestate.runbook.model import Findings, is_id
from pipestate.runbook.soak import GAP, SoakRule

if TYPE_CHECKING:
    from yaml.nodes import Node

TRUE = ("true", "yes", "on")
PHASE_KEYS = ("from", "until", "opens", "soak", "of", "gap")
FORM = "begin the file with `---`, `runbook: its-name`, `phases:` and their names, `---`"


@dataclass(frozen=True, slots=True)
class PhaseHeader:
    """The front matter of one phase."""

    line: int
    from_: str | None = None
    until: str | None = None
    opens: tuple[str, ...] = ()
    soak: SoakRule | None = None


@dataclass(frozen=True, slots=True)
class Header:
    name: str = ""
    default: bool = False
    phases: dict[str, PhaseHeader] = field(default_factory=dict)


def read_header(block: FrontMatter, found: Findings) -> Header:
    """Read the front matter, and report its faults to `found`."""
    import yaml  # a migration without a runbook does not load it

    try:
        root: Node | None = yaml.compose(block.content, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        found.add(block.line + 1 + mark.line if mark else block.line, f"the front matter is not YAML: {said}")
        return Header()
    if root is None:
        found.add(block.line, f"the front matter is empty: {FORM}")
        return Header()
    reader = _Reader(found, offset=block.line + 1)
    fields = reader.fields(root, "the front matter", ("runbook", "default", "phases"))
    if "runbook" not in fields:
        found.add(block.line, "the front matter has no `runbook:`: name the runbook there")
    if "phases" not in fields:
        found.add(block.line, "the front matter has no `phases:`: list them there, in order")
    default = str(fields["default"].value).lower() if "default" in fields else "false"
    if default not in (*TRUE, "false", "no", "off"):
        reader.fault(fields["default"], "`default:` must be true or false")
    return Header(
        reader.runbook(fields["runbook"]) if "runbook" in fields else "",
        default in TRUE,
        reader.phases(fields["phases"]) if "phases" in fields else {},
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Convert YAML nodes to values; report each fault with its line in the file."""

    found: Findings
    offset: int

    def runbook(self, node: Node) -> str:
        """Read the runbook's name, which must equal its file name: commands accept either."""
        name, file = self.text("runbook", node) or "", PurePath(self.found.path).name
        if name and not is_id(name):
            self.fault(node, f"`runbook: {name}`: a name is lower-case letters, digits and hyphens")
        elif name and file != f"{name}.md":
            this = file.removesuffix(".md")
            other = f", or write `runbook: {this}` here" if is_id(this) else ""
            self.fault(
                node, f"`runbook: {name}` is in a file of another name: call the file {name}.md{other}"
            )
        return name

    def phases(self, node: Node) -> dict[str, PhaseHeader]:
        if not node.value:
            self.fault(node, "`phases:` is empty: list the phases, in order")
            return {}
        phases = {}
        for name, key, value in self.entries(node, "phases"):
            if not is_id(name):
                self.fault(key, f"phase `{name}`: a name is lower-case letters, digits and hyphens")
            bare = value.value in ("", "null", "~")
            fields = {} if bare else self.fields(value, f"phase {name}", PHASE_KEYS)
            from_, until = (self.text(key, fields.get(key)) for key in ("from", "until"))
            opens = tuple(self.revisions(fields["opens"])) if "opens" in fields else ()
            line, soak = key.start_mark.line + self.offset, self.soak(fields)
            phases[name] = PhaseHeader(line, from_, until, opens, soak)
        return phases

    def soak(self, fields: dict[str, Node]) -> SoakRule | None:
        for key in ("of", "gap"):
            if key in fields and "soak" not in fields:
                self.fault(fields[key], f"`{key}:` belongs to a `soak:`: write both, as soak: 7d")
        length, gap = self.age("soak", fields), self.age("gap", fields)
        if length is None:
            return None
        line = fields["soak"].start_mark.line + self.offset
        return SoakRule(line, length, self.text("of", fields.get("of")), gap or GAP)

    def age(self, key: str, fields: dict[str, Node]) -> timedelta | None:
        written = self.text(key, fields.get(key))
        try:
            if written is None or (age := parse_age(written)):
                return age if written is not None else None
        except PipestateError:
            pass
        self.fault(fields[key], f"`{key}: {written}`: write a time, as 7d or 48h")
        return None

    def revisions(self, node: Node) -> Iterator[str]:
        if isinstance(node.value, str) or any(isinstance(item, tuple) for item in node.value):
            self.fault(node, '`opens:` must be a list of revisions, as opens: ["ae10"]')
            return
        if not node.value:
            self.fault(
                node,
                "`opens:` is empty: take it out, and the phase opens every revision that checks its gate",
            )
        for item in node.value:
            if text := self.text("opens", item):
                yield text

    def text(self, key: str, node: Node | None) -> str | None:
        if node is None:
            return None
        if not isinstance(node.value, str):
            self.fault(node, f"`{key}:` must be one text")
        elif not node.value.strip():
            self.fault(node, f"`{key}:` has no value: add it or leave the key out")
        else:
            return node.value.strip()
        return None

    def fields(self, node: Node, where: str, allowed: tuple[str, ...]) -> dict[str, Node]:
        fields = {}
        for name, key, value in self.entries(node, where):
            if name not in allowed:
                self.fault(key, f"unknown key `{name}` in {where}: it takes {', '.join(allowed)}")
            fields[name] = value
        return fields

    def entries(self, node: Node, where: str) -> Iterator[tuple[str, Node, Node]]:
        if isinstance(node.value, str) or not all(isinstance(item, tuple) for item in node.value):
            self.fault(node, f"{where} must be keys with values, as `key: value`")
            return
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                self.fault(key, f"`{name}` appears twice in {where}: keep one of them")
            else:
                yield name, key, value
            seen.add(name)

    def fault(self, node: Node, message: str) -> None:
        self.found.add(node.start_mark.line + self.offset, message)


# Split the file into phases, and compare them with the front matter.


_PHASE = re.compile(r"Phase:\s*(?P<name>.*)")
_ALMOST = re.compile(r"phase\s*:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Section:
    """The blocks between two headings; `name` is None outside any phase."""

    name: str | None
    line: int
    blocks: list[Block] = field(default_factory=list)


def sections(parts: list[Block], found: Findings) -> list[Section]:
    """Split at headings of the first two levels; deeper headings structure a phase."""
    cut = [Section(None, 1)]
    for part in parts:
        if not isinstance(part, Heading):
            cut[-1].blocks.append(part)
        elif (name := _phase_name(part, found)) is not None:
            cut.append(Section(name, part.line))
        elif part.depth <= 2 and not part.nested:
            cut.append(Section(None, part.line))
        else:
            cut[-1].blocks.append(part)
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
    """Report phases that differ between front matter and sections, in name, order or count."""
    written: dict[str, int] = {}
    for section in (section for section in cut if section.name is not None):
        first = written.setdefault(str(section.name), section.line)
        if first != section.line:
            found.add(
                section.line, f"phase {section.name} appears twice, first on line {first}: join the two"
            )
    names = [name for name in written if is_id(name)]
    if header.phases and names != list(header.phases):
        line = next(iter(header.phases.values())).line
        there = ", ".join(names) or "none"
        found.add(
            line, f"`phases:` has {', '.join(header.phases)}, the sections are {there}: make both the same"
        )
