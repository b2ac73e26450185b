"""What can go wrong, as one family: each error says what is wrong, where, and what to do next."""


class PipestateError(Exception):
    """The root. `exit_code` is what the command line ends with."""

    exit_code = 2


class ConfigError(PipestateError):
    """Wrong usage or configuration: a missing or malformed URL, an unknown option."""


class Unreachable(PipestateError):
    """Something that is needed did not answer, so that nothing could be evaluated."""

    exit_code = 3
