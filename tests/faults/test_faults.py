"""The short form of `make faults`: each subject, each fault, the crowds and the documents, in a small number."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.case import Subject
from faults.crowds import finished_jobs, upgrades_at_once
from faults.documents import read_criteria, read_pages
from faults.fleet_upgrade import make_project, make_tenants, upgrade_with_kills
from faults.rehearsal import rehearse_one
from faults.strikes import strike_until_hit
from faults.subjects import (
    contract,
    downgrade,
    own_backfill,
    queues_clear,
    reconcile,
    shipped_backfill,
    upgrade,
)
from faults.world import World, open_world
from support.servers import Database

pytestmark = pytest.mark.scene


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as world:
        yield world


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        (upgrade, "sessions ended"),
        (contract, "server stopped"),
        (downgrade, "kill"),
        (own_backfill, "sessions ended"),
        (shipped_backfill, "kill"),
        (reconcile, "Redis stopped"),
        (queues_clear, "kill"),
        (rehearse_one, "kill"),
    ],
)
def test_after_a_fault_the_same_command_finishes_and_nothing_is_lost_or_doubled(
    world: World, subject: Subject, fault: str
) -> None:
    strikes = strike_until_hit(world, subject, fault, 0.5)
    assert [strike.complaints for strike in strikes] == [()] * len(strikes)
    assert strikes[-1].hit


def test_of_upgrades_at_once_all_end_well_and_leave_what_one_leaves(world: World) -> None:
    assert upgrades_at_once(world, 4) == []


def test_jobs_of_workers_that_are_killed_are_counted_once(world: World) -> None:
    calls, killed, complaints = finished_jobs(world, 2000, 3)
    assert complaints == []
    assert (calls >= 2000, killed) == (True, 3)


def test_whatever_a_page_or_a_criterion_says_it_is_read_or_refused() -> None:
    assert read_pages(200).complaints == []
    assert read_criteria(200).complaints == []


def test_a_fleet_is_upgraded_by_commands_that_are_killed(pg: Database, tmp_path: Path) -> None:
    """Sixty tenants, five kills; one tenant always fails. `fleet_upgrade.py` does it with a thousand and fifty."""
    make_tenants(pg.url, 60)
    done = upgrade_with_kills(make_project(tmp_path / "shop"), pg.url, 60, 5)
    assert done.kills == 5
    assert done.revisions == {"c3": 1, "d4": 59}
