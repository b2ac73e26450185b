"""Run by the Python that is attacked: commands in forks of one process that has everything imported.

A line of JSON on stdin says what to run, where, and into which files it writes; the answer is its exit code.
"""

import importlib
import json
import os
import runpy
import sys
from typing import Any

PRELOADED = ("alembic.config", "pipestate.cli.main", "pipestate.gate", "psycopg2.extras", "rich.table")


def serve() -> None:
    del sys.path[0]  # this directory, whose modules are not for those who are attacked
    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(wanted: dict[str, Any]) -> None:
    for number, name in ((0, os.devnull), (1, wanted["out"]), (2, wanted["err"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
    sys.stdin = os.fdopen(0)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.path.insert(0, wanted["cwd"])
    sys.argv = list(wanted["argv"])
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    sys.exit(0)


if __name__ == "__main__":
    serve()
