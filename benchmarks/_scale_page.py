"""Write what `verify.py --json` found into docs/explanation/scale.md, and the chart beside it.

What the other benchmarks found comes from results.json, each time.

    python benchmarks/_scale_page.py verify.json

Each part stands between `<!-- measured: NAME -->` and `<!-- end -->`; everything else on the page stays.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import _results
from _chart import chart

DOCS = Path(__file__).parent.parent / "docs" / "explanation"
PAGE, PICTURE = DOCS / "scale.md", DOCS / "scale.svg"

# What each check takes out of a table that grows with the rows, or of a ledger that grows with time; the others read
# the catalogue, or the newest row of something.
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
    "soak": "90 days of records of its phase",
    "stable-hours": "the observations of the hours that it needs, by an index",
    "reconciliation-schedule": "90 days of reconciliations",
    "reconciliation-runs": "90 days of reconciliations",
    "manual-interventions": "90 days of reconciliations",
}
FLAT_MS = 10.0  # less than that is too small to measure
STILL_FLAT = 1.5  # times as long is still flat


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


def goals_part(kept: dict[str, Any]) -> str:
    """List what the contract's benchmark found, and every missed goal; count the others."""
    goals = {name: found for name, found in kept.items() if not name.startswith(("verify:", "startup:"))}
    rows = [
        f"| {name} | {found['wanted']} | {found['value']:.2f}{'' if found['ok'] else ', missed'} |"
        for name, found in sorted(goals.items())
        if name.startswith("contract:") or not found["ok"]
    ]
    more = len(goals) - len(rows)
    counted = (
        f"{more} more goals are met; `benchmarks/results.json` has each figure with its machine and day."
    )
    return "\n".join(["| benchmark | wanted | found |", "|---|---|---:|", *rows, "", counted])


def _machine(about: dict[str, Any]) -> str:
    return (
        f"Measured on {about['on']}: {about['cores']} cores ({about['processor']}), {about['memory_gb']} GB,\n"
        f"{about['system']}, PostgreSQL {about['postgresql']}, Python {about['python']}; load before: "
        f"{about['load_before']}."
    )


def _checks(sizes: list[dict[str, Any]]) -> list[str]:
    """By check, its slowest phase; those below ten milliseconds at the largest size in one line."""
    slowest: dict[str, list[float]] = {}
    for name in sizes[-1]["checks_ms"]:
        times = [each["checks_ms"][name] for each in sizes]
        check = name.rpartition("/")[2]
        slowest[check] = max(slowest.get(check, times), times, key=lambda each: each[-1])
    heads = " | ".join(f"{each['rows']:,}" for each in sizes)
    rows = [f"| check | {heads} | | it reads |", f"|---|{'---:|' * len(sizes)}---|---|"]
    for check in sorted(READS, key=lambda each: -slowest.get(each, [0])[-1]):
        if slowest.get(check, [0])[-1] >= FLAT_MS:
            rows.append(_row(f"`{check}`", slowest.pop(check), READS[check], sizes))
    rest = [sum(times) for times in zip(*slowest.values(), strict=True)]
    rows.append(
        _row(
            f"the other {len(slowest)} together",
            rest,
            "indexes, the catalogue, the newest rows of the ledger",
            sizes,
        )
    )
    return rows


def _row(name: str, times: list[float], reads: str, sizes: list[dict[str, Any]]) -> str:
    shown = " | ".join(f"{each:.1f} ms" for each in times)
    return f"| {name} | {shown} | {growth(times, [each['rows'] for each in sizes])} | {reads} |"


def growth(times: list[float], rows: list[int]) -> str:
    """Say how a check grows over all sizes.

    It is flat from the first size that no larger one exceeds by half, times below ten milliseconds aside. Where that
    is only the largest size itself, the last step decides: linear if it grew at least half as fast as the rows.
    """
    most = [max(FLAT_MS, STILL_FLAT * each) for each in times]
    begin = next(n for n, bound in enumerate(most) if all(each <= bound for each in times[n + 1 :]))
    if begin == 0:
        return "flat"
    if begin < len(times) - 1:
        return f"flat from {rows[begin]:,}"
    return "linear" if times[-1] / times[-2] >= rows[-1] / rows[-2] / 2 else "grows"


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


def write_files(paths: list[Path]) -> None:
    """Write each file of figures into the page, and the kept goals."""
    for path in paths:
        write("verify", verify_part(json.loads(path.read_text(encoding="utf-8"))))
    write("goals", goals_part(json.loads(_results.FILE.read_text(encoding="utf-8"))))
    print(PAGE)


if __name__ == "__main__":
    write_files([Path(path) for path in sys.argv[1:]])
