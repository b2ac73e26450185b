"""The `pipestate` command."""


def main() -> None:
    raise SystemExit(0)
