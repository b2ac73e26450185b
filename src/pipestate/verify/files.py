"""What a look tells SQL of the revision files, so that `pipestate.rehearsed` knows which rehearsals are of these.

Only where a check asks: a long chain makes a long setting. Unset, the views are empty, and nothing passes.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from sqlalchemy import Connection, text

from pipestate.chain.files import hash_files
from pipestate.engines.engine import engine_of
from pipestate.runbook.model import Check
from pipestate.verify.select import Asked

SETTING = "pipestate.files"
VIEWS = ("rehearsed", "compat")
TELL = text(f"SELECT pg_catalog.set_config('{SETTING}', :files, true)")


def reads_rehearsals(asked: Asked) -> bool:
    """Say whether a check asks a view of rehearsals."""
    return isinstance(asked.check, Check) and any(view in asked.check.sql.lower() for view in VIEWS)


def files_as_json(paths: Mapping[str, Path]) -> str:
    """Write the hashes as the setting has them."""
    return json.dumps(hash_files(paths))


def tell_files(connection: Connection, asked: Iterable[Asked], paths: Mapping[str, Path]) -> None:
    """Set the hashes until the end of the transaction or savepoint; SQLite has no settings."""
    if engine_of(connection).HAS_SETTINGS and any(reads_rehearsals(each) for each in asked):
        connection.execute(TELL, {"files": files_as_json(paths)})
