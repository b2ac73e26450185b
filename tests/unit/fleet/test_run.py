"""Those that are alike are one group, and the exit code is the worst of all."""

import pytest

from pipestate.config import parse_url
from pipestate.fleet.evaluate import Answer, PhaseFound, Wrong
from pipestate.fleet.run import group, worst_code
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


@pytest.mark.parametrize(
    ("codes", "worst"), [((0, 0), 0), ((0, 1), 1), ((1, 3, 2), 3), ((1, 2), 2), ((), 2)], ids=str
)
def test_the_exit_code_is_the_highest(codes: tuple[int, ...], worst: int) -> None:
    assert worst_code([answer(f"t{number}", code) for number, code in enumerate(codes)]) == worst


def test_a_database_that_is_finished_with_the_phase_is_no_failure_unless_all_are() -> None:
    finished = answer("done", 2, gate=Gate.FINISHED)
    assert worst_code([finished, answer("ready")]) == 0
    assert worst_code([finished, answer("not yet", 2, gate=Gate.NOT_STARTED)]) == 2
    assert worst_code([finished, finished]) == 2


def test_those_that_are_alike_are_one_group_with_the_checks_that_close_it() -> None:
    groups = group(
        [
            answer("c", 1, gate=Gate.CLOSED, checks="quiet soak"),
            answer("a", 1, gate=Gate.CLOSED, checks="soak"),
            *(answer(name) for name in ("b", "d", "e")),
        ]
    )
    assert [each.names for each in groups] == [("b", "d", "e"), ("a", "c")]
    assert groups[1].checks == (("soak", 2), ("quiet", 1))


def test_one_server_that_is_down_is_one_group_whatever_its_databases_are_called() -> None:
    said = 'cannot reach {url}: database "{name}" does not exist'
    (only,) = group([answer(name, 3, error=said) for name in ("a", "b", "c")])
    assert only.state.error == "cannot reach it: database it does not exist"
    assert only.names == ("a", "b", "c")


def test_checks_stand_in_the_order_of_the_runbook() -> None:
    checks = [f"check-{number}" for number in range(12)]
    (only,) = group([answer("a", 1, gate=Gate.CLOSED, checks=" ".join(checks))])
    assert [check for check, _ in only.checks] == checks
