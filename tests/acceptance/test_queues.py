"""`pipestate queues` as it is typed: sentences, JSON, exit codes, and what it never shows."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from pipestate.cli.main import main
from support import table_queues
from support.alembic_runs import ROOT, Migrations
from support.queue_scene import Scene, contents
from support.queues import TableBed
from support.servers import Database

SECRET = "s3cr3t-pa55w0rd"


class Done(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def pipestate(
    queues_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", queues_url)
    monkeypatch.setenv("ALEMBIC_CONFIG", str(ROOT / "alembic.ini"))

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["pipestate", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err
        return Done(int(str(ended.value.code or 0)), said.out, said.err)

    return run


def queues_ini(directory: Path, *lines: str) -> Path:
    """Another ini of the same project, with these lines about its queues."""
    ini = directory / "other.ini"
    migrations = f"[alembic]\nscript_location = {ROOT / 'alembic'}"
    ini.write_text("\n".join([migrations, "[pipestate:queues]", *lines, ""]))
    return ini


def test_dry_run_says_it_and_changes_nothing(scene: Scene, pipestate: Command, tmp_path: Path) -> None:
    scene.bystanders()
    failed = scene.fail_many(2695)
    for _ in range(82):
        scene.defer(on=failed[:2])
    before = contents(scene.redis)
    done = pipestate("queues", "clear", "--dry-run")
    said = ["Would delete 82 deferred coordinators and 2,695 failed OCR jobs", *LEFT, ""]
    assert done == (0, "\n".join(said), "")
    assert contents(scene.redis) == before
    assert list(tmp_path.iterdir()) == []


def test_clear_names_its_file_and_a_rerun_has_nothing_to_do(
    scene: Scene, pipestate: Command, tmp_path: Path
) -> None:
    scene.defer(on=scene.fail_many(3))
    done = pipestate("queues", "clear")
    assert (done.code, done.out) == (0, "Deleted 1 deferred coordinator and 3 failed OCR jobs\n")
    (file,) = tmp_path.iterdir()
    assert re.fullmatch(r"pipestate-cleared-\d{8}T\d{6}Z\.jsonl", file.name)
    assert done.err == f"4 exported to {file.name}\n"
    assert len(file.read_text().splitlines()) == 4
    assert pipestate("queues", "clear") == (0, "nothing to clear\n", "")
    assert pipestate("queues", "clear", "--dry-run") == (0, "nothing to clear\n", "")
    assert list(tmp_path.iterdir()) == [file]


def test_clear_as_json(scene: Scene, pipestate: Command, tmp_path: Path) -> None:
    (gone, *_) = scene.fail_many(3)
    scene.redis.delete(gone.key)
    figures = {"deferred_coordinators": 0, "failed_ocr_jobs": 2, "dangling": 1, "changed": []}
    figures |= {"gone": [], "left": []}
    dry = pipestate("queues", "clear", "--dry-run", "--json", "--export", "kept.jsonl")
    assert json.loads(dry.out) == {"dry_run": True, "export": None, **figures}
    assert not (tmp_path / "kept.jsonl").exists()
    done = pipestate("queues", "clear", "--json", "--export", "kept.jsonl")
    assert json.loads(done.out) == {"dry_run": False, "export": "kept.jsonl", **figures}
    assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 3
    again = json.loads(pipestate("queues", "clear", "--json").out)
    assert (again["failed_ocr_jobs"], again["export"]) == (0, None)


def test_another_backend_serves_every_command(pipestate: Command, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.db"
    ini = queues_ini(tmp_path, "backend = support.table_queues:connect", f"url = {jobs}")
    with table_queues.connect(str(jobs)) as queues:
        bed = TableBed(queues, jobs)
        bed.put("failed", "ocr_page_job")
        rows = json.loads(pipestate("queues", "show", "--json", "--config", str(ini)).out)
        assert rows["failed_ocr_jobs"] == 1
        done = pipestate("queues", "clear", "--export", "kept.jsonl", "--config", str(ini))
        assert done.out == "Deleted 0 deferred coordinators and 1 failed OCR job\n"
        assert bed.everything() == []
        assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("backend = celery", "backend = celery: write one of rq, or module:Class"),
        ("backend = nowhere.at.all:Queues\nurl = x", "cannot be imported: ModuleNotFoundError"),
        ("backend = support.table_queues:nothing\nurl = x", "cannot be imported: AttributeError"),
        (
            "backend = support.table_queues:connect",
            "no queue given: write the url of support.table_queues:connect",
        ),
    ],
)
def test_a_backend_that_cannot_be_opened_is_one_sentence(
    pipestate: Command, tmp_path: Path, lines: str, sentence: str
) -> None:
    ini = queues_ini(tmp_path, lines)
    done = pipestate("queues", "show", "--config", str(ini))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert sentence in done.err


def test_a_redis_url_for_another_backend_is_refused(pipestate: Command, tmp_path: Path) -> None:
    ini = queues_ini(tmp_path, "backend = support.table_queues:connect", "url = jobs.db")
    done = pipestate("queues", "show", "--config", str(ini), "--redis-url", "redis://localhost")
    assert (done.code, done.out) == (2, "")
    assert "--redis-url is for RQ" in done.err


def test_a_file_that_cannot_be_written(scene: Scene, pipestate: Command) -> None:
    scene.fail_many(1)
    done = pipestate("queues", "clear", "--export", "no/such/place.jsonl")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "pipestate: cannot write no/such/place.jsonl: No such file or directory; "
        "nothing was deleted, name another file with --export\n"
    )
    assert scene.redis.zcard("rq:failed:ocr") == 1


def test_show(scene: Scene, pipestate: Command) -> None:
    scene.bystanders()
    scene.defer(on=scene.fail_many(1200))
    (gone,) = scene.fail_many(1)
    scene.redis.delete(gone.key)
    before = contents(scene.redis)
    done = pipestate("queues", "show")
    lines = done.out.splitlines()
    assert " ".join(lines[0].split()) == "queue queued deferred scheduled failed in the way gone"
    assert ["ocr", "5", "0", "1", "1,222", "1,221", "1"] in [line.split() for line in lines]
    assert ["compilation", "1", "2", "0", "0", "2", "0"] in [line.split() for line in lines]
    assert "0 in every queue: started, finished" in lines
    assert "To clear: 2 deferred coordinators, 1,221 failed OCR jobs and 1 id whose job is gone." in done.out
    assert lines[-3:] == LEFT
    assert max(map(len, lines[:6])) <= 80, lines
    assert contents(scene.redis) == before


def test_show_as_json(scene: Scene, pipestate: Command) -> None:
    scene.fail_many(2)
    data = json.loads(pipestate("queues", "show", "--json").out)
    assert [row["queue"] for row in data["queues"]] == [
        *("compilation", "deploy", "extraction", "fetch", "ocr")
    ]
    assert data["queues"][-1] == {
        **dict.fromkeys(("queued", "started", "deferred", "scheduled", "finished"), 0),
        **{"queue": "ocr", "failed": 2, "deferred_coordinators": 0, "failed_ocr_jobs": 2, "dangling": 0},
    }
    assert (data["deferred_coordinators"], data["failed_ocr_jobs"], data["dangling"]) == (0, 2, 0)
    assert data["other_functions"] == []


def test_names_come_from_the_ini(scene: Scene, pipestate: Command, tmp_path: Path) -> None:
    ini = queues_ini(tmp_path, "ocr_job = scans app.read_page", "ocr_coordinator = build app.done")
    other = Scene(scene.redis, ocr="scans", compilation="build")
    other.defer("app.done", on=other.fail_many(2, "app.read_page"))
    assert pipestate("queues", "clear", "--dry-run").out == "nothing to clear\n"
    rows = json.loads(pipestate("queues", "show", "--json", "--config", str(ini)).out)["queues"]
    assert [row["queue"] for row in rows] == ["build", "scans"]
    done = pipestate("queues", "clear", "--config", str(ini))
    assert done.out == "Deleted 1 deferred coordinator and 2 failed OCR jobs\n"


def test_observe_after_clear_says_0(scene: Scene, pipestate: Command, sqlite_database: Database) -> None:
    Migrations(sqlite_database).upgrade("0002")
    scene.defer(on=scene.fail_many(3))
    pipestate("queues", "clear")
    done = pipestate("observe", "--json", "--database-url", sqlite_database.text)
    assert json.loads(done.out) == {"deferred_coordinators": 0.0, "failed_ocr_jobs": 0.0}


LEFT = [
    "Left: 1 deferred job of compile_db_job in compilation",
    "Left: 21 failed jobs of split_pdf_job in ocr",
    "The checks count these jobs. Requeue them, or run: pipestate queues clear "
    "--function compile_db_job --function split_pdf_job",
]


def test_jobs_of_other_functions_are_counted_named_and_left(
    scene: Scene, pipestate: Command, sqlite_database: Database, tmp_path: Path
) -> None:
    """4 deferred and 50 failed jobs of other names passed both checks with 0."""
    Migrations(sqlite_database).upgrade("0002")
    scene.bystanders()
    scene.defer(on=scene.fail_many(3))
    before = contents(scene.redis)
    done = pipestate("queues", "clear")
    assert done.out.splitlines() == ["Deleted 1 deferred coordinator and 3 failed OCR jobs", *LEFT]
    assert contents(scene.redis) != before
    assert pipestate("queues", "clear").out.splitlines() == ["nothing to clear", *LEFT]
    left = json.loads(pipestate("queues", "clear", "--json").out)["left"]
    assert left == json.loads(pipestate("queues", "show", "--json").out)["other_functions"]
    assert left[1] == {"queue": "ocr", "state": "failed", "function": "split_pdf_job", "jobs": 21}
    observed = pipestate("observe", "--json", "--database-url", sqlite_database.text)
    assert json.loads(observed.out) == {"deferred_coordinators": 1.0, "failed_ocr_jobs": 21.0}

    named = LEFT[-1].partition("pipestate ")[2].split()
    done = pipestate(*named, "--export", "named.jsonl")
    assert done.out == "Deleted 1 deferred coordinator and 21 failed OCR jobs\n"
    assert len((tmp_path / "named.jsonl").read_text().splitlines()) == 22
    observed = pipestate("observe", "--json", "--database-url", sqlite_database.text)
    assert json.loads(observed.out) == {"deferred_coordinators": 0.0, "failed_ocr_jobs": 0.0}


@pytest.mark.parametrize("verb", ["show", "clear"])
def test_redis_is_away(pipestate: Command, verb: str) -> None:
    done = pipestate("queues", verb, "--redis-url", f"redis://app:{SECRET}@127.0.0.1:1/0")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("pipestate: Redis does not answer: ")
    assert done.err.endswith("; check --redis-url or REDIS_URL\n")


def test_no_redis_is_named(pipestate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL")
    done = pipestate("queues", "clear")
    assert done.code == 2
    assert "give --redis-url, or set REDIS_URL, or redis_url under [pipestate:queues]" in done.err


@pytest.mark.parametrize("password", ["12#" + SECRET, "12/" + SECRET, "12?" + SECRET])
def test_a_password_that_is_not_encoded_is_not_taken_for_a_host(pipestate: Command, password: str) -> None:
    done = pipestate("queues", "show", "--redis-url", f"redis://app:{password}@127.0.0.1:1/0")
    assert done.code == 2
    assert "percent-encoded" in done.err
    assert "12" not in done.err


def test_a_wrong_password_is_not_repeated(scene: Scene, pipestate: Command, queues_url: str) -> None:
    done = pipestate("queues", "show", "--redis-url", queues_url.replace("//", f"//nobody:{SECRET}@"))
    assert done.code == 3
    assert "password" in done.err


def test_a_user_who_may_not_delete(scene: Scene, pipestate: Command, queues_url: str, tmp_path: Path) -> None:
    scene.fail_many(2)
    scene.redis.acl_setuser(
        "looker",
        enabled=True,
        passwords=[f"+{SECRET}"],
        keys=["*"],
        categories=["+@read"],
        commands=["+select"],
    )
    try:
        limited = queues_url.replace("//", f"//looker:{SECRET}@")
        assert pipestate("queues", "show", "--redis-url", limited).code == 0
        done = pipestate("queues", "clear", "--redis-url", limited)
    finally:
        scene.redis.acl_deluser("looker")
    assert (done.code, done.out) == (3, "")
    assert "Redis refuses: " in done.err
    assert scene.redis.zcard("rq:failed:ocr") == 2


def test_without_rq(pipestate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rq", None)
    done = pipestate("queues", "show")
    assert done.code == 2
    assert "pip install 'pipestate[rq]'" in done.err


@pytest.mark.parametrize("verb", ["show", "clear"])
def test_help_has_an_example(pipestate: Command, verb: str) -> None:
    assert f"Example: pipestate queues {verb}" in pipestate("queues", verb, "--help").out
