"""An env.py that is guarded and migrates an engine that pipestate does not know."""

import io
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config

from pipestate.migration.failure import MigrationError

ENV = """
import sqlalchemy as sa
from alembic import context
from pipestate.environment import guard

guard(context)
if context.is_offline_mode():
    context.configure(dialect_name="mysql")
    context.run_migrations()
else:
    engine = sa.create_engine("sqlite:///shop.db")
    engine.dialect.name = "mysql"
    with engine.connect() as connection:
        context.configure(connection=connection)
        with context.begin_transaction():
            context.run_migrations()
"""
REVISION = """
from alembic import op

revision, down_revision = "a1", None


def upgrade():
    op.execute("CREATE TABLE orders (id integer)")
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    (tmp_path / "versions").mkdir()
    (tmp_path / "env.py").write_text(ENV)
    (tmp_path / "versions" / "a1.py").write_text(REVISION)
    monkeypatch.chdir(tmp_path)
    config = Config()
    config.set_main_option("script_location", str(tmp_path))
    return config


def test_a_script_is_written_as_without_the_guard(config: Config) -> None:
    config.output_buffer = written = io.StringIO()
    command.upgrade(config, "head", sql=True)
    assert "CREATE TABLE orders" in written.getvalue()


def test_a_migration_is_refused_in_a_sentence_before_it_begins(config: Config, tmp_path: Path) -> None:
    with pytest.raises(MigrationError, match=r"^pipestate works with PostgreSQL and SQLite, not with mysql$"):
        command.upgrade(config, "head")
    file = tmp_path / "shop.db"
    assert not file.exists() or b"orders" not in file.read_bytes()
