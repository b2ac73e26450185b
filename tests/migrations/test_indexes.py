"""Indexes: rebuilt where a build was interrupted, refused where they are somebody else's."""

import pytest

from alembics import Chain
from pipestate.ddl import MigrationError


def make_invalid(chain: Chain, name: str, definition: str) -> None:
    """What an interrupted CREATE INDEX CONCURRENTLY leaves behind."""
    chain.database.run(
        definition,
        f"UPDATE pg_index SET indisvalid = false, indisready = false WHERE indexrelid = '{name}'::regclass",
    )


def test_an_invalid_index_of_the_right_name_is_rebuilt(pg_legacy: Chain) -> None:
    pg_legacy.upgrade("0002")
    pg_legacy.database.run("ALTER TABLE sites ADD COLUMN updated_at timestamptz")
    make_invalid(pg_legacy, "idx_sites_updated_at", "CREATE INDEX idx_sites_updated_at ON sites (updated_at)")
    pg_legacy.upgrade("0003")
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'idx_sites_updated_at'::regclass"
    assert pg_legacy.database.value(valid) is True


@pytest.mark.parametrize(
    "definition",
    [
        "CREATE INDEX uix_cips_content_item_pipeline ON content_item_pipeline_state (content_item_id, pipeline)",
        "CREATE UNIQUE INDEX uix_cips_content_item_pipeline ON content_item_pipeline_state (pipeline, content_item_id)",
        "CREATE INDEX uix_cips_content_item_pipeline ON sites (name)",
    ],
)
def test_an_index_of_the_right_name_with_another_definition_is_refused(
    legacy_chain: Chain, definition: str
) -> None:
    key = "INTEGER" if legacy_chain.database.is_sqlite else "SERIAL"
    legacy_chain.database.run(
        f"CREATE TABLE content_item_pipeline_state (id {key} PRIMARY KEY, content_item_id INTEGER NOT NULL, "
        "pipeline VARCHAR NOT NULL, status VARCHAR NOT NULL)",
        definition,
    )
    with pytest.raises(
        MigrationError, match="index uix_cips_content_item_pipeline exists with another definition"
    ):
        legacy_chain.contract()
    assert legacy_chain.revision() == "0003"
