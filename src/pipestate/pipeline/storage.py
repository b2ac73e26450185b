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
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from pipestate.errors import ConfigError, PipestateError

Entry = os.DirEntry[str]

AGENDAS = "_agendas/"
HOW_TO_NAME_IT = "give the directory of the sites with --storage-dir or STORAGE_DIR"
GONE = (FileNotFoundError, NotADirectoryError)


class StorageError(PipestateError):
    """A place in the storage directory that cannot be read, or a site that cannot have one."""


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of one site."""

    pdfs: Mapping[str, str]  # document -> path of its PDF
    texts: frozenset[str]

    @property
    def total(self) -> int:
        return len(self.pdfs) + len(self.texts.difference(self.pdfs))

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
        pdfs, texts = _documents(f"{self.root}/{subdomain}/")
        agendas, agenda_texts = _documents(f"{self.root}/{subdomain}/{AGENDAS}")
        pdfs.update({AGENDAS + document: path for document, path in agendas.items()})
        texts += [AGENDAS + document for document in agenda_texts]
        return Documents(pdfs, frozenset(texts))

    def has(self, subdomain: str) -> bool:
        """Is there a directory for this site?"""
        path = f"{self.root}/{_component(subdomain)}"
        if _is_directory(path):
            return True
        if not _is_directory(str(self.root)):  # unmounted meanwhile: that is not a site without documents
            raise StorageError(f"the storage directory {self.root} is gone: {HOW_TO_NAME_IT}")
        return False

    def sites(self) -> Iterator[str]:
        """Yield the names of all directories: some of them should be known sites."""
        with _reading(str(self.root)), os.scandir(self.root) as entries:
            for entry in entries:
                text = entry.name.encode(errors="ignore").decode()  # what a database can be asked for
                if text == entry.name and entry.is_dir():
                    yield text


def open_storage(path: str | Path | None) -> Storage:
    """Open the storage directory; ConfigError where it is none that can be read."""
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
    """Return the subdomain; refuse one that is no plain name: no row of the database climbs out of the root."""
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


def _documents(base: str) -> tuple[dict[str, str], list[str]]:
    """Read one pair of `pdfs` and `txt`: each PDF with its path, and the documents that have text."""
    pdfs: dict[str, str] = {}
    directories: set[str] = set()  # those with a PDF in them, or further below
    root = f"{base}pdfs"
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        here = directory[len(root) + 1 :]
        files, below = _scan(directory)
        waiting += below
        names, files = _documents_of(files, here, ".pdf")
        if names:
            pdfs.update(zip(names, map(attrgetter("path"), files), strict=True))
            directories |= _with_parents(here)
    return pdfs, _texts(f"{base}txt", pdfs, directories)


def _with_parents(directory: str) -> set[str]:
    """
    >>> sorted(_with_parents("council/2024"))
    ['', 'council', 'council/2024']
    """
    parts = directory.split("/")
    return {"/".join(parts[:end]) for end in range(len(parts) + 1)}


def _texts(root: str, pdfs: Mapping[str, str], directories: Set[str]) -> list[str]:
    """List the documents that have text; one with pages may come more than once.

    A text belongs to the PDF of its name, else it is a page of the PDF that its directory is named for;
    without either it stands for itself, or, deeper than a document can be, it is a page of its directory.
    """
    found: list[str] = []
    waiting: list[tuple[str, str | None]] = [(root, None)]  # directory, the PDF that it has the pages of
    while waiting:
        path, owner = waiting.pop()
        here = path[len(root) + 1 :]
        owner = here if here in pdfs else owner
        if owner is not None and here not in directories and _any_text(path):
            found.append(owner)
            continue
        files, below = _scan(path)
        waiting += [(directory, owner) for directory in below]
        names, _ = _documents_of(files, here, ".txt")
        document = here if owner is None and "/" in here else owner
        found += names if document is None else [name if name in pdfs else document for name in names]
    return found


def _documents_of(files: list[Entry], here: str, suffix: str) -> tuple[list[str], list[Entry]]:
    """List the documents that the files with this suffix stand for, and those files.

    A name holds no slash, so that the names can be joined and cut at their suffixes: for most
    directories that does it, at a fraction of the cost of looking at each name.
    """
    front = f"{here}/" if here else ""
    text = front + f"/{front}".join(map(attrgetter("name"), files)) + "/"
    documents = text.split(f"{suffix}/")
    plain = documents.pop() == "" and len(documents) == len(files)
    if plain and "/." not in text and text[0] != ".":
        return documents, files
    kept = [file for file in files if file.name[0] != "." and file.name.lower().endswith(suffix)]
    return [front + file.name[: -len(suffix)] for file in kept], kept


def _scan(directory: str) -> tuple[list[Entry], list[str]]:
    """List the files of a directory, and the directories in it."""
    with _reading(directory), os.scandir(directory) as listing:
        entries = list(listing)
        files = _files(entries)
        if len(files) == len(entries):
            return files, []
        return files, [entry.path for entry in entries if entry.name[0] != "." and _leads_on(entry)]
    return [], []


def _any_text(directory: str) -> bool:
    """Is there a text in it? The first one is enough."""
    with _reading(directory), os.scandir(directory) as listing:
        return any(_documents_of([entry], "", ".txt")[0] for entry in listing if _is_file(entry))
    return False


@contextmanager
def _reading(directory: str) -> Iterator[None]:
    """Take what went away in the meantime for empty, and raise for what may not be read."""
    try:
        yield
    except GONE:
        pass
    except OSError as error:
        raise _unreadable(directory, error) from error


def _files(entries: list[Entry]) -> list[Entry]:
    try:
        return list(filter(os.DirEntry.is_file, entries))
    except OSError as error:
        if error.errno != errno.ELOOP:  # a link to itself
            raise
        return [entry for entry in entries if _is_file(entry)]


def _is_file(entry: Entry) -> bool:
    target = _target(entry)
    return stat.S_ISREG(target.st_mode) if target else entry.is_file(follow_symlinks=False)


def _leads_on(entry: Entry) -> bool:
    """Is it a directory, or a link to one that does not lead back?"""
    target = _target(entry)
    if target is None or not stat.S_ISDIR(target.st_mode):
        return entry.is_dir(follow_symlinks=False)
    return not any(os.path.samestat(target, parent.stat()) for parent in Path(entry.path).parents)


def _target(entry: Entry) -> os.stat_result | None:
    """Follow a symbolic link; return None where it is none, or leads nowhere."""
    try:
        return entry.stat() if entry.is_symlink() else None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
