"""Waves: every tenant is in one of them, and wrong ones are refused in a sentence."""

import pytest

from pipestate.core.errors import ConfigError
from pipestate.fleet.upgrade import cut, parse_waves


@pytest.mark.parametrize(
    ("waves", "number", "sizes"),
    [
        ("1,10%,100%", 1000, [1, 99, 900]),
        ("1,10%,100%", 3, [1, 2]),
        ("1,10%,100%", 1, [1]),
        ("5, 2, 100%", 8, [5, 3]),
        ("10%", 25, [3]),
        ("1,100%", 0, []),
    ],
)
def test_waves_end_where_they_say(waves: str, number: int, sizes: list[int]) -> None:
    assert [len(wave) for wave in cut(range(number), parse_waves(waves))] == sizes


@pytest.mark.parametrize("waves", ["", "0", "101%", "1;2", "-1", "ten"])
def test_other_waves_are_refused(waves: str) -> None:
    with pytest.raises(ConfigError, match="write how far each wave goes"):
        parse_waves(waves)
