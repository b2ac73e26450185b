"""What the server's own functions and Python both say is said alike."""

import re
from importlib.resources import files

from pipestate.database.postgresql import SESSION_SETTINGS
from pipestate.ledger.functions import routines
from pipestate.verify.session_safety import IMPOSTORS

SERVER = files("pipestate") / "migration" / "server"


def body_of(name: str) -> str:
    (found,) = (routine.statement for routine in routines() if routine.name == name)
    return " ".join(found.split())


def test_a_check_sees_the_same_world_on_the_server_and_in_verify() -> None:
    body = body_of("read_only")
    found = dict(re.findall(r"set_config\('([\w.]+)', '([^']*)', true\)", body))
    assert found == SESSION_SETTINGS


def test_impostors_are_found_in_the_same_words() -> None:
    wanted = " ".join(IMPOSTORS.split())
    wanted = wanted.replace(
        "SELECT pg_catalog.string_agg(", "SELECT pg_catalog.to_json(pg_catalog.string_agg(", 1
    )
    wanted = wanted.replace("planted.name) FROM planted", "planted.name)) FROM planted")
    flat = re.sub(r"\s*([()])\s*", r"\1", body_of("planted"))
    assert re.sub(r"\s*([()])\s*", r"\1", wanted) in flat


def test_every_routine_says_what_it_does() -> None:
    for file in SERVER.iterdir():
        if file.name.endswith(".sql"):
            text = file.read_text(encoding="utf-8")
            assert len(re.findall(r"^CREATE OR REPLACE", text, re.MULTILINE)) == len(
                re.findall(r"^--[^\n]*\nCREATE OR REPLACE", text, re.MULTILINE)
            ), file.name
