"""The names of queues and functions, read from alembic.ini."""

from pathlib import Path

import pytest

from alembics import ROOT
from pipestate.errors import ConfigError
from pipestate.pipeline.queues.config import Place, Wiring, read_wiring


def written(tmp_path: Path, *lines: str, above: str = "[alembic]\nscript_location = x") -> Path:
    ini = tmp_path / "alembic.ini"
    ini.write_text("\n".join([above, "[pipestate:queues]", *lines, ""]))
    return ini


def test_without_the_section_it_is_what_this_migration_calls_them(tmp_path: Path) -> None:
    ini = tmp_path / "alembic.ini"
    ini.write_text("[alembic]\n")
    assert read_wiring(ini) == Wiring()
    assert Wiring().queues() == ["compilation", "ocr"]


def test_the_shipped_one_has_a_place_for_every_stage() -> None:
    wiring = read_wiring(ROOT / "alembic.ini")
    assert wiring.queues() == ["compilation", "deploy", "extraction", "fetch", "ocr"]
    assert wiring.jobs["ocr"] == Place("ocr", "clerk.workers.ocr_page_job", 600)
    assert wiring.jobs["ocr"].name == "ocr_page_job"
    assert wiring.coordinator("compilation") == wiring.coordinators["extraction"]


def test_what_is_named_replaces_what_is_not(tmp_path: Path) -> None:
    wiring = read_wiring(written(tmp_path, "ocr_job = scans app.read_page", "redis_url = redis://r%40x/1"))
    assert wiring.jobs["ocr"] == Place("scans", "app.read_page")
    assert wiring.coordinators["ocr"] == Place("compilation", "ocr_complete_coordinator")
    assert not wiring.coordinators["ocr"].importable
    assert wiring.redis_url == "redis://r%40x/1"


def test_defaults_of_the_file_are_not_taken_for_stages(tmp_path: Path) -> None:
    ini = written(tmp_path, "ocr_job = scans app.read_page", above="[DEFAULT]\nowner = dba")
    assert read_wiring(ini).jobs["ocr"].queue == "scans"


@pytest.mark.parametrize("key", ["ocr_jobs", "orc_job", "queue", "job", "ocr"])
def test_an_unknown_key_is_named_with_its_file(tmp_path: Path, key: str) -> None:
    ini = written(tmp_path, f"{key} = ocr app.f")
    with pytest.raises(ConfigError) as raised:
        read_wiring(ini)
    assert f"{ini}: [pipestate:queues] has {key}; write <stage>_job" in str(raised.value)


@pytest.mark.parametrize("value", ["", "ocr", "ocr app.f 10m more"])
def test_a_malformed_value_is_named_with_its_file_and_key(tmp_path: Path, value: str) -> None:
    ini = written(tmp_path, f"ocr_job = {value}")
    with pytest.raises(ConfigError) as raised:
        read_wiring(ini)
    assert f"{ini}: ocr_job in [pipestate:queues] is {value!r}" in str(raised.value)


@pytest.mark.parametrize("line", ["ocr_job", "ocr_job = a b\nocr_job = c d", "[pipestate:queues]"])
def test_a_file_that_is_no_ini_is_one_sentence(tmp_path: Path, line: str) -> None:
    ini = written(tmp_path, line)
    with pytest.raises(ConfigError) as raised:
        read_wiring(ini)
    assert str(raised.value).startswith(f"{ini} cannot be read: ")
    assert "\n" not in str(raised.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    ini = tmp_path / "alembic.ini"
    ini.write_bytes(b"[pipestate:queues]\nocr_job = \xff\xfe\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_wiring(ini)
