"""What is wrong with a runbook, and where."""

from dataclasses import dataclass

from pipestate.errors import RunbookError


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One fault: the message says what is wrong and how to mend it."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"

    def error(self) -> RunbookError:
        return RunbookError(self.path, self.line, self.message)


class Findings:
    """Collects while a runbook is read, so that lint tells every fault at once, not just the first."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._found: set[Finding] = set()

    def add(self, line: int, message: str) -> None:
        self._found.add(Finding(self._path, line, message))

    def in_order(self) -> list[Finding]:
        return sorted(self._found)
