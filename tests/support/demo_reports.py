"""The report at every stage of the demo: the page is written after each command that the demo runs."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

from pipestate.pipeline.demo import story
from pipestate.pipeline.demo.stage import Stage


def write_reports(directory: Path) -> dict[str, Path]:
    """Run the demo; return the pages by number and command, in their order."""
    written: dict[str, Path] = {}

    class Reporting(Stage):
        def run(self, command: str, *, code: int = 0) -> None:
            super().run(command, code=code)
            name = f"{len(written) + 1:02}-{re.sub(r'[^a-z0-9]+', '-', command.lower())[:30].strip('-')}"
            written[name] = directory / f"{name}.html"
            self.cron(f"pipestate report --output {written[name]}")

    with patch.object(story, "Stage", Reporting), redirect_stdout(io.StringIO()):
        story.demo()
    return written
