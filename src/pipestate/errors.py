"""What can go wrong, as one family: each error says what is wrong, where, and what to do next."""

# What our own PL/pgSQL raises with: the message is already the sentence.
OWN_SQLSTATE = "PSTAT"


class PipestateError(Exception):
    """The root. `exit_code` is what the command line ends with."""

    exit_code = 2


class ConfigError(PipestateError):
    """Wrong usage or configuration: a missing or malformed URL, an unknown option."""


class OtherChain(ConfigError):
    """A command of an application that was called in a project whose chain is not that application's."""


class Unreachable(PipestateError):
    """Something that is needed did not answer, so that nothing could be evaluated."""

    exit_code = 3


class RunbookError(PipestateError):
    """A runbook that nothing may run: where it is wrong, what is wrong, and how to fix it."""

    def __init__(self, path: str, line: int, what: str) -> None:
        super().__init__(path, line, what)
        self.path = path
        self.line = line
        self.what = what

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"
