"""What becomes of a stale row, from values alone: no database, no directory."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipestate.core.errors import ConfigError
from pipestate.pipeline.backfill.stale_rows import (
    DocumentTally,
    SiteCounts,
    decide,
)
from pipestate.pipeline.planning import Result, SubjectOutcome
from pipestate.pipeline.stages import STAGES
from pipestate.pipeline.storage import Documents, Storage

names = st.frozensets(st.sampled_from([f"c/{number}" for number in range(8)]))
documents = st.builds(lambda pdfs, texts: Documents(dict.fromkeys(pdfs, "x.pdf"), texts), names, names)
expected = st.integers(0, 12)
NOTHING = Documents({}, frozenset())


@dataclass(frozen=True)
class Given(Storage):
    """A storage directory with the same documents for each site."""

    found: Documents = NOTHING

    def documents(self, _subdomain: str) -> Documents:
        return self.found


def decided(
    found: Documents = NOTHING,
    expected: int | None = 1,
    *,
    has_site: bool = True,
    stage: str | None = None,
    tally: DocumentTally | None = None,
) -> Result[SiteCounts]:
    return decide(("a.gov", expected, has_site, stage), Given(Path(), found), tally or DocumentTally())


def test_a_row_without_a_site_is_an_orphan() -> None:
    result = decided(has_site=False)
    assert result == (SiteCounts("a.gov"), SubjectOutcome.ORPHANED, "there is no such site")


@pytest.mark.parametrize("stage", [*STAGES, "completed"])
def test_a_site_with_a_stage_of_its_own_has_moved_on(stage: str) -> None:
    assert decided(stage=stage).outcome is SubjectOutcome.MOVED_ON


@pytest.mark.parametrize(
    ("pdfs", "texts", "expecting", "counts"),
    [
        (3, 2, 99, (2, 3)),
        (1, 4, 1, (4, 4)),
        (0, 2, 15, (2, 15)),
        (0, 2, 0, (2, 2)),
        (0, 0, 15, (0, 15)),
    ],
)
def test_counters_come_from_the_documents(
    pdfs: int, texts: int, expecting: int, counts: tuple[int, int]
) -> None:
    found = Documents(
        {f"c/{number}": "" for number in range(pdfs)}, frozenset(f"c/{number}" for number in range(texts))
    )
    assert decided(found, expecting) == (
        SiteCounts("a.gov", *counts),
        SubjectOutcome.MIGRATED,
        None,
    )


@given(expected, documents)
def test_counters_are_never_impossible(expecting: int, found: Documents) -> None:
    site, outcome, reason = decided(found, expecting)
    assert 0 <= site.completed <= site.total
    assert site.completed + site.failed == site.total
    assert (site.total == 0) == (outcome is SubjectOutcome.EMPTY) == (reason is not None)
    assert site.completed == len(found.texts)
    assert site.total >= len(found.pdfs)


@given(st.lists(st.tuples(expected, documents), max_size=30))
def test_a_directory_is_plausible_when_one_site_in_ten_has_a_document(
    rows: list[tuple[int, Documents]],
) -> None:
    tally = DocumentTally()
    for expecting, found in rows:
        decided(found, expecting, tally=tally)
    expect = [found for expecting, found in rows if expecting > 0]
    having = [found for found in expect if found != NOTHING]
    if len(expect) >= 10 and len(having) * 10 < len(expect):
        with pytest.raises(ConfigError, match=f"only {len(having)} of {len(expect)} sites"):
            tally.require()
    else:
        tally.require()
