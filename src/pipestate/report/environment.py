"""The templates of the page: everything that they write is escaped, made visible and bounded."""

import json
from base64 import b64encode
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipestate.report.prose import inline
from pipestate.report.scale import number
from pipestate.report.words import moment
from pipestate.safe import html
from pipestate.standing.distribution import Rows, is_distribution
from pipestate.standing.moments import days, lasting
from pipestate.verify.values import Json

TEMPLATES = Path(__file__).parent / "templates"
LONGEST_TEXT = 3000
LONGEST_CELL = 300


def make_environment(now: datetime) -> Environment:
    """Return templates that write moments as seen from `now`."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "lasting": lasting,
        "number": number,
        "cell": cell,
        "inline": inline,
        "days": days,
    }
    environment.filters["whole"] = whole
    environment.filters["moment"] = partial(moment, now=now)
    return environment


def shown(value: Any) -> Any:
    """Make a value ready to be escaped: nobody reads a text without end, and control characters are seen."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return "" if value is None else value
    return html(shortened(value, LONGEST_TEXT))


def cell(value: Json) -> str:
    """Write a value of a row.

    >>> cell(True), cell({"a": 1}), cell(None)
    ('true', '{"a": 1}', 'NULL')
    """
    if value is None:
        return "NULL"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shortened(text, LONGEST_CELL)


def whole(rows: Rows) -> int:
    """Return the sum of the amounts where the rows are a distribution of several, else 0.

    >>> whole([{"region": "north", "a.b": 12}, {"region": "south", "a.b": 3}]), whole([{"region": "north", "n": 3}])
    (15, 0)
    """
    if len(rows) < 2 or not is_distribution(rows):
        return 0
    _, amount, *_ = rows[0]
    return sum(int(str(row[amount])) for row in rows)


def shortened(text: str, longest: int) -> str:
    """
    >>> shortened("abcdef", 4)
    'abcd…'
    """
    return text if len(text) <= longest else f"{text[:longest]}…"


def style() -> tuple[Markup, str]:
    """Return the page's style, and the hash by which the page allows it and no other."""
    text = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    return Markup(text), f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
