"""A Patroni cluster of two PostgreSQL servers and one etcd, on loopback: Debian's packages, each node a process.

Replication is asynchronous, as Patroni sets it up. A node that was killed is started again by the test.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sqlalchemy import URL

PACKAGES = ("postgresql", "patroni", "etcd-server")
PATIENCE_S = 180.0
NAMES = ("one", "two")
# The shortest that Patroni allows: a killed primary is replaced after at most TTL_S.
TTL_S, LOOP_S, RETRY_S = 20, 2, 3
ETCD = "/usr/bin/etcd"
PATRONI = "/usr/bin/patroni"


class Unavailable(Exception):
    """What is missing on this machine, in one sentence."""


def install() -> Path:
    """Install Debian's packages where they are missing; return the directory of the server's programs."""
    if not (Path(ETCD).exists() and Path(PATRONI).exists() and _server()):
        install_packages(*PACKAGES)
    found = _server()
    if found is None:
        raise Unavailable("failover found no server below /usr/lib/postgresql: apt-get install postgresql")
    return found


def install_packages(*names: str) -> None:
    """Install Debian's packages; Unavailable where this user or system cannot."""
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        raise Unavailable(f"failover needs Debian's packages: apt-get install {' '.join(names)}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *names]):
        done = subprocess.run(["apt-get", *command], env=quiet, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"apt-get {command[0]} failed: {done.stderr.strip().splitlines()[-1:]}")


def _server() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda each: int(each.parts[4]))
    return found[-1].parent if found else None


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class Node:
    """A Patroni process with its server."""

    name: str
    directory: Path
    port: int = field(default_factory=free_port)
    rest: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    def status(self) -> dict[str, object]:
        """Query Patroni; an empty answer while it does not run."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}/patroni", timeout=5) as answer:
                found: dict[str, object] = json.load(answer)
                return found
        except OSError as error:
            body = getattr(error, "read", lambda: b"{}")() or b"{}"
            return dict(json.loads(body)) if body.startswith(b"{") else {}

    @property
    def is_primary(self) -> bool:
        return self.status().get("role") in ("master", "primary") and self.status().get("state") == "running"


@dataclass
class Cluster:
    """Two nodes and an etcd. `url` names both, and libpq finds the one that takes writes."""

    binaries: Path
    directory: Path
    user: str | None
    etcd: int = field(default_factory=free_port)
    peer: int = field(default_factory=free_port)
    nodes: list[Node] = field(default_factory=list)
    running: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    @property
    def url(self) -> URL:
        hosts = tuple(f"127.0.0.1:{node.port}" for node in self.nodes)
        query = {"host": hosts, "target_session_attrs": "read-write"}
        return URL.create("postgresql+psycopg2", "postgres", "secret", database="postgres", query=query)

    def start(self) -> None:
        """Start etcd, the first node, then the one that copies it."""
        here = f"http://127.0.0.1:{self.etcd}"
        peer = f"http://127.0.0.1:{self.peer}"
        options = {
            "data-dir": str(self.directory / "etcd"),
            "listen-client-urls": here,
            "advertise-client-urls": here,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
        }
        written = [f"--{name}={value}" for name, value in options.items()]
        self._run([ETCD, *written, "--unsafe-no-fsync"], self.directory / "etcd.log")
        for name in NAMES:
            node = Node(name, self.directory / name)
            self.nodes.append(node)
            self.start_node(node)
            wait_until(partial(_is_running, node), f"node {name} does not start")
        wait_until(lambda: self.primary is not None, "there is no primary")

    def start_node(self, node: Node) -> None:
        file = self.directory / f"{node.name}.json"  # JSON is YAML
        file.write_text(json.dumps(self._configuration(node)))
        node.process = self._run([PATRONI, str(file)], self.directory / f"{node.name}.log")

    @property
    def primary(self) -> Node | None:
        return next((node for node in self.nodes if node.is_primary), None)

    @property
    def standby(self) -> Node | None:
        return next((node for node in self.nodes if not node.is_primary and node.status()), None)

    def switch_over(self) -> None:
        """Let Patroni hand over: the primary is shut down properly, and nothing is lost."""
        old = self._require_primary()
        body = json.dumps({"leader": old.name}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{old.rest}/switchover", data=body)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=PATIENCE_S):
            pass
        self.wait_whole()

    def kill_primary(self) -> None:
        """Kill Patroni and its server at once; what the standby has not received is lost."""
        old = self._require_primary()
        pid = int((old.directory / "postmaster.pid").read_text().split("\n")[0])
        assert old.process is not None
        old.process.kill()
        os.kill(pid, signal.SIGQUIT)  # a server that is killed by -9 leaves children that hold its memory
        old.process.wait()
        other = next(node for node in self.nodes if node is not old)
        wait_until(lambda: other.is_primary, "the standby does not become the primary")
        self.start_node(old)
        self.wait_whole()

    def wait_whole(self) -> None:
        """Wait for one primary, and a standby that streams from it."""

        def is_whole() -> bool:
            primary = self.primary
            replication = primary.status().get("replication") if primary else None
            return isinstance(replication, list) and any(
                each.get("state") == "streaming" for each in replication
            )

        wait_until(is_whole, "the cluster does not become whole")

    def stop(self) -> None:
        for process in reversed(self.running):
            if process.poll() is None:
                process.terminate()
        for process in self.running:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()

    def _require_primary(self) -> Node:
        wait_until(lambda: self.primary is not None, "there is no primary")
        found = self.primary
        assert found is not None
        return found

    def _run(self, command: list[str], log: Path) -> "subprocess.Popen[bytes]":
        with log.open("ab") as written:
            process = subprocess.Popen(
                command, stdout=written, stderr=written, user=self.user, cwd=self.directory, process_group=0
            )
        self.running.append(process)
        return process

    def _configuration(self, node: Node) -> dict[str, object]:
        settings = {"max_connections": 100, "fsync": "off", "wal_log_hints": "on", "max_wal_senders": 5}
        return {
            "scope": "pipestate",
            "name": node.name,
            "restapi": {"listen": f"127.0.0.1:{node.rest}", "connect_address": f"127.0.0.1:{node.rest}"},
            "etcd3": {"host": f"127.0.0.1:{self.etcd}"},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL_S,
                    "loop_wait": LOOP_S,
                    "retry_timeout": RETRY_S,
                    "maximum_lag_on_failover": 1 << 30,
                    "postgresql": {"use_pg_rewind": True, "parameters": settings},
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{node.port}",
                "connect_address": f"127.0.0.1:{node.port}",
                "data_dir": str(node.directory),
                "bin_dir": str(self.binaries),
                "pgpass": str(self.directory / f"{node.name}.pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres", "password": "secret"},
                    "replication": {"username": "replicator", "password": "secret"},
                },
                "pg_hba": [
                    "local all all trust",
                    "host all all 127.0.0.1/32 md5",
                    "host replication all 127.0.0.1/32 md5",
                ],
                "parameters": {"unix_socket_directories": str(self.directory)},
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
            },
            "watchdog": {"mode": "off"},
        }


def _is_running(node: Node) -> bool:
    return node.status().get("state") == "running"


def wait_until(holds: Callable[[], bool], complaint: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(complaint)
        time.sleep(0.2)


@contextmanager
def open_cluster() -> Iterator[Cluster]:
    """Start a cluster in a directory of its own; stop it, and remove the directory."""
    binaries = install()
    directory = Path(tempfile.mkdtemp(prefix="pipestate-failover-"))
    user = "postgres" if os.getuid() == 0 else None  # no server runs as root
    if user is not None:
        shutil.chown(directory, user)
    directory.chmod(0o755)
    cluster = Cluster(binaries, directory, user)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)
