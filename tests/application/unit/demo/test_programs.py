"""The commands of the demo are programs: wherever its output goes, theirs goes there, too."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
from pathlib import Path
from pipestate.pipeline.demo.stage import Stage

Stage("postgresql:///nowhere", None, Path.cwd()).run("pipestate --nonsense", code=2)
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
    assert done.returncode == 0, errors.read_text()
    assert "No such option: --nonsense" in done.stdout
    assert errors.read_text() == ""
