"""The README's picture: real commands in a real terminal, exported by rich. `make picture` writes it."""

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

from pipestate.database.embedded import embedded_server
from support.alembic_runs import ROOT
from support.new_user import Walk
from support.servers import Database
from support.terminal import Typed, in_terminals

PICTURE = ROOT / "docs" / "picture.svg"
COLUMNS = 96
SHOWN = (
    Typed(["gate", "readiness"], COLUMNS),
    Typed(["upgrade", "head"], COLUMNS, program="alembic"),
)


def main() -> None:
    """Show the shop of the start pages, with its contract before a closed gate."""
    with TemporaryDirectory() as place, embedded_server() as url:
        database = Database(url)
        walk = Walk(Path(place) / "shop", database)
        walk.make_shop()
        walk.shell.run(
            "pipestate revision --contract orders/readiness --drop-column orders.old_status --rev-id d4"
        )
        # An address without the path of this machine.
        address = {"PGHOST": str(url.query["host"]), "PGUSER": "postgres"}
        written = in_terminals(SHOWN, cwd=walk.directory, DATABASE_URL="postgresql:///postgres", **address)
        database.leave()
    save_screen(list(zip(SHOWN, written, strict=True)), PICTURE, COLUMNS)


def save_screen(typed: Sequence[tuple[Typed, str]], file: Path, columns: int) -> None:
    """Draw commands and what they wrote to their terminals."""
    screen = Text()
    for command, output in typed:
        screen.append(f"$ {command.program} {' '.join(command.arguments)}\n", "bold cyan")
        screen.append(Text.from_ansi(output.rstrip())).append("\n\n")
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=columns, file=nowhere)
        console.print(screen)
    file.write_text(console.export_svg(title="pipestate"), encoding="utf-8")


if __name__ == "__main__":
    main()
