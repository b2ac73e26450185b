"""An alembic.ini, read without Alembic. Every fault of the file is one sentence, and none shows a value."""

import configparser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipestate.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Ini:
    """The sections of an ini file; `%(here)s` in a value is the file's own directory."""

    path: Path
    parser: configparser.ConfigParser

    def sections(self) -> list[str]:
        return self.parser.sections()

    def option(self, section: str, name: str) -> str | None:
        """Return one value with its `%(name)s` filled in, None where it is not there or empty."""
        try:
            return self.parser.get(section, name, fallback="").strip() or None
        except configparser.InterpolationMissingOptionError as error:
            # A URL may hold a password, and what looks like a reference may be a part of it.
            missing = "a name" if "url" in name else f"%({error.reference})s"
            raise ConfigError(
                f"{self.path}: {name} in [{section}] asks for {missing}, which nothing sets: "
                "set it in that section, or write %% for a plain %"
            ) from error
        except configparser.InterpolationError as error:
            raise ConfigError(
                f"{self.path}: {name} in [{section}] has a % that is not escaped: write %% for a plain %"
            ) from error

    def section(self, name: str) -> Mapping[str, str]:
        """Return the lines of a section as they are written; without those of [DEFAULT]."""
        if not self.parser.has_section(name):
            return {}
        inherited = self.parser.defaults()
        return {key: value for key, value in self.parser.items(name, raw=True) if key not in inherited}


def read_ini(path: Path) -> Ini:
    """Read the file; ConfigError with file and line where it cannot be read."""
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
        return f"{path}:{error.lineno}: this line stands in no section: put [alembic] above it"
    if isinstance(error, configparser.DuplicateOptionError):
        return f"{path}:{error.lineno}: {error.option} stands twice in [{error.section}]: remove one of them"
    if isinstance(error, configparser.DuplicateSectionError):
        return f"{path}:{error.lineno}: [{error.section}] stands twice: put its lines together"
    first = error.errors[0][0] if isinstance(error, configparser.ParsingError) and error.errors else 1
    return f"{path}:{first}: this line is neither a [section] nor `name = value`: correct it"
