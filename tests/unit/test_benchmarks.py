"""What benchmarks conclude from their figures: the figures are made up here, the conclusions are not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import _results
import _scale_page
from writer_stall import Arm, goals, quietest

ROWS = [10_000, 100_000, 1_000_000, 10_000_000]
ARM = Arm("an arm", seconds=10.0, writes=1000, p99=0.001, longest=0.01, at=1.0, locked=0.0, log_bytes=0)


@pytest.mark.parametrize(
    ("times", "word"),
    [
        ([1.0, 2.0, 5.0, 9.0], "flat"),
        ([40.0, 55.0, 42.0, 58.0], "flat"),
        ([6.0, 13.6, 78.0, 78.9], "flat from 1,000,000"),
        ([11.5, 30.7, 160.2, 27.6], "flat from 1,000,000"),
        ([1.0, 10.0, 100.0, 1000.0], "linear"),
        ([10.0, 20.0, 40.0, 80.0], "grows"),
    ],
)
def test_growth_is_judged_over_all_sizes(times: list[float], word: str) -> None:
    assert _scale_page.growth(times, ROWS) == word


def test_each_arm_is_compared_with_its_own_idle_arm() -> None:
    arms = {
        "up": replace(ARM, longest=0.02),
        "idle up": replace(ARM, longest=0.01),
        "down": replace(ARM, longest=0.06),
        "idle down": replace(ARM, longest=0.1),
    }
    up, down, _ = goals(arms, 20_000)
    assert [up.value, down.value] == pytest.approx([2.0, 0.6])


def test_the_way_back_is_set_beside_the_source_apart() -> None:
    longest = {"expand": 0.01, "up": 0.02, "down": 0.06, "seed": 2.0}
    arms = {name: replace(ARM, longest=took) for name, took in longest.items()}
    arms |= {f"idle {name}": ARM for name in ("expand", "up", "down")}
    *_, up, back = goals(arms, 20_000)
    assert [up.value, back.value] == pytest.approx([0.01, 0.03])


def test_a_stall_is_that_of_the_quietest_round_and_a_lock_the_longest_of_all() -> None:
    rounds = [
        {"up": replace(ARM, longest=0.03, locked=0.1)},
        {"up": replace(ARM, longest=0.02, locked=0.05)},
    ]
    found = quietest(rounds)["up"]
    assert (found.longest, found.locked) == (0.02, 0.1)


def test_the_page_has_the_kept_figures_of_the_other_benchmarks() -> None:
    kept = {
        "counters: finish_job beside raw": {"value": 0.9291, "wanted": "at least 0.85", "ok": True},
        "backfill: slow": {"value": 0.68, "wanted": "at least 0.8", "ok": False},
        "verify: elsewhere on the page": {"value": 1.0, "wanted": "at most 1.5", "ok": True},
    }
    assert _scale_page.others_part(kept).splitlines()[2:] == [
        "| backfill: slow | at least 0.8 | 0.68, missed |",
        "| counters: finish_job beside raw | at least 0.85 | 0.93 |",
    ]


def test_the_paper_part_takes_the_writers_log_away_and_says_its_sources() -> None:
    arms = [
        {"name": "back to 0005", "seconds": 36.0, "log_bytes": 11 * 10**9},
        {"name": "idle: back to 0005", "seconds": 18.0, "log_bytes": 5 * 10**8},
    ]
    kept = {"fleet: 1000 databases of 300 sites, milliseconds each": {"value": 36.0}}
    assert _scale_page.past_part({"sites": 10**7, "arms": arms}, kept).splitlines()[2:] == [
        "| 10⁹ rows, back to 0005 | 1.0 h | 1000 GB | 36 s, 10.0 GB besides the writers', at 10,000,000 sites |",
        "| 10⁴ tenants, `fleet verify` | 6 min | | 36 ms: fleet: 1000 databases of 300 sites, milliseconds each |",
    ]


def test_the_page_has_a_row_for_every_arm_and_its_idle_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, figures = tmp_path / "scale.md", tmp_path / "contract.json"
    parts = (
        f"<!-- measured: {name} -->\noutdated\n<!-- end -->\n" for name in ("contract", "past", "others")
    )
    page.write_text(f"before\n{''.join(parts)}after\n", encoding="utf-8")
    names = ("0006 and 0007", "back to 0005", "idle: 0006 and 0007", "idle: back to 0005")
    machine = json.loads(_results.FILE.read_text(encoding="utf-8")).popitem()[1]["machine"]
    arms = [
        {"name": name, "seconds": 1.0, "locked": 0.01, "longest": 0.02, "log_bytes": 10**6} for name in names
    ]
    figures.write_text(
        json.dumps({"machine": machine, "sites": 20_000, "writers": 4, "arms": arms, "goals": []}),
        encoding="utf-8",
    )
    monkeypatch.setattr(_scale_page, "PAGE", page)
    _scale_page.write_files([figures])
    written = page.read_text(encoding="utf-8")
    assert written.startswith("before\n<!--")
    assert written.endswith("-->\nafter\n")
    assert "outdated" not in written
    assert "| no migration, beside 0006 and 0007 | 1 s |" in written
    assert "| no migration, beside back to 0005 | 1 s |" in written
