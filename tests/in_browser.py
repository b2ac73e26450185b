"""Check the report in a real browser: `python tests/in_browser.py [PYTEST ARGUMENTS]`, or `make browser`.

Chromium is the one of this machine; where there is none and apt-get may install it, it is installed. axe-core, which
says whether a page is accessible, comes from npm. What is missing is said, and nothing is skipped.
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
AXE, AXE_VERSION = BUILD / "axe.min.js", "4.10.3"
CHECKS = ROOT / "tests" / "browser" / "checks_of_the_report.py"


def main(arguments: list[str]) -> int:
    problem = _browser() or _axe()
    if problem:
        print(problem, file=sys.stderr)
        return 2
    environment = {**os.environ, "PIPESTATE_AXE": str(AXE), "PIPESTATE_PICTURES": str(BUILD / "pictures")}
    command = [sys.executable, "-m", "pytest", "-q", *arguments, str(CHECKS)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def _browser() -> str | None:
    """Find a browser, or install one; return what is wrong."""
    if find_browser() is None and shutil.which("apt-get") and os.geteuid() == 0:
        for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "chromium"]):
            subprocess.run(command, check=False)
    if find_browser() is None:
        return f"no browser: install one of {', '.join(NAMES)}, or name one in PIPESTATE_BROWSER"
    return None


def _axe() -> str | None:
    """Fetch axe-core, once; return what is wrong."""
    if AXE.exists():
        return None
    if shutil.which("npm") is None:
        return "make browser needs npm, which is not here: install Node.js with npm"
    BUILD.mkdir(exist_ok=True)
    packed = subprocess.run(
        ["npm", "pack", "--silent", f"axe-core@{AXE_VERSION}"],
        cwd=BUILD,
        capture_output=True,
        text=True,
        check=False,
    )
    if packed.returncode:
        return f"npm cannot fetch axe-core: {packed.stderr.strip()}"
    archive = BUILD / packed.stdout.split()[-1]
    with tarfile.open(archive) as files:
        content = files.extractfile("package/axe.min.js")
        assert content is not None
        AXE.write_bytes(content.read())
    archive.unlink()
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
