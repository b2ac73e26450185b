"""Front matter: the YAML with the runbook's name and the revisions between which each phase applies.

The reader uses YAML nodes instead of loaded values. Nodes keep their lines, show duplicate keys, and keep
`0012` as text instead of the number 10.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from pipestate.runbook.markdown import Block, FrontMatter, Heading
from pipestate.runbook.model import Findings, is_id

if TYPE_CHECKING:
    from yaml.nodes import Node

FORM = "begin the file with `---`, `runbook: its-name`, `phases:` and their names, `---`"

_TAG = "tag:yaml.org,2002:"
_KINDS = {"int": "number", "float": "number", "bool": "boolean", "timestamp": "date", "null": "blank"}


@dataclass(frozen=True, slots=True)
class PhaseHeader:
    """The front matter of one phase."""

    line: int
    from_: str | None = None
    until: str | None = None
    opens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Header:
    name: str = ""
    default: bool = False
    phases: dict[str, PhaseHeader] = field(default_factory=dict)


def read_header(block: FrontMatter, found: Findings) -> Header:
    """Read the front matter, and report its faults to `found`."""
    root = _compose(block, found)
    if root is None:
        return Header()
    reader = _Reader(found, offset=block.line + 1)
    fields = reader.fields(root, "the front matter", ("runbook", "default", "phases"))
    name, phases = fields.get("runbook"), fields.get("phases")
    if name is None:
        found.add(block.line, "the front matter has no `runbook:`: name the runbook there")
    if phases is None:
        found.add(block.line, "the front matter has no `phases:`: list them there, in order")
    return Header(
        name=reader.name_of_runbook(name) if name else "",
        default=reader.truth("default", fields.get("default")),
        phases=reader.phases(phases) if phases else {},
    )


def _compose(block: FrontMatter, found: Findings) -> Node | None:
    import yaml  # a migration without a runbook does not load it

    try:
        root: Node | None = yaml.compose(block.content, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        found.add(block.line + 1 + line, f"the front matter is not YAML: {error.problem or error.context}")
        return None
    except (yaml.YAMLError, RecursionError) as error:
        found.add(block.line, f"the front matter is not YAML: {str(error).splitlines()[0]}")
        return None
    if root is None:
        found.add(block.line, f"the front matter is empty: {FORM}")
    return root


class _Reader:
    """Convert YAML nodes to values; report each fault with its line in the file."""

    def __init__(self, found: Findings, offset: int) -> None:
        self._found = found
        self._offset = offset

    def phases(self, node: Node) -> dict[str, PhaseHeader]:
        if not node.value:
            self._fault(node, "`phases:` is empty: list the phases, in order")
            return {}
        entries = dict(self._entries(node, "phases"))
        for name, (key, _) in entries.items():
            if not is_id(name):
                self._fault(key, f"phase `{name}`: a name is lower-case letters, digits and hyphens")
        return {name: self._phase(name, key, value) for name, (key, value) in entries.items()}

    def _phase(self, name: str, key: Node, node: Node) -> PhaseHeader:
        line = key.start_mark.line + self._offset
        if _kind(node) == "null":
            return PhaseHeader(line)
        fields = self.fields(node, f"phase {name}", ("from", "until", "opens"))
        return PhaseHeader(
            line,
            from_=self._text("from", fields.get("from")),
            until=self._text("until", fields.get("until")),
            opens=tuple(self._revisions("opens", fields.get("opens"))),
        )

    def fields(self, node: Node, where: str, allowed: tuple[str, ...]) -> dict[str, Node]:
        fields = {}
        for name, (key, value) in self._entries(node, where):
            if name not in allowed:
                self._fault(key, f"unknown key `{name}` in {where}: it takes {', '.join(allowed)}")
            fields[name] = value
        return fields

    def _entries(self, node: Node, where: str) -> Iterator[tuple[str, tuple[Node, Node]]]:
        from yaml import nodes

        if not isinstance(node, nodes.MappingNode):
            self._fault(node, f"{where} must be keys with values, as `key: value`")
            return
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                self._fault(key, f"`{name}` stands twice in {where}: keep one of them")
            else:
                yield name, (key, value)
            seen.add(name)

    def name_of_runbook(self, node: Node) -> str:
        """Read the runbook's name, which must equal its file name: commands accept either."""
        text, file = self._text("runbook", node) or "", PurePath(self._found.path).name
        if text and not is_id(text):
            self._fault(node, f"`runbook: {text}`: a name is lower-case letters, digits and hyphens")
        elif text and file != f"{text}.md":
            this = file.removesuffix(".md")
            other = f", or write `runbook: {this}` here" if is_id(this) else ""
            self._fault(node, f"`runbook: {text}` stands in a file of another name: call it {text}.md{other}")
        return text

    def truth(self, key: str, node: Node | None) -> bool:
        if node is None:
            return False
        if _kind(node) != "bool":
            self._fault(node, f"`{key}:` must be true or false")
        return str(node.value).lower() in ("true", "yes", "on")

    def _revisions(self, key: str, node: Node | None) -> Iterator[str]:
        from yaml import nodes

        if node is None:
            return
        if not isinstance(node, nodes.SequenceNode):
            self._fault(node, f'`{key}:` must be a list of revisions, as {key}: ["ae10"]')
            return
        if not node.value:
            self._fault(
                node, f"`{key}:` is empty: take it out, and the phase opens every revision that asks it"
            )
        for item in node.value:
            if text := self._text(key, item):
                yield text

    def _text(self, key: str, node: Node | None) -> str | None:
        """Read a text, and refuse an unquoted revision that YAML parses as another type."""
        from yaml import nodes

        if node is None or (_kind(node) == "str" and str(node.value).strip()):
            return str(node.value).strip() if node else None
        if not isinstance(node, nodes.ScalarNode):
            self._fault(node, f"`{key}:` must be one text")
        elif _kind(node) in ("null", "str"):
            self._fault(node, f"`{key}:` says nothing: give its value or leave the key out")
        else:
            kind = _KINDS.get(_kind(node), _kind(node))
            why = f"`{node.value}` is a {kind} to YAML (0012 would become 10)"
            self._fault(node, f'{why}: put it in quotes, as {key}: "{node.value}"')
        return None

    def _fault(self, node: Node, message: str) -> None:
        self._found.add(node.start_mark.line + self._offset, message)


def _kind(node: Node) -> str:
    return str(node.tag).removeprefix(_TAG)


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
            found.add(section.line, f"phase {section.name} stands twice, first on line {first}: join the two")
    if not header.phases:
        return
    for name in (name for name in written if is_id(name) and name not in header.phases):
        found.add(written[name], f"phase {name} is not in the front matter: add it to `phases:`")
    for name in (name for name in header.phases if name not in written):
        found.add(header.phases[name].line, f"phase {name} has no section: add a heading `## Phase: {name}`")
    if set(written) == set(header.phases) and list(written) != list(header.phases):
        line = next(iter(header.phases.values())).line
        found.add(line, f"`phases:` has another order than the sections, {', '.join(written)}: use one order")
