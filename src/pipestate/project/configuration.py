"""Configuration of a project: alembic.ini, `[tool.alembic]` of pyproject.toml, or both; read without Alembic.

Importing Alembic's own `Config` takes longer than the rest of `verify`. Each fault of a file becomes one
sentence that hides all values.
"""

import configparser
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipestate.core.errors import ConfigError
from pipestate.core.text import from_here

PYPROJECT = "pyproject.toml"
# Parsing a long file is slow and most files lack the table, so this pattern filters them first.
_POSSIBLE = re.compile(
    r"""tool["'\s]*\.["'\s]*alembic | ^\s*\[\s*["']?tool["']?\s*\] | ^\s*["']?tool["']?\s*[.=]""",
    re.VERBOSE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One or two configuration files; the ini takes precedence over pyproject.toml, as in Alembic.

    `table` is `[tool.alembic]`; `%(here)s` in a value is the directory of the file.
    """

    path: Path
    section: str
    ini: "Ini | None"
    table: Mapping[str, Any] | None

    @property
    def toml(self) -> Path | None:
        return self.path.with_name(PYPROJECT) if self.table is not None else None

    def option(self, name: str) -> str | None:
        """Return an option of Alembic's section; None if it is missing or empty."""
        found = self.ini.option(self.section, name) if self.ini else None
        listed = self.table is not None and isinstance(self.table.get(name), list)
        return found or (None if listed else next(iter(self.options(name)), None))

    def options(self, name: str) -> list[str]:
        """Return a string or a list of strings of pyproject.toml; other types count as missing."""
        value = self.table.get(name) if self.table is not None else None
        try:
            here = {"here": self.path.resolve().parent.as_posix()}
            items = value if isinstance(value, list) else [value]
            return [item % here for item in items if isinstance(item, str)]
        except (KeyError, ValueError, TypeError) as error:
            raise ConfigError(
                f"{self.toml}: {name} in [tool.alembic] has a % that is neither %(here)s nor escaped as %%"
            ) from error

    def flag(self, name: str) -> bool:
        found = self.ini.option(self.section, name) if self.ini else None
        return found == "true" if found else bool(self.table and self.table.get(name) is True)

    def lines(self, section: str) -> Mapping[str, str]:
        """Return the lines of another section of the ini, unchanged."""
        return self.ini.section(section) if self.ini else {}


def read_configuration(path: Path, section: str | None) -> Configuration:
    """Read a file and its counterpart in the same directory; `section` is Alembic's `--name`."""
    table, beside = read_pyproject(path.with_name(PYPROJECT)), path.with_name("alembic.ini")
    if path.name == PYPROJECT and table is None:
        raise ConfigError(f"{path} has no [tool.alembic]: add it, or name the project's alembic.ini")
    if path.name == PYPROJECT and beside.is_file():
        path = beside
    ini = read_ini(path) if path.name != PYPROJECT else None
    name = section or "alembic"
    if ini is not None and name not in ini.sections() and (table is None or section is not None):
        there = ", ".join(f"[{each}]" for each in ini.sections()) or "none"
        raise ConfigError(f"{ini.path} has no section [{name}]; there are {there}: name one with --name")
    return Configuration(path, name, ini, table)


@dataclass(frozen=True, slots=True)
class Ini:
    """Sections of an ini file; `%(here)s` in a value is the directory of the file."""

    path: Path
    parser: configparser.ConfigParser

    def sections(self) -> list[str]:
        return self.parser.sections()

    def option(self, section: str, name: str) -> str | None:
        """Return one value with its `%(name)s` interpolated; None if it is missing or empty."""
        try:
            return self.parser.get(section, name, fallback="").strip() or None
        except configparser.InterpolationMissingOptionError as error:
            # A URL may contain a password, and an apparent reference may be a part of it.
            missing = "a name" if "url" in name else f"%({error.reference})s"
            raise ConfigError(
                f"{self.path}: {name} in [{section}] refers to {missing}, which nothing sets: "
                "set it in that section, or write %% for a plain %"
            ) from error
        except configparser.InterpolationError as error:
            raise ConfigError(
                f"{self.path}: {name} in [{section}] has a % that is not escaped: write %% for a plain %"
            ) from error

    def section(self, name: str) -> Mapping[str, str]:
        """Return the lines of a section, unchanged and without those of [DEFAULT]."""
        if not self.parser.has_section(name):
            return {}
        inherited = self.parser.defaults()
        return {key: value for key, value in self.parser.items(name, raw=True) if key not in inherited}


def read_ini(path: Path) -> Ini:
    """Read the file; raise ConfigError with file and line if it is unreadable."""
    parser = configparser.ConfigParser({"here": path.resolve().parent.as_posix()})
    try:
        with path.open(encoding="utf-8") as lines:
            parser.read_file(lines, str(path))
    except configparser.Error as error:
        raise ConfigError(_fault(path, error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not written in UTF-8: save it as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    return Ini(path, parser)


def _fault(path: Path, error: configparser.Error) -> str:
    if isinstance(error, configparser.MissingSectionHeaderError):
        return f"{path}:{error.lineno}: this line is in no section: put [alembic] above it"
    if isinstance(error, configparser.DuplicateOptionError):
        return f"{path}:{error.lineno}: {error.option} appears twice in [{error.section}]: remove one of them"
    if isinstance(error, configparser.DuplicateSectionError):
        return f"{path}:{error.lineno}: [{error.section}] appears twice: put its lines together"
    first = error.errors[0][0] if isinstance(error, configparser.ParsingError) and error.errors else 1
    return f"{path}:{first}: this line is neither a [section] nor `name = value`: correct it"


def read_pyproject(path: Path) -> Mapping[str, Any] | None:
    """Read `[tool.alembic]`; None if the file or the table is missing."""
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
    return table if isinstance(table, dict) else None


# Directories named in a project's configuration. Packages are located without an import.


SEPARATORS = {"space": " ", "newline": "\n", "os": os.pathsep, ":": ":", ";": ";"}


def script_directory(configuration: Configuration) -> Path:
    """Find the directory of env.py. Flask-Migrate omits the option and stores the ini there."""
    text = configuration.option("script_location")
    if text is None and configuration.path.with_name("env.py").is_file():
        return configuration.path.parent
    if text is None:
        raise ConfigError(
            f"{configuration.path}: [{configuration.section}] has no script_location, "
            "which names the directory of env.py: add it"
        )
    found = _find(text, "script_location", configuration)
    if not found.is_dir():
        raise ConfigError(f"{configuration.path}: script_location is {text}, and there is no such directory")
    return found


def version_directories(configuration: Configuration, scripts: Path) -> tuple[Path, ...]:
    """Find the directories of the revisions: `version_locations`, else `versions` beside env.py.

    A missing directory counts as empty, as in Alembic.
    """
    ini, section = configuration.ini, configuration.section
    named = configuration.options("version_locations")
    if ini and (text := ini.option(section, "version_locations")):
        separators = (
            (name, ini.option(section, name)) for name in ("path_separator", "version_path_separator")
        )
        option, separator = next(((name, given) for name, given in separators if given), ("", None))
        if separator is not None and separator not in SEPARATORS:
            raise ConfigError(f"{ini.path}: {option} is {separator}; it may be {', '.join(SEPARATORS)}")
        parts = text.split(SEPARATORS[separator]) if separator else re.split(r", *|\s+", text)
        named = [part.strip() for part in parts if part.strip()]
    return tuple(_find(name, "version_locations", configuration) for name in named) or (scripts / "versions",)


def _find(text: str, option: str, configuration: Configuration) -> Path:
    """Find a directory of a package, or a path beside its file or, like Alembic, in the current directory."""
    path, file = Path(text), configuration.path
    home = file.resolve().parent
    if path.is_absolute() or ":" not in text:
        beside = from_here(home / path)
        places = {place.resolve(): place for place in (beside, from_here(path)) if place.is_dir()}
        if len(places) > 1:
            raise ConfigError(
                f"{file}: {option} is the relative path {path}, which lies beside that file and here as well: "
                f"write %(here)s/{path}"
            )
        return next(iter(places.values()), beside)
    package, *parts = text.split(":")
    folder = Path(*package.split("."), *parts)
    prepended = re.split(r"[,;:\s]+", configuration.option("prepend_sys_path") or "")
    roots = [home / entry for entry in (*prepended, *configuration.options("prepend_sys_path"), "src")]
    roots += [Path(entry) for entry in sys.path if entry]
    for root in (*roots, *home.parents):  # the last for a file inside the package that it names
        if (root / folder).is_dir():
            return from_here(root / folder)
    raise ConfigError(
        f"{file}: {option} is {text}, and that package is found neither beside the file nor on "
        "prepend_sys_path nor installed here: name the directory with --scripts"
    )
