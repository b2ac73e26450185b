"""`verify` and `gate` on the terminal: the answer, failures with evidence and advice, a count of passes."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from pipestate.cli.formats.layout import database_line, hanging, more_rows, rows_table
from pipestate.core.text import duration, many, place, plain
from pipestate.project.find import Calls
from pipestate.verify.report import Gate, Outcome, PhaseReport, Report, Verdict, advice_line

STYLES = {
    "passed": "green",
    "failed": "bold red",
    "errored": "bold magenta",
    "skipped": "dim",
    "warned": "yellow",
}
GATES = {Gate.OPEN: "bold green", Gate.CLOSED: "bold red", Gate.NOT_STARTED: "dim", Gate.FINISHED: "dim"}
WORDS = {
    Gate.NOT_STARTED: "its revision is not reached yet",
    Gate.FINISHED: "its checks are no longer evaluated",
}
SLOW_MS = 1000  # slower checks show their duration
EVIDENCE_ROWS = 5
ROWS_IN_PAIRS = 3  # limit if a row takes several lines
OUTCOME = 9
BELOW = 4  # indent of evidence and advice


def print_report(
    report: Report, console: Console, calls: Calls, *, verbose: bool = False, most: int | None = None
) -> None:
    """Print the answer first. `verbose` lists passed checks; `most` limits the rows of evidence under a check."""
    for part in _Screen(console, calls, verbose, most).parts(report):
        console.print(part, soft_wrap=not console.is_terminal)


@dataclass(frozen=True, slots=True)
class _Screen:
    """A terminal. `seen` maps shown evidence and advice to their check: a repetition is only referred to."""

    console: Console
    calls: Calls
    verbose: bool
    most: int | None
    seen: dict[str, str] = field(default_factory=dict)

    def line(self, said: str | Text, style: str = "", indent: int = 2) -> Text:
        return hanging(Text(said, style) if isinstance(said, str) else said, self.console, indent)

    def parts(self, report: Report) -> Iterator[RenderableType]:
        yield self.line(
            report.answer, "bold red" if report.addresses(Gate.CLOSED) or not report.ok else "bold green"
        )
        yield self.line(database_line(report.database), "dim")
        for runbook, phase in report.phases():
            yield from self.phase(f"{runbook.name}/{phase.name}", phase)
        yield Text()
        yield self.line(_counts(report, verbose=self.verbose), "dim")
        for said in next_lines(report, self.calls):
            yield self.line(said, "bold")

    def phase(self, address: str, phase: PhaseReport) -> Iterator[RenderableType]:
        """Show the failures of a phase, then its warnings; with `verbose` also passed and skipped checks."""
        wrong = sorted((each for each in phase.checks if each.went_wrong), key=lambda each: each.warned)
        rest = [each for each in phase.checks if not each.went_wrong] if self.verbose else []
        if not wrong and not self.verbose:
            return
        title = Text(f"\n{plain(address)} ", "bold").append(str(phase.gate), GATES[phase.gate])
        if phase.gate in WORDS:
            yield title.append(f": {WORDS[phase.gate]}", "dim")
            return
        yield title
        for verdicts in _alike(wrong):
            yield self.line(_said(verdicts[0], address, verdicts), indent=OUTCOME)
            if len(verdicts) == 1:
                yield from self.below(verdicts[0], address)
        for verdict in sorted(rest, key=lambda each: each.outcome is Outcome.SKIPPED):
            yield self.line(_said(verdict, address, [verdict]), indent=OUTCOME)

    def below(self, verdict: Verdict, address: str) -> Iterator[RenderableType]:
        """Show the evidence and the advice of a check."""
        here, indent = f"{address}/{verdict.check_id}", " " * BELOW

        def stood(what: object) -> str | None:
            first = self.seen.setdefault(repr(what), here)
            return None if first == here else plain(first.removeprefix(f"{address}/"))

        if verdict.evidence and (first := stood(verdict.evidence)):
            yield self.line(f"{indent}the same rows as under {first}", "dim", BELOW)
        elif verdict.evidence:
            width, total = self.console.width - BELOW, verdict.evidence_rows
            most, below = self.most or EVIDENCE_ROWS, self.most or ROWS_IN_PAIRS
            table = rows_table(verdict.evidence, width, most=most, most_below=below, total=total)
            yield Padding(table, (0, 0, 0, BELOW), expand=False)
        if verdict.advice is None:
            yield self.line(f"{indent}{place(verdict.source)}", "dim", BELOW)
        elif first := stood(verdict.advice):
            yield self.line(f"{indent}Advice: as under {first}", indent=BELOW)
        else:
            is_signoff = verdict.advice.source == verdict.source
            word = "Confirm" if is_signoff else "Advice"
            yield self.line(f"{indent}{word}: {advice_line(verdict.advice)}", indent=BELOW)
        if verdict.message.endswith(f": {_attest(verdict, address)}"):
            command = self.calls.pipestate(f"attest {here} --by YOU")
            yield self.line(f"{indent}{command}", "bold", BELOW)


def _alike(verdicts: list[Verdict]) -> list[list[Verdict]]:
    """Group checks that errored for the same reason, such as a missing ledger."""
    groups: dict[tuple[bool, str], list[Verdict]] = {}
    for verdict in verdicts:
        errored = verdict.outcome is Outcome.ERRORED
        key = (verdict.warned, verdict.message) if errored else (verdict.warned, f"check {verdict.check_id}")
        groups.setdefault(key, []).append(verdict)
    return list(groups.values())


def _said(verdict: Verdict, address: str, alike: list[Verdict]) -> Text:
    """Write one line: the outcome, the checks that share it, and the message."""
    name = "warned" if verdict.warned else str(verdict.outcome)
    said = Text(f"{name.ljust(OUTCOME)}", STYLES[name])
    ids = ", ".join(each.check_id for each in alike)
    said.append(ids, "dim" if name == "skipped" else "bold" if verdict.went_wrong else "")
    message = without_first_row(verdict).removesuffix(f": {_attest(verdict, address)}")
    said.append(f": {plain(message)}", "" if verdict.went_wrong else "dim")
    if verdict.duration_ms >= SLOW_MS:
        said.append(f" ({duration(verdict.duration_ms)})", "dim")
    return said


def _attest(verdict: Verdict, address: str) -> str:
    return f"pipestate attest {address}/{verdict.check_id} --by YOU"


def _counts(report: Report, *, verbose: bool) -> str:
    """Count passed and skipped checks, and the other gates, in one line."""
    counts = report.summary()
    parts = [
        f"{many(counts[name], 'check')} {name}" if name == "passed" else f"{counts[name]} {name}"
        for name in ("passed", "warned", "skipped")
        if counts[name]
    ]
    gates = [phase.gate for _, phase in report.phases()]
    if len(gates) > 1:
        parts += [
            f"{many(gates.count(gate), 'gate')} {gate}"
            for gate in (Gate.OPEN, Gate.NOT_STARTED, Gate.FINISHED)
            if gate in gates
        ]
    hidden = counts["passed"] or counts["skipped"]
    more = " (--verbose lists each)" if hidden and not verbose else ""
    return f"{', '.join(parts) or 'No check passed'} in {duration(report.duration_ms)}{more}"


def evidence_lines(verdict: Verdict) -> list[str]:
    """Write `name=value` pairs, a row per line, and the number of hidden rows."""
    rows = [plain(", ".join(f"{name}={value}" for name, value in row.items())) for row in verdict.evidence]
    return rows + more_rows(verdict.evidence_rows, len(rows))


def closing_line(report: Report, calls: Calls) -> str:
    """Name the open or closed gates, and the next step."""
    return " ".join([report.answer, *next_lines(report, calls)])


def next_lines(report: Report, calls: Calls) -> list[str]:
    """Write the next command, if there is one, or what stands in the way of the upgrade."""
    if report.obstacles and not report.addresses(Gate.CLOSED):
        return list(report.obstacles.values())
    command = report.next_command(calls)
    failed = any(verdict.closes for verdict in report.verdicts())
    fix = "fix what failed, then " if failed else ""
    return [f"Next: {fix}{command}"] if command else []


def without_first_row(verdict: Verdict) -> str:
    """Return the message without the row that it quotes: the screen shows that row below."""
    rows, end = many(verdict.evidence_rows, "row"), f"required {verdict.require}"
    quotes = verdict.message.startswith(f"{rows}, first: ") and verdict.message.endswith(f"; {end}")
    return f"{rows}, {end}" if verdict.evidence and quotes else verdict.message
