"""The documents in the storage directory: which have a PDF, and which have text.

    <root>/<subdomain>/pdfs/<meeting>/<date>.pdf
    <root>/<subdomain>/txt/<meeting>/<date>.txt         the text in one file
    <root>/<subdomain>/txt/<meeting>/<date>/<page>.txt  or in pages, which are one document

The same again below `_agendas`. Names are read, files are not: a directory costs one listing, and a
file costs nothing but its name.
"""

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipestate.errors import ConfigError, PipestateError

PARTS = ("", "_agendas/")
HOW_TO_NAME_IT = "give the directory of the sites with --storage-dir or STORAGE_DIR"
GONE = (FileNotFoundError, NotADirectoryError)


class StorageError(PipestateError):
    """A place in the storage directory that cannot be read, or a site that cannot have one."""


@dataclass(frozen=True, slots=True)
class Documents:
    """What one site has."""

    pdfs: Mapping[str, str]  # document -> path of its PDF
    texts: frozenset[str]

    @property
    def total(self) -> int:
        return len(self.pdfs) + sum(document not in self.pdfs for document in self.texts)

    @property
    def completed(self) -> int:
        return len(self.texts)

    @property
    def missing(self) -> list[str]:
        """Documents with a PDF and no text."""
        return sorted(document for document in self.pdfs if document not in self.texts)


@dataclass(frozen=True, slots=True)
class Storage:
    """A directory with one directory for each site."""

    root: Path

    def documents(self, subdomain: str) -> Documents:
        if not self.has(subdomain):
            return Documents({}, frozenset())
        pdfs: dict[str, str] = {}
        texts: set[str] = set()
        for part in PARTS:
            base = f"{self.root}/{subdomain}/{part}"
            found = _pdfs(f"{base}pdfs")
            written = _texts(f"{base}txt", found)
            pdfs |= {part + document: path for document, path in found.items()} if part else found
            texts |= {part + document for document in written} if part else written
        return Documents(pdfs, frozenset(texts))

    def has(self, subdomain: str) -> bool:
        """Is there a directory for this site?"""
        path = f"{self.root}/{_component(subdomain)}"
        if _is_directory(path):
            return True
        if not _is_directory(str(self.root)):  # unmounted meanwhile: that is not a site without documents
            raise StorageError(f"the storage directory {self.root} is gone: {HOW_TO_NAME_IT}")
        return False


def open_storage(path: str | Path | None) -> Storage:
    """The storage directory, if it is one that can be read."""
    if path is None or not str(path).strip():
        raise ConfigError(f"no storage directory given: {HOW_TO_NAME_IT}")
    root = Path(path).absolute()
    try:
        os.scandir(root).close()
        os.stat(f"{root}/.")  # noqa: PTH116 - a Path would lose the dot, which asks for the right to enter
    except FileNotFoundError as error:
        raise ConfigError(f"the storage directory {root} does not exist: {HOW_TO_NAME_IT}") from error
    except NotADirectoryError as error:
        raise ConfigError(f"{root} is not a directory: {HOW_TO_NAME_IT}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read the storage directory {root}: {reason}; {HOW_TO_NAME_IT}") from error
    return Storage(root)


def _component(subdomain: str) -> str:
    """The subdomain, if it is one plain name: a row of the database does not climb out of the root."""
    plain = subdomain not in ("", ".", "..") and not any(sign in subdomain for sign in "/\\\0")
    try:
        os.fsencode(subdomain)
    except UnicodeEncodeError:
        plain = False
    if not plain:
        raise StorageError(
            f"{subdomain!r} cannot be the name of a directory: check the subdomain of this site"
        )
    return subdomain


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - Path.is_dir hides what it may not see
    except GONE:
        return False
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> StorageError:
    where = error.filename or path
    return StorageError(
        f"cannot read {where}: {error.strerror}; give this user the right to, and run the same again"
    )


def _pdfs(base: str) -> dict[str, str]:
    found: dict[str, str] = {}
    begin = len(base) + 1
    waiting = [base]
    while waiting:
        files, below = _scan(waiting.pop(), ".pdf")
        waiting += below
        for path in files:
            found[path[begin:-4]] = path
    return found


def _texts(base: str, pdfs: Mapping[str, str]) -> set[str]:
    """The documents that have text.

    A text belongs to the PDF of its name, else it is a page of the PDF that its directory is named for;
    without either it stands for itself, or, deeper than a document can be, it is a page of its directory.
    """
    found: set[str] = set()
    begin = len(base) + 1
    with_pdfs = _directories(pdfs)
    waiting: list[tuple[str, str | None]] = [(base, None)]  # directory, the PDF that it holds the pages of
    while waiting:
        path, owner = waiting.pop()
        here = path[begin:]
        owner = here if here in pdfs else owner
        one_is_enough = owner is not None and here not in with_pdfs
        files, below = _scan(path, ".txt", first=one_is_enough)
        if one_is_enough and files:
            found.add(str(owner))
            continue
        waiting += [(directory, owner) for directory in below]
        document = here if owner is None and "/" in here else owner
        for file in files:
            name = file[begin:-4]
            found.add(name if document is None or name in pdfs else document)
    return found


def _directories(documents: Mapping[str, str]) -> set[str]:
    """Every directory that has one of them somewhere below it."""
    found = {document.rpartition("/")[0] for document in documents}
    for directory in list(found):
        while directory := directory.rpartition("/")[0]:
            found.add(directory)
    return found


def _scan(directory: str, suffix: str, *, first: bool = False) -> tuple[list[str], list[str]]:
    """The files with this suffix and the directories; with `first`, one such file ends it."""
    files: list[str] = []
    below: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                path = entry.path
                if entry.name[0] == ".":
                    continue
                if path[-4:].lower() == suffix and (entry.is_file(follow_symlinks=False) or _is_file(entry)):
                    files.append(path)
                    if first:
                        break
                elif entry.is_dir(follow_symlinks=False) or _leads_on(entry):
                    below.append(path)
    except GONE:
        pass
    except OSError as error:
        raise _unreadable(directory, error) from error
    return files, below


def _is_file(entry: "os.DirEntry[str]") -> bool:
    target = _target(entry)
    return target is not None and stat.S_ISREG(target.st_mode)


def _leads_on(entry: "os.DirEntry[str]") -> bool:
    """Is it a link to a directory, and not back to one that it lies in?"""
    target = _target(entry)
    if target is None or not stat.S_ISDIR(target.st_mode):
        return False
    return not any(os.path.samestat(target, parent.stat()) for parent in Path(entry.path).parents)


def _target(entry: "os.DirEntry[str]") -> os.stat_result | None:
    """What a symbolic link leads to; nothing, where it is none or leads nowhere."""
    try:
        return entry.stat() if entry.is_symlink() else None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
