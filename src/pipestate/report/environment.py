"""Templates of the report: every value is escaped, shortened, and has its control characters shown."""

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipestate.core.text import html
from pipestate.report import words
from pipestate.report.chart import number
from pipestate.report.prose import inline
from pipestate.status.facts import Rows, is_distribution
from pipestate.status.opening import days, lasting
from pipestate.verify.report import Json

TEMPLATES = Path(__file__).parent / "templates"
LONGEST_TEXT = 3000
LONGEST_CELL = 300


def make_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "cell": cell,
        "database_name": words.database_name,
        "database_place": words.database_place,
        "days": days,
        "identifier": lambda text: words.identifier(shortened(text, LONGEST_TEXT)),
        "inline": inline,
        "lasting": lasting,
        "moment": words.moment,
        "number": number,
        "places": words.places,
        "short_path": words.short_path,
        "strip_words": words.strip_words,
        "utc": words.utc,
        "whole": whole,
    }
    environment.globals["day_words"] = words.DAY_WORDS
    return environment


def shown(value: Any) -> Any:
    """Prepare a value for escaping: shorten long text and make control characters visible."""
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
    if isinstance(value, str):
        return words.timestamp(value) or shortened(value, LONGEST_CELL)
    return shortened(json.dumps(value, ensure_ascii=False), LONGEST_CELL)


def whole(rows: Rows) -> int:
    """Return the sum of the amounts if the rows are a distribution of several, else 0.

    >>> whole([{"region": "north", "a.b": 12}, {"region": "south", "a.b": 3}]), whole([{"region": "north", "n": 3}])
    (15, 0)
    """
    if len(rows) < 2 or not is_distribution(rows):
        return 0
    _, amount, *_ = rows[0]
    return sum(int(str(row[amount])) for row in rows)


def shortened(text: str, longest: int) -> str:
    """Cut a text after this many characters.

    >>> shortened("abcdef", 4)
    'abcd…'
    """
    return text if len(text) <= longest else f"{text[:longest]}…"


def style() -> tuple[Markup, str]:
    """Return the report's style, and its hash: the page's policy allows this style only."""
    text = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    return Markup(text), f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
