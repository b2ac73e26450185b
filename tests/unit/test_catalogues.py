"""Our SQL reads as SQL: it runs with the catalogue alone on its search path, so it qualifies no operator."""

from pathlib import Path

import pipestate

SOURCE = Path(pipestate.__file__).parent


def test_no_operator_is_qualified() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in sorted((*SOURCE.rglob("*.py"), *SOURCE.rglob("*.sql")))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "OPERATOR(" in line
    ]
    assert not found
