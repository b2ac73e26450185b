"""The demo where it is most dangerous, and where it is at its poorest. With all its parts: test_wheel.py."""

import re
import shutil
from pathlib import Path

import pytest

from html_pages import Html, must_be_whole
from pipestate import embedded
from pipestate.pipeline.demo.story import demo


def test_without_redis_and_with_production_in_the_environment_it_stays_on_its_own_servers(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    nowhere = "postgresql://app@127.0.0.1:1/production"  # whoever asks it for anything fails
    for name in ("PIPESTATE_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.setenv(name, nowhere)
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("STORAGE_DIR", "/nowhere")
    monkeypatch.setenv("ALEMBIC_CONFIG", "/nowhere/alembic.ini")
    monkeypatch.setattr(embedded, "has_redis", lambda: False)
    demo()
    printed = " ".join(capfd.readouterr().out.split())
    assert "Migrated 105 sites" in printed
    assert "the queues and the workers are left out" in printed
    assert '$ alembic -x force="the demo without its queues" upgrade head' in printed
    assert "Every row and value of the 300 sites is back" in printed
    (shown,) = re.findall(r"Open file://(\S+)", printed)
    page = Path(shown)
    must_be_whole(Html(page.read_text()))
    shutil.rmtree(page.parent)
