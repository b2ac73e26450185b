"""Where the directories lie that a project's configuration names. Packages are looked up, not imported."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from pipestate.chain.configuration import Configuration
from pipestate.errors import ConfigError
from pipestate.paths import from_here

SEPARATORS = {"space": " ", "newline": "\n", "os": os.pathsep, ":": ":", ";": ";"}


def script_directory(configuration: Configuration) -> Path:
    """Find the directory of env.py. Flask-Migrate does not name it, and puts the ini into it."""
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
    """Find the directories of the revisions: those of `version_locations`, else `versions` beside env.py.

    One that does not exist is an empty one, as in Alembic.
    """
    named = _split(configuration) or configuration.options("version_locations")
    found = (_find(name, "version_locations", configuration) for name in named)
    return tuple(found) or (scripts / "versions",)


def _find(text: str, option: str, configuration: Configuration) -> Path:
    if not Path(text).is_absolute() and ":" in text:
        return _in_package(text, option, configuration)
    return _relative(Path(text), option, configuration.path)


def _relative(path: Path, option: str, file: Path) -> Path:
    """Find a path beside the file that names it, else from here, where Alembic looks; two are refused."""
    beside = from_here(file.resolve().parent / path)
    places = {place.resolve(): place for place in (beside, from_here(path)) if place.is_dir()}
    if len(places) > 1:
        raise ConfigError(
            f"{file}: {option} is the relative path {path}, which lies beside that file and here as well: "
            f"write %(here)s/{path}"
        )
    return next(iter(places.values()), beside)


def _in_package(text: str, option: str, configuration: Configuration) -> Path:
    package, *parts = text.split(":")
    folder = Path(*package.split("."), *parts)
    for root in _import_path(configuration):
        if (root / folder).is_dir():
            return from_here(root / folder)
    raise ConfigError(
        f"{configuration.path}: {option} is {text}, and that package is found neither beside the file nor on "
        "prepend_sys_path nor installed here: name the directory with --scripts"
    )


def _import_path(configuration: Configuration) -> Iterator[Path]:
    """List the directories in which Python would look for the project's packages."""
    home = configuration.path.resolve().parent
    prepended = re.split(r"[,;:\s]+", configuration.option("prepend_sys_path") or "")
    for entry in (*prepended, *configuration.options("prepend_sys_path"), "src"):
        yield home / entry
    yield from (Path(entry) for entry in sys.path if entry)


def _split(configuration: Configuration) -> list[str]:
    ini = configuration.ini
    text = ini.option(configuration.section, "version_locations") if ini else None
    if ini is None or not text:
        return []
    names = ("path_separator", "version_path_separator")
    name = next((name for name in names if ini.option(configuration.section, name)), None)
    if name is None:
        return re.split(r", *|\s+", text)
    separator = ini.option(configuration.section, name) or ""
    if separator not in SEPARATORS:
        raise ConfigError(f"{ini.path}: {name} is {separator}; it may be {', '.join(SEPARATORS)}")
    return [part.strip() for part in text.split(SEPARATORS[separator]) if part.strip()]
