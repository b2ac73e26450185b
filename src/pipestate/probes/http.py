"""The probe `http`: a number in what a web server answers, as JSON.

open_tickets = http https://tickets.example.com/api/search?state=open path=$.total
failed_runs = http POST ${API_URL}/runs/count body='{"state": "FAILED", "after": "${now-1h}"}'
              header="Authorization: Bearer ${API_KEY}"
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pipestate.errors import ConfigError, Unreachable
from pipestate.probes.json_number import Path as JsonPath
from pipestate.probes.json_number import number_at, parse_path
from pipestate.probes.options import Options, parse_options
from pipestate.web import Address, call, parse_address

NAMES = ("path", "body", "header", "timeout")
TIMEOUT_S = 10.0
MOST_BYTES = 10_000_000
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*([ -~]+)")


@dataclass(frozen=True, slots=True)
class HttpQuestion:
    """What to ask, and where the number is in the answer."""

    address: Address
    method: str
    body: bytes | None = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    path: JsonPath
    timeout_s: float


def probe(ini: Path, options: str) -> float:
    """Ask the address that the options name, and return the number at their path."""
    question = parse_question(parse_options(options, names=NAMES))
    answer = call(
        question.address,
        method=question.method,
        body=question.body,
        headers=question.headers,
        timeout_s=question.timeout_s,
        most=MOST_BYTES + 1,
    )
    if not answer.ok:
        raise Unreachable(f"{question.address.shown} answered {answer.status}")
    if len(answer.body) > MOST_BYTES:
        raise Unreachable(f"{question.address.shown} answered more than {MOST_BYTES:,} bytes")
    try:
        return number_at(answer.body, question.path)
    except Unreachable as error:
        raise Unreachable(f"{question.address.shown}: {error}") from error


def parse_question(options: Options) -> HttpQuestion:
    """Read the options; ConfigError with what to write, which shows neither a token nor a body."""
    method, *rest = options.words if options.words[:1] in (("GET",), ("POST",)) else ("", *options.words)
    if len(rest) != 1:
        raise ConfigError("write one address, for example https://host/count path=$.total")
    body = options.one("body")
    if body is not None and method != "POST":
        raise ConfigError("body= is for POST: write POST before the address")
    headers = {"Accept": "application/json"} | ({} if body is None else {"Content-Type": "application/json"})
    return HttpQuestion(
        parse_address(rest[0], source="the address"),
        method or "GET",
        _json(body) if body is not None else None,
        headers | dict(_headers(options.named.get("header", ()))),
        parse_path(options.one("path") or ""),
        options.seconds("timeout", TIMEOUT_S),
    )


def _headers(given: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in given:
        found = _HEADER.fullmatch(text.strip())
        if found is None:
            raise ConfigError('a header= is not one: write header="Name: value"')
        yield found[1], found[2]


def _json(body: str) -> bytes:
    try:
        json.loads(body)
    except ValueError as error:
        raise ConfigError("body= is no JSON: quote all of it, body='{\"a\": 1}'") from error
    return body.encode()
