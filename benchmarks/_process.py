"""A process as a DBA starts it: how long it took, how much memory it had, what it printed."""

import os
import platform
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pipestate.config import shipped_root


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a process; `megabytes` is the most that it had in memory."""

    seconds: float
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
    return Run(seconds, usage.ru_maxrss / 1024, process.returncode, text)


def machine(server_version: str) -> dict[str, object]:
    """What the figures were measured on."""
    processor = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    return {
        "cores": os.cpu_count(),
        "processor": processor[1].strip() if processor else platform.machine(),
        "memory_gb": round(int(memory[1]) / 1e6) if memory else None,
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "postgresql": server_version,
        "load_before": round(os.getloadavg()[0], 1),
        "on": time.strftime("%Y-%m-%d"),
    }
