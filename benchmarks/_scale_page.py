"""Write what `verify.py --json` and `writer_stall.py --json` found into docs/explanation/scale.md, and the chart beside it.

What the other benchmarks found comes from results.json, each time.

    python benchmarks/_scale_page.py verify.json contract.json

Each part stands between `<!-- measured: NAME -->` and `<!-- end -->`; everything else on the page stays.
"""

import json
import re
import sys
from collections.abc import Callable
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
    "stable-hours": "the observations of the hours that it asks for, by an index",
    "reconciliation-schedule": "90 days of reconciliations",
    "reconciliation-runs": "90 days of reconciliations",
    "manual-interventions": "90 days of reconciliations",
}
FLAT_MS = 10.0  # less than that is noise
MANY_ROWS, MANY_TENANTS = 10**9, 10**4
# Kept figures from which 10⁹ rows and 10⁴ tenants follow: what, how many, and in which unit the figure is.
PAST = {
    "backfill: 5,000,000 rows, a page's backfill, rows a second": (
        *("10⁹ rows, a page's backfill", MANY_ROWS),
        "rows/s",
    ),
    "fleet: 1000 databases of 300 sites, milliseconds each": (
        "10⁴ tenants, `fleet verify`",
        MANY_TENANTS,
        "ms",
    ),
    "fleet: 1000 databases of 300 sites, milliseconds of the process's own work each": (
        *("10⁴ tenants, one process at the least, however many servers", MANY_TENANTS),
        "ms",
    ),
}
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


def contract_part(found: dict[str, Any]) -> str:
    lines = [
        _machine(found["machine"]),
        "",
        f"| {found['sites']:,} sites, {found['writers']} writers | takes | longest lock | longest wait of a writer |",
        "|---|---:|---:|---:|",
        *(
            f"| {arm['name'].replace('idle:', 'no migration, beside')} | {arm['seconds']:.0f} s "
            f"| {arm['locked'] * 1e3:.0f} ms | {arm['longest'] * 1e3:.0f} ms |"
            for arm in found["arms"]
        ),
        "",
        *_goals(found["goals"]),
    ]
    return "\n".join(lines)


def others_part(kept: dict[str, Any]) -> str:
    """List what benchmarks without a part of their own have found."""
    rows = (
        f"| {name.replace('|', '&#124;')} | {found['wanted']} "
        f"| {found['value']:.2f}{'' if found['ok'] else ', missed'} |"
        for name, found in sorted(kept.items())
        if not name.startswith(("verify:", "startup:"))
    )
    return "\n".join(["| benchmark | wanted | found |", "|---|---|---:|", *rows])


def past_part(chain: dict[str, Any], kept: dict[str, Any]) -> str:
    """Work out 10⁹ rows and 10⁴ tenants in proportion to what was measured; say from which figure."""
    times = MANY_ROWS / chain["sites"]
    idle = {arm["name"]: arm for arm in chain["arms"]}
    rows = ["| on paper | takes | log | in proportion to |", "|---|---:|---:|---|"]
    for arm in chain["arms"]:
        if beside := idle.get(f"idle: {arm['name']}"):
            log = arm["log_bytes"] - beside["log_bytes"] / beside["seconds"] * arm["seconds"]
            rows.append(
                f"| 10⁹ rows, {arm['name']} | {arm['seconds'] * times / 3600:.1f} h | {max(log, 0) * times / 1e9:.0f} GB "
                f"| {arm['seconds']:.0f} s, {max(log, 0) / 1e9:.1f} GB besides the writers', at {chain['sites']:,} sites |"
            )
    for name, (what, amount, per) in PAST.items():
        if name in kept:
            value = kept[name]["value"]
            hours = (amount * value / 1e3 if per == "ms" else amount / value) / 3600
            takes = f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.0f} min"
            rows.append(f"| {what} | {takes} | | {value:,.0f} {per}: {name} |")
    return "\n".join(rows)


PARTS: dict[str, Callable[[dict[str, Any]], str]] = {"verify": verify_part, "contract": contract_part}


def _machine(about: dict[str, Any]) -> str:
    return (
        f"Measured on {about['on']}: {about['cores']} cores ({about['processor']}), {about['memory_gb']} GB,\n"
        f"{about['system']}, PostgreSQL {about['postgresql']}, Python {about['python']}; load before: "
        f"{about['load_before']}."
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
    rows.append(
        _row(
            f"the other {len(slowest)} together",
            rest,
            "the catalogue, and the newest rows of the ledger",
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
    """Write the part of each file of figures into the page."""
    kept = json.loads(_results.FILE.read_text(encoding="utf-8"))
    for path in paths:
        found = json.loads(path.read_text(encoding="utf-8"))
        name = "contract" if "arms" in found else "verify"
        write(name, PARTS[name](found))
        if name == "contract":
            write("past", past_part(found, kept))
        print(f"{PAGE}: {name}")
    write("others", others_part(kept))
    print(f"{PAGE}: others")


if __name__ == "__main__":
    write_files([Path(path) for path in sys.argv[1:]])
