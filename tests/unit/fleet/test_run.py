"""Those that are alike are one group, and the exit code is the worst of all."""

import pytest

from pipestate.config import parse_url
from pipestate.fleet.ask import Answer, PhaseFound, Wrong
from pipestate.fleet.run import Tally
from pipestate.verify.report import Gate


def answer(
    name: str, exit_code: int = 0, *, gate: Gate = Gate.OPEN, checks: str = "", error: str = ""
) -> Answer:
    wrong = tuple(Wrong(check, "failed", "block", "no") for check in checks.split())
    url = parse_url(f"postgresql://app:secret@db/{name}")
    if error:
        return Answer(
            name, url, None, exit_code, error=error.format(url=f"postgresql://app:***@db/{name}", name=name)
        )
    return Answer(
        name, url, None, exit_code, revision="b2", head="d4", phases=(PhaseFound("p/q", gate, wrong),)
    )


def tally(*answers: Answer) -> Tally:
    found = Tally()
    for each in answers:
        found.add(each)
    return found


@pytest.mark.parametrize(
    ("codes", "worst"), [((0, 0), 0), ((0, 1), 1), ((1, 3, 2), 3), ((1, 2), 2), ((), 2)], ids=str
)
def test_the_exit_code_is_the_highest(codes: tuple[int, ...], worst: int) -> None:
    assert tally(*(answer(f"t{number}", code) for number, code in enumerate(codes))).exit_code == worst


def test_a_database_that_is_past_the_gate_is_no_failure_unless_all_are() -> None:
    past = answer("done", 2, gate=Gate.PAST)
    assert tally(past, answer("ready")).exit_code == 0
    assert tally(past, answer("not yet", 2, gate=Gate.AHEAD)).exit_code == 2
    assert tally(past, past).exit_code == 2


def test_those_that_are_alike_are_one_group_with_the_checks_that_close_it() -> None:
    groups = tally(
        answer("c", 1, gate=Gate.CLOSED, checks="quiet soak"),
        answer("a", 1, gate=Gate.CLOSED, checks="soak"),
        *(answer(name) for name in ("b", "d", "e")),
    ).groups()
    assert [group.names for group in groups] == [("b", "d", "e"), ("a", "c")]
    assert groups[1].checks == (("soak", 2), ("quiet", 1))


def test_one_server_that_is_down_is_one_group_whatever_its_databases_are_called() -> None:
    said = 'cannot reach {url}: database "{name}" does not exist'
    (group,) = tally(*(answer(name, 3, error=said) for name in ("a", "b", "c"))).groups()
    assert group.state.error == "cannot reach it: database it does not exist"
    assert group.names == ("a", "b", "c")
