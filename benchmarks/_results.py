"""Keep what benchmarks found in `results.json`: every ratio with its goal, when, and on which machine.

A name says the size where the benchmark takes one, so that a small run leaves the figures of a large one alone.
"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from _process import machine

FILE = Path(__file__).with_name("results.json")


def keep(name: str, value: float, wanted: str, *, ok: bool) -> bool:
    """Write one figure down, under the benchmark that measured it; return whether its goal was met."""
    benchmark = Path(sys.argv[0]).stem
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    known[f"{benchmark}: {name}"] = {
        "value": round(value, 3),
        "wanted": wanted,
        "ok": ok,
        "arguments": " ".join(sys.argv[1:]),
        "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "machine": machine(),
    }
    FILE.write_text(json.dumps(known, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    return ok
