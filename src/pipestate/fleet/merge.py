"""Merge the JSON lines of several shards, each run on a separate machine, into one result."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipestate.core.errors import ConfigError
from pipestate.database.urls import parse_url
from pipestate.fleet.ask import Answer, TenantUpgrade, UpgradeOutcome
from pipestate.fleet.run import Fleet, Tally, Wave
from pipestate.fleet.upgrade import parse_shard

NO_LINE = "{place}: not a line of `pipestate fleet upgrade --json`: give the files that it wrote"


@dataclass(frozen=True, slots=True)
class Merged:
    """The sum of all shards, each database's last line, and the missing or interrupted shards."""

    fleet: Fleet
    lines: tuple[Mapping[str, Any], ...]
    problems: tuple[str, ...]


def merge(files: Sequence[Path]) -> Merged:
    """Join the lines; the last line of each database counts."""
    last: dict[tuple[object, ...], Mapping[str, Any]] = {}
    summaries: list[Mapping[str, Any]] = []
    problems: list[str] = []
    for file in files:
        lines = list(_read(file))
        for line in lines:
            if line["kind"] == "database":
                last[line["url"], line["schema"], line["name"]] = line
        if lines and lines[-1]["kind"] == "summary":
            summaries.append(lines[-1])
        else:
            problems.append(f"{file} ends without a summary: its command was killed; run that shard again")
    problems += _missing(summaries)
    return Merged(_sum(list(last.values()), summaries, bool(problems)), tuple(last.values()), tuple(problems))


def _read(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}"
        ) from error
    for number, line in enumerate(text.splitlines(), 1):
        try:
            data = json.loads(line)
            known = _answer(data) if data["kind"] == "database" else data["waves"]
            known = known and (data["kind"], data["schema_version"]) in (("database", 1), ("summary", 1))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(NO_LINE.format(place=f"{file}:{number}")) from error
        if not known:
            raise ConfigError(NO_LINE.format(place=f"{file}:{number}"))
        yield data


def _missing(summaries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Name the shards with a missing summary, or with one written at Ctrl-C."""
    shards = [parse_shard(each["shard"]) for each in summaries if each["shard"]]
    for of in sorted({shard.of for shard in shards}):
        seen = {shard.number for shard in shards if shard.of == of}
        if absent := [f"{number}/{of}" for number in range(1, of + 1) if number not in seen]:
            yield f"no file has the shard {', '.join(absent)}: run it, and merge again"
    for each in summaries:
        if each["interrupted"]:
            yield f"the shard {each['shard'] or '1/1'} was interrupted: run it again"


def _sum(
    lines: Sequence[Mapping[str, Any]], summaries: Sequence[Mapping[str, Any]], is_partial: bool
) -> Fleet:
    tally, waves = Tally(), defaultdict[int, Counter[str]](Counter)
    for line in lines:
        answer = _answer(line)
        tally.add(answer)
        assert answer.upgrade is not None
        waves[answer.upgrade.wave][answer.upgrade.outcome] += 1
    left = sum(each["left"] for each in summaries)
    stopped = [f"shard {each['shard']}: {each['stopped']}" for each in summaries if each["stopped"]]
    code = tally.exit_code if tally.kept else 0
    return tally.result(
        len(lines) + left,
        3 if is_partial else code,
        max((each["duration_ms"] for each in summaries), default=0.0),
        planned=any(each["pending"] for each in waves.values()),
        left=left,
        waves=tuple(Wave(number, found.total(), found) for number, found in sorted(waves.items())),
        stopped="; ".join(stopped) or None,
    )


def _answer(line: Mapping[str, Any]) -> Answer:
    """Parse a line into the fields that the sum needs."""
    done = line["upgrade"]
    pending = (*done["applied"], *(line["pending"] or ()))
    return Answer(
        line["name"],
        parse_url(line["url"]),
        line["schema"],
        line["exit_code"],
        line["duration_ms"],
        line["error"],
        revision=line["revision"],
        head=line["head"],
        warnings=tuple(line["warnings"]),
        upgrade=TenantUpgrade(
            done["wave"],
            UpgradeOutcome(done["outcome"]),
            done["before"],
            pending,
            tuple(done["applied"]),
            tuple((each["revision"], each["gate"]) for each in done["waiting"]),
            tuple(each["revision"] for each in done["held"]),
            tuple(each["revision"] for each in done["held"] if not each["gated"]),
        ),
    )
