"""Catalogues in our SQL are qualified: somebody's view of the same name may come first on the path."""

import re
from pathlib import Path

import pipestate

SOURCE = Path(pipestate.__file__).parent
# Functions of the ledger have a path of their own, except lock_tables, which also runs as a block.
ELSEWHERE = ("migration/server/", "runbook/variants.py", "fleet/list.py")
BARE = re.compile(
    r"\b(?:FROM|JOIN)(?: LATERAL)? \(?(?!pg_catalog\.|pg_temp\.|pg_stat_statements)(pg_[a-z_]+)"
)


def test_every_catalogue_is_qualified() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {match[1]}"
        for path in sorted((*SOURCE.rglob("*.py"), *SOURCE.rglob("*.sql")))
        if not path.relative_to(SOURCE).as_posix().startswith(ELSEWHERE) or path.name == "lock_tables.sql"
        for match in BARE.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found
