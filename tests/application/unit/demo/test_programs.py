"""The commands of the demo run in forks: wherever its output goes, theirs goes there, too."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os
from pathlib import Path
from pipestate.pipeline.demo.stage import run_program

if __name__ == "__main__":
    raise SystemExit(run_program(["pipestate", "--nonsense"], cwd=Path.cwd(), environment=os.environ))
"""


def test_errors_go_where_the_output_goes_also_from_a_file_into_a_pipe(tmp_path: Path) -> None:
    script, errors = tmp_path / "play.py", tmp_path / "errors"
    script.write_text(PROGRAM)
    with errors.open("w") as file:
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            check=False,
        )
    assert done.returncode == 2, errors.read_text()
    assert "No such option: --nonsense" in done.stdout
    assert errors.read_text() == ""
