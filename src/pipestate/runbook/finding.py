"""What is wrong with a runbook, and where."""

from dataclasses import dataclass

from pipestate.errors import RunbookError


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One fault: the message says what is wrong and how to fix it."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"

    def error(self) -> RunbookError:
        return RunbookError(self.path, self.line, self.message)


class Findings:
    """Collects while a runbook is read, so that lint tells every fault at once, not just the first."""

    def __init__(self, path: str, found: set[Finding] | None = None) -> None:
        self.path = path
        self._found: set[Finding] = set() if found is None else found

    def add(self, line: int, message: str) -> None:
        self._found.add(Finding(self.path, line, message))

    def at(self, block: str, message: str) -> None:
        """A fault of a block, which is `path:line`, in whichever file it stands."""
        path, _, line = block.rpartition(":")
        self._found.add(Finding(path, int(line), message))

    def beside(self, path: str) -> "Findings":
        """Where the faults of another file of the same runbook are collected."""
        return Findings(path, self._found)

    def in_order(self) -> list[Finding]:
        return sorted(self._found)
