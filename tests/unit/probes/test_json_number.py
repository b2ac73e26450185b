"""One number in a JSON document: paths, lists, texts, and what is none."""

import json

import pytest

from pipestate.errors import ConfigError, Unreachable
from pipestate.probes.json_number import number_at, parse_path

DOCUMENT = {
    "count": 3,
    "rate": 0.5,
    "items": [{"total": "12"}, {"total": None}],
    "data": {"result": [{"value": [1700000000, "41"]}], "a.b": {"c d": 9}},
    "yes": True,
    "text": "many",
    "0": 5,
}


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("count", 3),
        ("$.rate", 0.5),
        ("items", 2),
        ("$.items[0].total", 12),
        ("items.0.total", 12),
        ("$.data.result[0].value[1]", 41),
        ("$.data['a.b'][\"c d\"]", 9),
        ("$.0", 5),
    ],
)
def test_a_path_leads_to_a_number(path: str, number: float) -> None:
    assert number_at(json.dumps(DOCUMENT).encode(), parse_path(path)) == number


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7), ("[]", 0), ("[1, 2]", 2), ('"7.5"', 7.5), (" -1\n", -1)]
)
def test_without_a_path_it_is_the_document_itself(text: str, number: float) -> None:
    assert number_at(text.encode(), parse_path("")) == number
    assert number_at(text.encode(), parse_path("$")) == number


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("total", "the answer has no $.total"),
        ("items[2].total", "the answer has no $.items[2]"),
        ("count.more", "the answer has no $.count.more"),
        ("items[1].total", "there is no number at $.items[1].total of the answer: it is null"),
        ("yes", "there is no number at $.yes of the answer: it is true or false"),
        ("text", "it is a text"),
        ("$", "there is no number at $ of the answer: it is an object"),
    ],
)
def test_what_is_no_number_is_told_by_its_place(path: str, said: str) -> None:
    with pytest.raises(Unreachable) as caught:
        number_at(json.dumps(DOCUMENT).encode(), parse_path(path))
    assert said in str(caught.value)
    assert "many" not in str(caught.value)


@pytest.mark.parametrize("document", [b"", b"<html>", b"\xff\xfe\x00", b"[" * 100_000, b"1" * 5000])
def test_what_is_no_json_is_said(document: bytes) -> None:
    with pytest.raises(Unreachable, match=r"no JSON|no number"):
        number_at(document, ())


@pytest.mark.parametrize("path", ["a..b", "a[", "a[x]", "$$", "a b", "[-1]", "a['b"])
def test_a_path_that_cannot_be_read_is_a_mistake_of_the_ini(path: str) -> None:
    with pytest.raises(ConfigError, match="write names and places"):
        parse_path(path)
