"""The README's picture: real commands in a real terminal, exported by rich. `make picture` writes it."""

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text
from sqlalchemy import create_engine

from alembics import ROOT, run_alembic
from pipestate.embedded import embedded_server
from pipestate.pipeline.demo import scene
from terminal import Typed, in_terminals

PICTURE = ROOT / "docs" / "picture.svg"
COLUMNS = 104
SHOWN = (
    Typed(["gate", "readiness"], COLUMNS),
    Typed(["upgrade", "head"], COLUMNS, program="alembic"),
)


def main() -> None:
    with embedded_server() as url:
        engine = create_engine(url)
        with engine.begin() as connection:
            scene.build(connection)
        engine.dispose()
        # An address without the path of this machine.
        address = {
            "PGHOST": str(url.query["host"]),
            "PGUSER": "postgres",
            "DATABASE_URL": "postgresql:///postgres",
        }
        assert run_alembic("upgrade", "0005", **address).returncode == 0
        written = in_terminals(SHOWN, cwd=ROOT, **address)
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
