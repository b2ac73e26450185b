"""Write what `verify.py --json` and `writer_stall.py --json` found into docs/scale.md, and the chart beside it.

    python benchmarks/_scale_page.py verify.json contract.json

Each part stands between `<!-- measured: NAME -->` and `<!-- end -->`; everything else on the page stays.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _chart import chart

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PICTURE = DOCS / "scale.md", DOCS / "scale.svg"

# What each check takes out of a table that grows; all others read the catalogue or the ledger.
READS = {
    "backfill-complete": "the rows of `site_progress` at ocr, by an index of them",
    "counters-consistent": "an index of contradictions, which is empty",
    "end-to-end": "the sites touched last, until one is found",
    "failure-rate": "the 10,000 sites touched last",
    "stuck-sites": "the sites in flight, by the index on the stage",
    "health-score": "the sites in flight, and at most 10,000 others",
    "recent-site-progress-writes": "what was touched since, by an index",
    "recent-legacy-column-writes": "what was written since, by an index",
    "duplicate-keys": "nothing: a valid unique index proves it",
    "invalid-status": "nothing: a validated rule proves it",
    "orphan-rows": "nothing: a validated key proves it",
    "processed": "the jobs of a day and their results, by indexes",
    "agreement": "the jobs of a day and their results, by indexes",
    "p95-latency": "the jobs of a day and their results, by indexes",
    "success-rate": "the results of a day, by an index",
    "jobs-without-results": "the jobs of a week and their results, by indexes",
}
FLAT_MS = 10.0  # less than that is noise


def verify_part(found: dict[str, Any]) -> str:
    sizes = found["sizes"]
    lines = [
        _machine(found["machine"]),
        "",
        "| rows in each table | `pipestate verify` | with `--jobs 2` | the queries in psql | memory |",
        "|---:|---:|---:|---:|---:|",
        *(
            f"| {each['rows']:,} | {each['verify_s']:.2f} s | {each['with_jobs_s']:.2f} s | {each['queries_s']:.2f} s "
            f"| {each['megabytes']:.0f} MB |"
            for each in sizes
        ),
        "",
        f"![Seconds by rows]({PICTURE.name})",
        "",
        *_checks(sizes),
        "",
        *_goals(found["goals"]),
    ]
    PICTURE.write_text(
        chart(
            [each["rows"] for each in sizes],
            {
                "the source documents' queries in psql": [each["queries_s"] for each in sizes],
                "pipestate verify, the whole process": [each["verify_s"] for each in sizes],
            },
        ),
        encoding="utf-8",
    )
    return "\n".join(lines)


def contract_part(found: dict[str, Any]) -> str:
    lines = [
        _machine(found["machine"]),
        "",
        f"| {found['sites']:,} sites, {found['writers']} writers | takes | longest lock | longest wait of a writer |",
        "|---|---:|---:|---:|",
        *(
            f"| {arm['name']} | {arm['seconds']:.0f} s | {arm['locked'] * 1e3:.0f} ms | {arm['longest'] * 1e3:.0f} ms |"
            for arm in found["arms"]
        ),
        "",
        *_goals(found["goals"]),
    ]
    return "\n".join(lines)


PARTS: dict[str, Callable[[dict[str, Any]], str]] = {"verify": verify_part, "contract": contract_part}


def _machine(about: dict[str, Any]) -> str:
    return (
        f"Measured on {about['on']}: {about['cores']} cores ({about['processor']}), {about['memory_gb']} GB,\n"
        f"{about['system']}, PostgreSQL {about['postgresql']}, Python {about['python']}."
    )


def _checks(sizes: list[dict[str, Any]]) -> list[str]:
    """By check, its slowest phase; those that read no table of the application in one line."""
    slowest: dict[str, list[float]] = {}
    for name in sizes[-1]["checks_ms"]:
        times = [each["checks_ms"][name] for each in sizes]
        check = name.rpartition("/")[2]
        slowest[check] = max(slowest.get(check, times), times, key=lambda each: each[-1])
    heads = " | ".join(f"{each['rows']:,}" for each in sizes)
    rows = [f"| check | {heads} | | it reads |", f"|---|{'---:|' * len(sizes)}---|---|"]
    for check in sorted(READS, key=lambda each: -slowest.get(each, [0])[-1]):
        if check in slowest:
            rows.append(_row(f"`{check}`", slowest.pop(check), READS[check], sizes))
    rest = [sum(times) for times in zip(*slowest.values(), strict=True)]
    rows.append(_row(f"the other {len(slowest)} together", rest, "the catalogue, and the ledger", sizes))
    return rows


def _row(name: str, times: list[float], reads: str, sizes: list[dict[str, Any]]) -> str:
    shown = " | ".join(f"{each:.1f} ms" for each in times)
    return f"| {name} | {shown} | {'linear' if _is_linear(times, sizes) else 'flat'} | {reads} |"


def _is_linear(times: list[float], sizes: list[dict[str, Any]]) -> bool:
    """Say whether, from the last size but one to the last, it grew at least half as fast as the rows."""
    if len(times) < 2 or times[-1] < FLAT_MS:
        return False
    return bool(times[-1] / times[-2] >= sizes[-1]["rows"] / sizes[-2]["rows"] / 2)


def _goals(goals: list[dict[str, Any]]) -> list[str]:
    return ["| wanted | at most | found |", "|---|---:|---:|"] + [
        f"| {goal['name']} | {goal['most']:g} | {goal['value']:.2f} |" for goal in goals
    ]


def write(name: str, text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    part = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not part.search(page):
        sys.exit(f"{PAGE} has no part <!-- measured: {name} --> … <!-- end -->")
    PAGE.write_text(part.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page), encoding="utf-8")


def main() -> int:
    for path in sys.argv[1:]:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        name = "contract" if "arms" in found else "verify"
        write(name, PARTS[name](found))
        print(f"{PAGE}: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
