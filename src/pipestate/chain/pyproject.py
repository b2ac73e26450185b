"""The `[tool.alembic]` of a pyproject.toml, read without Alembic."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipestate.errors import ConfigError

# Most files have no such table, and parsing a long one takes a while: is there anything that could be it?
_POSSIBLE = re.compile(
    r"""tool["'\s]*\.["'\s]*alembic | ^\s*\[\s*["']?tool["']?\s*\] | ^\s*["']?tool["']?\s*[.=]""",
    re.VERBOSE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Pyproject:
    """The table, and where it stands; `%(here)s` in a value is the file's own directory."""

    path: Path
    table: Mapping[str, Any]

    def text(self, name: str) -> str | None:
        """Return a string of the table; None where it is not there, or is something else."""
        value = self.table.get(name)
        return self._filled(name, value) if isinstance(value, str) else None

    def texts(self, name: str) -> list[str]:
        """Return a list of strings of the table."""
        value = self.table.get(name)
        items = value if isinstance(value, list) else []
        return [self._filled(name, item) for item in items if isinstance(item, str)]

    def flag(self, name: str) -> bool:
        return self.table.get(name) is True

    def _filled(self, name: str, value: str) -> str:
        try:
            return value % {"here": self.path.resolve().parent.as_posix()}
        except (KeyError, ValueError, TypeError) as error:
            raise ConfigError(
                f"{self.path}: {name} in [tool.alembic] has a % that is neither %(here)s nor escaped as %%"
            ) from error


def read_pyproject(path: Path) -> Pyproject | None:
    """Read the table; None where there is no such file, or no such table in it."""
    if not path.is_file():
        return None
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text) if _POSSIBLE.search(text) else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML that can be read: {error}") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    table = data.get("tool", {}).get("alembic")
    return Pyproject(path, table) if isinstance(table, dict) else None
