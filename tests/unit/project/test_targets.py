"""What an upgrade does next, over histories with and without branches."""

from collections.abc import Collection
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.project.graph import Migrations, Revision, ends, find_targets, make_migrations, next_batch


def migrations(*revisions: str) -> Migrations:
    """Make migrations of `id<needs,needs#label`."""
    made = []
    for text in revisions:
        name, _, label = text.partition("#")
        id_, _, needs = name.partition("<")
        down = tuple(each for each in needs.split(",") if each)
        made.append(Revision(id_, down, (), (label,) if label else (), "", Path(f"{id_}.py"), 1))
    return make_migrations(made)


LINE = migrations("a", "b<a", "c<b", "d<c")
BRANCHED = migrations("a", "b<a", "c<b#contract", "d<b", "e<d")


def batch(
    of: Migrations, applied: str, *, gated: str = "c", closed: str = "", wanted: Collection[str] = ()
) -> str:
    found = next_batch(of, set(applied), wanted or of.heads, set(gated), set(closed))
    return "".join(revision.id for revision in found)


@pytest.mark.parametrize(
    ("applied", "closed", "runs"),
    [("", "", "ab"), ("ab", "", "c"), ("ab", "c", ""), ("abc", "", "d"), ("abcd", "", ""), ("", "c", "ab")],
)
def test_a_line_stops_at_a_closed_gate(applied: str, closed: str, runs: str) -> None:
    assert batch(LINE, applied, closed=closed) == runs


@pytest.mark.parametrize(
    ("applied", "closed", "runs"), [("", "", "abde"), ("abde", "", "c"), ("abde", "c", "")]
)
def test_other_branches_go_on(applied: str, closed: str, runs: str) -> None:
    assert batch(BRANCHED, applied, closed=closed) == runs


def test_only_what_is_wanted() -> None:
    assert batch(BRANCHED, "", wanted=["d"]) == "abd"
    assert batch(LINE, "", gated="", wanted=["b"]) == "ab"


def test_what_merges_behind_a_closed_gate_waits() -> None:
    merged = migrations("a", "c<a", "d<a", "m<c,d", "z<m")
    assert batch(merged, "", closed="c") == "ad"
    assert batch(merged, "ad", closed="c") == ""
    assert batch(merged, "adc") == "mz"


def test_ends() -> None:
    assert ends(BRANCHED, list(BRANCHED)) == ["c", "e"]
    assert ends(LINE, [LINE.by_id["a"], LINE.by_id["b"]]) == ["b"]
    assert ends(LINE, []) == []


def test_targets() -> None:
    assert find_targets(LINE, "head") == ("d",)
    assert find_targets(BRANCHED, "heads") == ("c", "e")
    assert find_targets(BRANCHED, "contract") == find_targets(BRANCHED, "contract@head") == ("c",)
    assert find_targets(migrations("abc1", "def2<abc1"), "ab") == ("abc1",)


@pytest.mark.parametrize(
    ("of", "name", "says"),
    [
        (BRANCHED, "head", "several (c, e)"),
        (migrations("ab1", "ab2<ab1"), "ab", "several revisions begin with this (ab1, ab2)"),
        (LINE, "+1", "no revision and no branch"),
        (LINE, "", "no revision and no branch"),
    ],
)
def test_no_target(of: Migrations, name: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_targets(of, name)
    assert says in str(caught.value)
