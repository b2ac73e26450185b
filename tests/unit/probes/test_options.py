"""The options of a probe: words and names, what the environment says, and moments."""

import re

import pytest

from pipestate.errors import ConfigError
from pipestate.probes.options import parse_options

NAMES = ("body", "header", "timeout")


def test_words_and_names_are_told_apart_and_quoted_as_in_a_shell() -> None:
    given = parse_options(
        """POST https://host/?a=b%20c body='{"x": "y z"}' header="A: b" header=C:d""", names=NAMES
    )
    assert given.words == ("POST", "https://host/?a=b%20c")
    assert given.one("body") == '{"x": "y z"}'
    assert given.named["header"] == ("A: b", "C:d")


def test_the_environment_is_filled_in_after_the_words_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", """a b" 'c ${HOME}""")
    given = parse_options('${API_KEY} header="Authorization: Bearer ${API_KEY}"', names=NAMES)
    assert given.words == ("""a b" 'c ${HOME}""",)
    assert given.one("header") == """Authorization: Bearer a b" 'c ${HOME}"""


def test_moments_are_in_utc() -> None:
    first, second = parse_options("${now} x${now-1h}x", names=NAMES).words
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first)
    assert second < f"x{first}x"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour=blue", "there is no option colour=; there are body=, header=, timeout="),
        ("'https://host", "a quotation mark is never closed"),
        ("${NOT_SET_ANYWHERE}/x", "the environment variable NOT_SET_ANYWHERE is not set"),
        ("${}", "the environment variable ${} is not set"),
        ("${now-soon}", "${now-…} soon: write 30d, 12h, 45m or 30s"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        parse_options(text, names=NAMES)


def test_a_name_that_stands_twice_is_said_when_it_is_asked_for() -> None:
    given = parse_options("timeout=1s timeout=2s", names=NAMES)
    with pytest.raises(ConfigError, match="timeout= stands there twice"):
        given.seconds("timeout", 10)
    with pytest.raises(ConfigError, match=r"timeout= soon: write 12h, 45m or 30s"):
        parse_options("timeout=soon", names=NAMES).seconds("timeout", 10)
    assert parse_options("timeout=2m", names=NAMES).seconds("timeout", 10) == 120
    assert parse_options("", names=NAMES).seconds("timeout", 10) == 10
