"""The names of queues and functions, read from alembic.ini."""

from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.pipeline.queues.config import QueueConfig, read_config
from pipestate.pipeline.queues.port import Destination, Obstacle, State
from support.alembic_runs import ROOT


def written(tmp_path: Path, *lines: str, above: str = "[alembic]\nscript_location = x") -> Path:
    ini = tmp_path / "alembic.ini"
    ini.write_text("\n".join([above, "[pipestate:queues]", *lines, ""]))
    return ini


def test_without_the_section_it_is_what_this_migration_calls_them(tmp_path: Path) -> None:
    ini = tmp_path / "alembic.ini"
    ini.write_text("[alembic]\n")
    assert read_config(ini) == QueueConfig()
    assert QueueConfig().queues() == ["compilation", "ocr"]


def test_the_shipped_one_has_a_place_for_every_stage() -> None:
    config = read_config(ROOT / "alembic.ini")
    assert config.queues() == ["compilation", "deploy", "extraction", "fetch", "ocr"]
    assert config.jobs["ocr"] == Destination("ocr", "clerk.workers.ocr_page_job", 600)
    assert config.jobs["ocr"].name == "ocr_page_job"
    assert config.coordinator("compilation") == config.coordinators["extraction"]


def test_what_is_named_replaces_what_is_not(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, "ocr_job = scans app.read_page", "redis_url = redis://r%40x/1"))
    assert config.jobs["ocr"] == Destination("scans", "app.read_page")
    assert config.coordinators["ocr"] == Destination("compilation", "ocr_complete_coordinator")
    assert not config.coordinators["ocr"].importable
    assert config.url == "redis://r%40x/1"


def test_defaults_of_the_file_are_not_taken_for_stages(tmp_path: Path) -> None:
    ini = written(tmp_path, "ocr_job = scans app.read_page", above="[DEFAULT]\nowner = dba")
    assert read_config(ini).jobs["ocr"].queue == "scans"


@pytest.mark.parametrize("key", ["ocr_jobs", "orc_job", "queue", "job", "ocr"])
def test_an_unknown_key_is_named_with_its_file(tmp_path: Path, key: str) -> None:
    ini = written(tmp_path, f"{key} = ocr app.f")
    with pytest.raises(ConfigError) as raised:
        read_config(ini)
    assert f"{ini}: [pipestate:queues] has {key}; write <stage>_job" in str(raised.value)


@pytest.mark.parametrize("value", ["", "ocr", "ocr app.f 10m more"])
def test_a_malformed_value_is_named_with_its_file_and_key(tmp_path: Path, value: str) -> None:
    ini = written(tmp_path, f"ocr_job = {value}")
    with pytest.raises(ConfigError) as raised:
        read_config(ini)
    assert f"{ini}: ocr_job in [pipestate:queues] is {value!r}" in str(raised.value)


@pytest.mark.parametrize("line", ["ocr_job", "ocr_job = a b\nocr_job = c d", "[pipestate:queues]"])
def test_a_file_that_is_no_ini_is_one_sentence(tmp_path: Path, line: str) -> None:
    ini = written(tmp_path, line)
    with pytest.raises(ConfigError) as raised:
        read_config(ini)
    assert str(raised.value).startswith(f"{ini}:")
    assert "\n" not in str(raised.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    ini = tmp_path / "alembic.ini"
    ini.write_bytes(b"[pipestate:queues]\nocr_job = \xff\xfe\n")
    with pytest.raises(ConfigError, match="is not written in UTF-8"):
        read_config(ini)


def test_another_queue_is_named_with_its_address(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, "backend = app.queues:Amqp", "url = amqp://here", "redis_url = x"))
    assert (config.backend, config.url) == ("app.queues:Amqp", "amqp://here")
    assert read_config(written(tmp_path, "redis_url = redis://r", "url = amqp://here")).url == "redis://r"
    assert read_config(written(tmp_path, "backend =")).backend == "rq"


def test_one_coordinator_may_be_named_for_either_stage_of_a_step() -> None:
    place = Destination("q", "m.f")
    assert QueueConfig(coordinators={"extraction": place}).coordinator("compilation") == place


def test_deferred_coordinators_come_before_the_jobs_that_they_wait_for() -> None:
    deferred, failed = QueueConfig().obstacles()
    assert deferred == Obstacle("compilation", State.DEFERRED, "ocr_complete_coordinator")
    assert failed == Obstacle("ocr", State.FAILED, "ocr_page_job")
