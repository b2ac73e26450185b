"""A real Chromium without a window, spoken to through two pipes: no driver and no library in between.

The browser is PIPESTATE_BROWSER, or the first of NAMES that is installed.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
TIMEOUT_S = 60
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
)


def find_browser() -> str | None:
    named = os.environ.get("PIPESTATE_BROWSER")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass
class Page:
    """A tab. What the browser told meanwhile is in `reported`, as pairs of a name and its values."""

    pipe: "_Pipe"
    session: str
    reported: list[tuple[str, Any]] = field(default_factory=list)

    def call(self, method: str, **values: Any) -> Any:
        return self.pipe.call(method, values, self.session, self.reported)

    def open(self, address: str) -> None:
        """Load a page and wait until all of it is there."""
        self.reported.clear()
        self.call("Page.navigate", url=address)
        self.pipe.wait_for("Page.loadEventFired", self.reported)

    def evaluate(self, script: str) -> Any:
        """Run a script in the page, past its own rules, and return what it gives; a promise is waited for."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def prefer(self, scheme: str, media: str = "") -> None:
        """Choose light or dark, on a screen or in print."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def picture(self, path: Path, *, top: float = 0, height: float | None = None) -> None:
        """Take a picture, of the whole page unless a part of it is named."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0,
            "y": top,
            "width": size["width"],
            "height": height or size["height"] - top,
            "scale": 1,
        }
        made = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(made["data"]))

    def heard(self, name: str) -> list[Any]:
        return [values for reported, values in self.reported if reported == name]


@dataclass
class _Pipe:
    writes: int
    reads: int
    sent: int = 0
    rest: bytes = b""

    def call(
        self, method: str, values: dict[str, Any], session: str | None, reported: list[tuple[str, Any]]
    ) -> Any:
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": values}
        if session:
            message["sessionId"] = session
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.sent:
                assert "error" not in answer, f"{method}: {answer}"
                return answer["result"]
            reported.append((answer["method"], answer["params"]))

    def wait_for(self, name: str, reported: list[tuple[str, Any]]) -> None:
        while not any(heard == name for heard, _ in reported):
            answer = self.read()
            reported.append((answer["method"], answer["params"]))

    def read(self) -> Any:
        while b"\0" not in self.rest:
            more = os.read(self.reads, 1 << 16)
            assert more, "the browser has gone"
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)


@contextmanager
def chromium() -> Iterator[Page]:
    """Start a browser with one tab that tells of every request, message and error."""
    path = find_browser()
    assert path is not None, "no browser: install chromium, or name one in PIPESTATE_BROWSER"
    with TemporaryDirectory(prefix="pipestate-browser-", ignore_cleanup_errors=True) as profile:
        # Chromium reads its orders from descriptor 3, and writes to 4.
        orders, writes = map(_high, os.pipe())
        reads, answers = map(_high, os.pipe())
        program = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=lambda: (os.dup2(orders, 3), os.dup2(answers, 4)),
            pass_fds=(3, 4),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(orders)
        os.close(answers)
        try:
            yield _tab(_Pipe(writes, reads))
        finally:
            os.close(writes)
            program.terminate()
            program.wait(TIMEOUT_S)
            os.close(reads)


def _high(descriptor: int) -> int:
    """Move a descriptor out of the way of those that the browser is given."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


def _tab(pipe: _Pipe) -> Page:
    target = pipe.call("Target.createTarget", {"url": "about:blank"}, None, [])["targetId"]
    session = pipe.call("Target.attachToTarget", {"targetId": target, "flatten": True}, None, [])["sessionId"]
    page = Page(pipe, session)
    for domain in ("Page", "Runtime", "Log", "Network"):
        page.call(f"{domain}.enable")
    return page
