"""`pipestate observe` as cron runs it: the four numbers of the queue's cut-over, from lines of an ini."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from alembics import ROOT, Chain
from aws import Aws, aws_server
from bed import Database
from pages import examples
from programs import run_program
from web_servers import Asked, Reply, WebServer, as_reply, serving

HEAD = f"[alembic]\nscript_location = {ROOT / 'alembic'}\nversion_table = pipestate_alembic_version\n\n"
# What a server of Prefect 3.8.8 answered, to this filter and to one with a wrong date.
COUNTED = as_reply(3)
REFUSED = Reply(
    422,
    b'{"exception_message":"Invalid request received.","exception_detail":[{"type":"value_error",'
    b'"loc":["body","flow_runs","start_time","after_"],"msg":"Value error, Unable to parse string [x]",'
    b'"input":"x","ctx":{"error":{}}}],"request_body":{"flow_runs":{"start_time":{"after_":"x"}}}}',
    {"Content-Type": "application/json"},
)


def lines_of_the_documentation() -> str:
    (fence,) = [each.text for each in examples(ROOT / "docs" / "observe.md") if "sqs_dlq_depth" in each.text]
    return fence


def answer_as_prefect(asked: Asked) -> Reply:
    """Answer as the server did: a count, where state and time are asked for as it understands them."""
    wanted = asked.json()["flow_runs"]
    since = wanted["start_time"]["after_"]
    known = wanted["state"]["type"]["any_"] == ["FAILED", "CRASHED"] and re.fullmatch(r"[\d:T-]{19}Z", since)
    right = (asked.method, asked.path) == ("POST", "/api/flow_runs/count")
    return COUNTED if right and known else REFUSED


@pytest.fixture(scope="module")
def aws() -> Iterator[Aws]:
    with aws_server() as running:
        running.queue("jobs-dlq", messages=2)
        running.queue("jobs", messages=5, dlq="jobs-dlq")
        running.tell_age("jobs", 17, 41)
        yield running


@pytest.fixture
def prefect() -> Iterator[WebServer]:
    with serving(answer_as_prefect) as running:
        yield running


@pytest.fixture
def world(aws: Aws, prefect: WebServer) -> dict[str, str]:
    """The variables that the runbook names."""
    return {
        **aws.environment,
        "SQS_QUEUE_URL": f"{aws.url}/123456789012/jobs",
        "SQS_DLQ_URL": f"{aws.url}/123456789012/jobs-dlq",
        "PREFECT_API_URL": f"{prefect.url}/api",
        "PREFECT_API_KEY": "s3cr3t-prefect-key",
    }


def observe(
    database: Database, directory: Path, lines: str, world: dict[str, str], *arguments: str
) -> "subprocess.CompletedProcess[str]":
    (directory / "alembic.ini").write_text(HEAD + lines)
    done = run_program(
        ["pipestate", "observe", *arguments],
        cwd=directory,
        environment={**os.environ, **world, "PIPESTATE_DATABASE_URL": database.text},
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "s3cr3t" not in done.stdout + done.stderr
    return done


FOUND = {
    "sqs_queue_depth": 5.0,
    "sqs_dlq_depth": 2.0,
    "sqs_oldest_message_seconds": 41.0,
    "prefect_failed_runs": 3.0,
}


def test_four_lines_find_what_the_runbook_asks_for(
    pg_expanded: Chain, tmp_path: Path, world: dict[str, str], prefect: WebServer
) -> None:
    done = observe(pg_expanded.database, tmp_path, lines_of_the_documentation(), world, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == FOUND
    rows = pg_expanded.database.rows("SELECT name, value, source FROM pipestate.observation ORDER BY id")
    assert rows == [(name, value, name) for name, value in FOUND.items()]
    page = (ROOT / "runbooks" / "queue-cutover.md").read_text()
    assert set(re.findall(r"^WHERE name = '(\w+)'", page, re.MULTILINE)) == set(FOUND), (
        "the names that its checks ask for"
    )
    assert [asked.path for asked in prefect.asked] == ["/api/flow_runs/count"]


def test_the_runbook_and_the_shipped_ini_have_the_same_lines() -> None:
    lines = lines_of_the_documentation()
    assert lines in (ROOT / "runbooks" / "queue-cutover.md").read_text()
    commented = "".join(f"# {line}\n" for line in lines.splitlines()[1:])
    assert commented in (ROOT / "alembic.ini").read_text()


def test_one_that_cannot_be_read_stops_none_of_the_others_and_is_named(
    pg_expanded: Chain, tmp_path: Path, world: dict[str, str], prefect: WebServer
) -> None:
    prefect.replies = lambda _: REFUSED
    done = observe(pg_expanded.database, tmp_path, lines_of_the_documentation(), world)
    assert done.returncode == 3
    assert re.fullmatch(
        r"pipestate: prefect_failed_runs: http://127.0.0.1:\d+/… answered 422\n", done.stderr
    ), done.stderr
    assert pg_expanded.database.value("SELECT count(*) FROM pipestate.observation") == 3


def test_wrong_options_are_one_sentence_with_file_section_and_line(
    pg_expanded: Chain, tmp_path: Path, world: dict[str, str]
) -> None:
    lines = '[pipestate:observe]\nfine = command echo 1\ndepth = sqs deep ${SQS_QUEUE_URL}\nx = http "${PREFECT_API_KEY}"\n'
    done = observe(pg_expanded.database, tmp_path, lines, world)
    assert done.returncode == 2
    assert done.stdout == "fine = 1\n"
    second, first = done.stderr.splitlines()
    assert first.startswith("pipestate: alembic.ini: depth in [pipestate:observe]: write one of depth, dlq,")
    assert second.startswith(
        "pipestate: alembic.ini: x in [pipestate:observe]: the address is not the address"
    )
    assert pg_expanded.database.rows("SELECT name FROM pipestate.observation") == [("fine",)]


def test_prefect_cloud_gets_the_key_of_the_environment(
    pg_expanded: Chain, tmp_path: Path, world: dict[str, str], prefect: WebServer
) -> None:
    header = '  header="Authorization: Bearer ${PREFECT_API_KEY}"\n'
    done = observe(pg_expanded.database, tmp_path, lines_of_the_documentation() + header, world)
    assert done.returncode == 0, done.stderr
    assert prefect.asked[0].headers["Authorization"] == f"Bearer {world['PREFECT_API_KEY']}"


def test_a_percent_sign_stands_for_itself_and_alembic_does_not_mind(
    pg_expanded: Chain, tmp_path: Path, world: dict[str, str], prefect: WebServer
) -> None:
    prefect.replies = lambda _: as_reply({"50%": 7})
    lines = "[pipestate:observe]\nhalf = http ${PREFECT_API_URL}?q=a%20b%(here)s path='$[\"50%\"]'\n"
    done = observe(pg_expanded.database, tmp_path, lines, world)
    assert (done.returncode, done.stdout) == (0, "half = 7\n"), done.stderr
    assert prefect.asked[0].path == "/api?q=a%20b%(here)s"
    shipped = (ROOT / "alembic.ini").read_text().replace("%(here)s/alembic", str(ROOT / "alembic"))
    (tmp_path / "alembic.ini").write_text(shipped.replace("[pipestate:observe]\n", lines))
    environment = {**os.environ, "PIPESTATE_DATABASE_URL": pg_expanded.database.text}
    done = run_program(["alembic", "current"], cwd=tmp_path, environment=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "0005"), done.stderr
