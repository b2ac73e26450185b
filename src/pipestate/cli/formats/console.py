"""`verify` and `gate` on the terminal: the answer, failures with evidence and advice, a count of passes."""

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from pipestate.cli.formats.rows import rows_table
from pipestate.cli.formats.text import answer, database_line, hanging, next_command, took, without_first_row
from pipestate.core.text import many, place, plain
from pipestate.project.find import Calls
from pipestate.verify.report import Gate, Outcome, PhaseReport, Report, RunbookReport, Verdict, advice_line

STYLES = {
    "passed": "green",
    "failed": "bold red",
    "errored": "bold magenta",
    "skipped": "dim",
    "warned": "yellow",
}
GATES = {Gate.OPEN: "bold green", Gate.CLOSED: "bold red", Gate.AHEAD: "dim", Gate.PAST: "dim"}
WORDS = {Gate.AHEAD: "its revision is not reached yet", Gate.PAST: "its checks are no longer evaluated"}
SLOW_MS = 1000  # slower checks show their duration
EVIDENCE_ROWS = 5
ROWS_IN_PAIRS = 3  # limit if a row takes several lines
OUTCOME = 9
BELOW = 4  # indent of evidence and advice


def print_report(
    report: Report,
    console: Console,
    calls: Calls,
    *,
    verbose: bool = False,
    most: int | None = None,
) -> None:
    """Print the answer first. `verbose` lists passed checks; `most` limits the rows of evidence under a check."""
    for part in _parts(report, console, calls, verbose=verbose, most=most):
        console.print(part, soft_wrap=not console.is_terminal)


def _parts(
    report: Report, console: Console, calls: Calls, *, verbose: bool, most: int | None
) -> Iterator[RenderableType]:
    yield hanging(Text(plain(answer(report)), "bold green" if report.ok else "bold red"), console, 2)
    yield hanging(Text(database_line(report.database), "dim"), console, 2)
    seen: dict[str, str] = {}
    for runbook, phase in report.phases():
        yield from _phase(runbook, phase, console, calls, seen, verbose=verbose, most=most)
    yield Text()
    yield hanging(_counts(report, verbose=verbose), console, 2)
    command = next_command(report, calls)
    if command is not None:
        fix = "" if report.ok or not report.ran else "fix what failed, then "
        yield hanging(Text(f"Next: {fix}{command}", "bold"), console, 2)


def _phase(
    runbook: RunbookReport,
    phase: PhaseReport,
    console: Console,
    calls: Calls,
    seen: dict[str, str],
    *,
    verbose: bool,
    most: int | None,
) -> Iterator[RenderableType]:
    """Show the failures of a phase, then its warnings; with `verbose` also passed and skipped checks."""
    wrong = sorted((each for each in phase.checks if each.went_wrong), key=lambda each: each.warned)
    rest = sorted(
        (each for each in phase.checks if not each.went_wrong),
        key=lambda each: each.outcome is Outcome.SKIPPED,
    )
    if not wrong and not verbose:
        return
    address = f"{runbook.name}/{phase.name}"
    title = Text(f"\n{plain(address)} ", "bold").append(str(phase.gate), GATES[phase.gate])
    if phase.gate in WORDS:
        yield title.append(f": {WORDS[phase.gate]}", "dim")
        return
    yield title
    for verdicts in _alike(wrong):
        yield hanging(_said(verdicts[0], address, verdicts), console, OUTCOME)
        if len(verdicts) == 1:
            yield from _below(verdicts[0], address, console, calls, seen, most)
    for verdict in rest if verbose else ():
        yield hanging(_said(verdict, address, [verdict]), console, OUTCOME)


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
        said.append(f" ({took(verdict.duration_ms)})", "dim")
    return said


def _attest(verdict: Verdict, address: str) -> str:
    return f"pipestate attest {address}/{verdict.check_id} --by YOU"


def _below(
    verdict: Verdict, address: str, console: Console, calls: Calls, seen: dict[str, str], most: int | None
) -> Iterator[RenderableType]:
    """Show the evidence and the advice of a check. Repeated rows and advice are only referred to."""
    here, indent = f"{address}/{verdict.check_id}", " " * BELOW

    def stood(what: object) -> str | None:
        first = seen.setdefault(repr(what), here)
        return None if first == here else plain(first.removeprefix(f"{address}/"))

    if verdict.evidence and (first := stood(verdict.evidence)):
        yield hanging(Text(f"{indent}the same rows as under {first}", "dim"), console, BELOW)
    elif verdict.evidence:
        table = rows_table(
            verdict.evidence,
            console.width - BELOW,
            most=most or EVIDENCE_ROWS,
            most_below=most or ROWS_IN_PAIRS,
            total=verdict.evidence_rows,
        )
        yield Padding(table, (0, 0, 0, BELOW), expand=False)
    if verdict.advice is None:
        yield hanging(Text(f"{indent}{place(verdict.source)}", "dim"), console, BELOW)
    elif first := stood(verdict.advice):
        yield hanging(Text(f"{indent}Advice: as under {first}"), console, BELOW)
    else:
        word = "Confirm" if verdict.advice.source == verdict.source else "Advice"  # the text of a sign-off
        yield hanging(Text(f"{indent}{word}: {advice_line(verdict.advice)}"), console, BELOW)
    if verdict.message.endswith(f": {_attest(verdict, address)}"):
        command = calls.pipestate(f"attest {address}/{verdict.check_id} --by YOU")
        yield hanging(Text(f"{' ' * BELOW}{command}", "bold"), console, BELOW)


def _counts(report: Report, *, verbose: bool) -> Text:
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
            for gate in (Gate.OPEN, Gate.AHEAD, Gate.PAST)
            if gate in gates
        ]
    more = "" if verbose or not parts else " (--verbose lists each)"
    return Text(f"{', '.join(parts) or 'No check passed'} in {took(report.duration_ms)}{more}", "dim")
