"""What benchmarks conclude from their figures: the figures are made up here, the conclusions are not."""

from dataclasses import replace
from pathlib import Path

import pytest

import _scale_page
from writer_wait import Arm, goals, quietest

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


def test_a_wait_is_that_of_the_quietest_round_and_a_lock_the_longest_of_all() -> None:
    rounds = [
        {"up": replace(ARM, longest=0.03, locked=0.1)},
        {"up": replace(ARM, longest=0.02, locked=0.05)},
    ]
    found = quietest(rounds)["up"]
    assert (found.longest, found.locked) == (0.02, 0.1)


def test_the_page_has_the_contract_and_every_missed_goal() -> None:
    kept = {
        "counters: finish_job beside raw": {"value": 0.9291, "wanted": "at least 0.85", "ok": True},
        "backfill: slow": {"value": 0.68, "wanted": "at least 0.8", "ok": False},
        "contract: soft drop: lock in ms": {"value": 20.73, "wanted": "<= 100", "ok": True},
        "verify: elsewhere on the page": {"value": 1.0, "wanted": "at most 1.5", "ok": True},
    }
    written = _scale_page.goals_part(kept).splitlines()[2:]
    assert written[:2] == [
        "| backfill: slow | at least 0.8 | 0.68, missed |",
        "| contract: soft drop: lock in ms | <= 100 | 20.73 |",
    ]
    assert written[-1].startswith("1 more goals are met")


def test_the_part_between_its_markers_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "scale.md"
    page.write_text("before\n<!-- measured: goals -->\noutdated\n<!-- end -->\nafter\n", encoding="utf-8")
    monkeypatch.setattr(_scale_page, "PAGE", page)
    _scale_page.write_files([])
    written = page.read_text(encoding="utf-8")
    assert written.startswith("before\n<!--")
    assert written.endswith("-->\nafter\n")
    assert "outdated" not in written
