"""`pipestate observe` as cron runs it: the four numbers of the queue's cut-over, from lines of an ini."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.alembic_runs import ROOT, Migrations
from support.aws import Aws, aws_server
from support.documentation import examples
from support.programs import run_program
from support.servers import Database
from support.web_servers import Reply, SelectedCheck, WebServer, as_reply, serving

RUNBOOK = ROOT / "runbooks" / "queue-cutover.md"
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
    (fence,) = [each.text for each in examples(RUNBOOK) if each.language == "ini"]
    return fence


def answer_as_prefect(received: SelectedCheck) -> Reply:
    """Answer as the server did: a count, where state and time are queried as it understands them."""
    wanted = received.json()["flow_runs"]
    since = wanted["start_time"]["after_"]
    known = wanted["state"]["type"]["any_"] == ["FAILED", "CRASHED"] and re.fullmatch(r"[\d:T-]{19}Z", since)
    right = (received.method, received.path) == ("POST", "/api/flow_runs/count")
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
    (directory / "examples").symlink_to(ROOT / "examples")
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


def test_four_lines_find_what_the_runbook_needs(
    pg_expanded: Migrations, tmp_path: Path, world: dict[str, str], prefect: WebServer
) -> None:
    done = observe(pg_expanded.database, tmp_path, lines_of_the_documentation(), world, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == FOUND
    rows = pg_expanded.database.rows("SELECT name, value, source FROM pipestate.observation ORDER BY id")
    assert rows == [(name, value, name) for name, value in FOUND.items()]
    page = RUNBOOK.read_text()
    assert set(re.findall(r"^WHERE name = '(\w+)'", page, re.MULTILINE)) == set(FOUND), (
        "the names that its checks read"
    )
    assert [received.path for received in prefect.received] == ["/api/flow_runs/count"]


def test_the_runbook_and_the_shipped_ini_have_the_same_lines() -> None:
    lines = lines_of_the_documentation()
    commented = "".join(f"# {line}\n" for line in lines.splitlines()[1:])
    assert commented in (ROOT / "alembic.ini").read_text()


def test_one_that_cannot_be_read_stops_none_of_the_others_and_is_named(
    pg_expanded: Migrations, tmp_path: Path, world: dict[str, str], prefect: WebServer
) -> None:
    prefect.replies = lambda _: REFUSED
    done = observe(pg_expanded.database, tmp_path, lines_of_the_documentation(), world)
    assert done.returncode == 3
    assert re.fullmatch(
        r"pipestate: prefect_failed_runs: sh ended with exit code 22: curl: .* error: 422\n", done.stderr
    ), done.stderr
    assert pg_expanded.database.value("SELECT count(*) FROM pipestate.observation") == 3


def test_wrong_options_are_one_sentence_with_file_section_and_line(
    pg_expanded: Migrations, tmp_path: Path, world: dict[str, str]
) -> None:
    lines = "[pipestate:observe]\nfine = command echo 1\ndepth = command\nx = command echo 'open\n"
    done = observe(pg_expanded.database, tmp_path, lines, world)
    assert done.returncode == 2
    assert done.stdout == "fine = 1\n"
    second, first = done.stderr.splitlines()
    assert first.startswith("pipestate: alembic.ini: depth in [pipestate:observe]: write the command")
    assert second.startswith(
        "pipestate: alembic.ini: x in [pipestate:observe]: a quotation mark is never closed"
    )
    assert pg_expanded.database.rows("SELECT name FROM pipestate.observation") == [("fine",)]


def test_prefect_cloud_gets_the_key_of_a_private_file(
    pg_expanded: Migrations, tmp_path: Path, world: dict[str, str], prefect: WebServer
) -> None:
    (tmp_path / "prefect.curl").write_text(f'header = "Authorization: Bearer {world["PREFECT_API_KEY"]}"\n')
    lines = lines_of_the_documentation().replace("curl -fsS", "curl --config prefect.curl -fsS")
    done = observe(pg_expanded.database, tmp_path, lines, world)
    assert done.returncode == 0, done.stderr
    assert prefect.received[0].headers["Authorization"] == f"Bearer {world['PREFECT_API_KEY']}"


def test_a_percent_sign_stands_for_itself_and_alembic_does_not_mind(
    pg_expanded: Migrations, tmp_path: Path, world: dict[str, str], prefect: WebServer
) -> None:
    prefect.replies = lambda _: as_reply({"50%": 7})
    ask = 'curl -fsS "$PREFECT_API_URL?q=a%20b%(here)s" | jq ".[\\"50%\\"]"'
    lines = f"[pipestate:observe]\nhalf = command sh -c '{ask}'\n"
    done = observe(pg_expanded.database, tmp_path, lines, world)
    assert (done.returncode, done.stdout) == (0, "half = 7\n"), done.stderr
    assert prefect.received[0].path == "/api?q=a%20b%(here)s"
    shipped = (ROOT / "alembic.ini").read_text().replace("%(here)s/alembic", str(ROOT / "alembic"))
    (tmp_path / "alembic.ini").write_text(shipped.replace("[pipestate:observe]\n", lines))
    environment = {**os.environ, "PIPESTATE_DATABASE_URL": pg_expanded.database.text}
    done = run_program(["alembic", "current"], cwd=tmp_path, environment=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "0005"), done.stderr


def test_messages_without_an_age_are_not_a_calm_queue(
    pg_expanded: Migrations, tmp_path: Path, world: dict[str, str], aws: Aws
) -> None:
    aws.queue("empty")
    aws.queue("new", messages=2)
    script = "command python examples/sqs_queue.py"
    lines = f"empty = {script} oldest EMPTY\nnew = {script} oldest NEW\nnowhere = {script} depth NOWHERE\n"
    urls = {name.upper(): f"{aws.url}/123456789012/{name}" for name in ("empty", "new", "nowhere")}
    done = observe(pg_expanded.database, tmp_path, f"[pipestate:observe]\n{lines}", {**world, **urls})
    assert (done.returncode, done.stdout) == (3, "empty = 0\n")
    assert "CloudWatch has no age for new, and messages are in it" in done.stderr
    assert "The specified queue does not exist" in done.stderr
