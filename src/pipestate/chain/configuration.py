"""What a project's files say: an alembic.ini, the `[tool.alembic]` of a pyproject.toml, or both together."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipestate.chain.ini import Ini, read_ini
from pipestate.chain.pyproject import Pyproject, read_pyproject
from pipestate.errors import ConfigError

PYPROJECT = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One file at least; the ini outranks the pyproject.toml, as in Alembic."""

    ini: Ini | None
    toml: Pyproject | None
    section: str

    @property
    def path(self) -> Path:
        file = self.ini or self.toml
        assert file is not None
        return file.path

    def option(self, name: str) -> str | None:
        """Return an option of Alembic's section; None where it is not there or empty."""
        found = self.ini.option(self.section, name) if self.ini else None
        return found or (self.toml.text(name) if self.toml else None)

    def options(self, name: str) -> list[str]:
        """Return a list, which only a pyproject.toml can hold."""
        return self.toml.texts(name) if self.toml else []

    def flag(self, name: str) -> bool:
        found = self.ini.option(self.section, name) if self.ini else None
        return found == "true" if found else bool(self.toml and self.toml.flag(name))

    def lines(self, section: str) -> Mapping[str, str]:
        """Return the lines of another section of the ini as they are written."""
        return self.ini.section(section) if self.ini else {}


def read_configuration(path: Path, section: str | None) -> Configuration:
    """Read a file and the other one beside it; `section` is Alembic's `--name`."""
    if path.name != PYPROJECT:
        return _checked(read_ini(path), read_pyproject(path.with_name(PYPROJECT)), section)
    toml = read_pyproject(path)
    if toml is None:
        raise ConfigError(f"{path} has no [tool.alembic]: add it, or name the project's alembic.ini")
    beside = path.with_name("alembic.ini")
    return _checked(read_ini(beside) if beside.is_file() else None, toml, section)


def _checked(ini: Ini | None, toml: Pyproject | None, section: str | None) -> Configuration:
    name = section or "alembic"
    if ini is not None and name not in ini.sections() and (toml is None or section is not None):
        there = ", ".join(f"[{each}]" for each in ini.sections()) or "none"
        raise ConfigError(f"{ini.path} has no section [{name}]; there are {there}: name one with --name")
    return Configuration(ini, toml, name)
