"""Waves and shards: every tenant is in one of them, and wrong ones are refused in a sentence."""

import pytest

from pipestate.core.errors import ConfigError
from pipestate.fleet.upgrade import Shard, cut, parse_shard, parse_waves


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


def test_each_tenant_is_in_one_shard_and_stays_there() -> None:
    tenants = [("db", f"t_{number}") for number in range(2000)]
    shards = [Shard(number, 20) for number in range(1, 21)]
    sizes = [sum(shard.holds(each) for each in tenants) for shard in shards]
    assert sum(sizes) == len(tenants)
    assert min(sizes) > 50
    assert all(sum(shard.holds(each) for shard in shards) == 1 for each in tenants)


@pytest.mark.parametrize(
    ("text", "environ", "said"),
    [
        ("0/20", {}, "shards count from 1 to 20"),
        ("21/20", {}, "shards count from 1 to 20"),
        ("a/b", {}, "write 3/20"),
        ("20", {}, "JOB_COMPLETION_INDEX, which is not set"),
        ("20", {"JOB_COMPLETION_INDEX": "20"}, "shards count from 1 to 20"),
    ],
)
def test_other_shards_are_refused(text: str, environ: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_shard(text, environ)
