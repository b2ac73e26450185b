"""A process as a DBA starts it: how long it took, how much memory it had, what it printed."""

import os
import platform
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pipestate.database.embedded import embedded_binaries
from pipestate.database.urls import shipped_root

LOAD_BEFORE = os.getloadavg()[0]  # as the benchmark starts, which adds its own


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a process; `processor_s` is its own work, `megabytes` the most that it had in memory."""

    seconds: float
    processor_s: float
    megabytes: float
    code: int
    output: str


def timed_run(command: list[str], variables: dict[str, str]) -> Run:
    """Run it in a session of its own; Linux counts its memory, not that of the server."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=shipped_root(),
            env=os.environ | variables,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (output, errors):
            file.seek(0)
        text = output.read() if process.returncode in (0, 1) else output.read() + errors.read()
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode, text)


def machine() -> dict[str, object]:
    """Say what the figures were measured on."""
    processor = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    return {
        "cores": os.cpu_count(),
        "processor": processor[1].strip() if processor else platform.machine(),
        "memory_gb": round(int(memory[1]) / 1e6) if memory else None,
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "postgresql": _server_version(),
        "load_before": round(LOAD_BEFORE, 1),
        "on": time.strftime("%Y-%m-%d"),
    }


def _server_version() -> str:
    """Say `18.4`: every benchmark runs on the server that the wheel brings."""
    said = subprocess.run(
        [embedded_binaries() / "postgres", "--version"], capture_output=True, text=True, check=True
    )
    return said.stdout.split()[-1]
