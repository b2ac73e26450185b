"""Errors of pipestate: each message names the fault, its location and the next step."""

from dataclasses import dataclass

# SQLSTATE of errors raised by our PL/pgSQL: their message is already a complete sentence.
OWN_SQLSTATE = "PSTAT"


class PipestateError(Exception):
    """Root of all errors. `exit_code` is the exit code of the command line."""

    exit_code = 2


class ConfigError(PipestateError):
    """Wrong usage or configuration: a missing or malformed URL, an unknown option."""


class OtherMigrations(ConfigError):
    """A command of an application, called in a project with other migrations."""


class Unreachable(PipestateError):
    """A required service did not answer, so the evaluation is impossible."""

    exit_code = 3


@dataclass(eq=False)
class RunbookError(PipestateError):
    """An invalid runbook, with the location of the fault, its description and its fix."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"
