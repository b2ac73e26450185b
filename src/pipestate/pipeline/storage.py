"""Documents in the storage directory: those with a PDF, and those with text.

    <root>/<subdomain>/pdfs/<meeting>/<date>.pdf
    <root>/<subdomain>/txt/<meeting>/<date>.txt         the text in one file
    <root>/<subdomain>/txt/<meeting>/<date>/<page>.txt  or in pages, which are one document

The same layout repeats below `_agendas`. Only names are read: a directory costs one listing, and
files stay unopened.
"""

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from pipestate.core.errors import ConfigError, PipestateError

Entry = os.DirEntry[str]

AGENDAS = "_agendas/"
HOW_TO_NAME_IT = "give the directory of the sites with --storage-dir or STORAGE_DIR"
GONE = (FileNotFoundError, NotADirectoryError)


class StorageError(PipestateError):
    """An unreadable place in the storage directory, or a site name that cannot be a directory."""


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
        """Return documents with a PDF but without text."""
        return sorted(document for document in self.pdfs if document not in self.texts)


@dataclass(frozen=True, slots=True)
class Storage:
    """Storage directory with one directory per site."""

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
        """Check for a directory of this site."""
        path = f"{self.root}/{_component(subdomain)}"
        if _is_directory(path):
            return True
        # If the root was unmounted in the meantime, a missing directory proves nothing.
        if not _is_directory(str(self.root)):
            raise StorageError(f"the storage directory {self.root} is gone: {HOW_TO_NAME_IT}")
        return False

    def sites(self) -> Iterator[str]:
        """Yield the names of all directories; some of them should be known sites."""
        with _reading(str(self.root)), os.scandir(self.root) as entries:
            for entry in entries:
                text = entry.name.encode(errors="ignore").decode()  # as a database query accepts it
                if text == entry.name and entry.is_dir():
                    yield text


def open_storage(path: str | Path | None) -> Storage:
    """Open the storage directory; raise ConfigError if it is missing or unreadable."""
    if path is None or not str(path).strip():
        raise ConfigError(f"no storage directory given: {HOW_TO_NAME_IT}")
    root = Path(path).absolute()
    try:
        os.scandir(root).close()
        os.stat(f"{root}/.")  # noqa: PTH116 - a Path would drop the dot, which tests the right to enter
    except FileNotFoundError as error:
        raise ConfigError(f"the storage directory {root} does not exist: {HOW_TO_NAME_IT}") from error
    except NotADirectoryError as error:
        raise ConfigError(f"{root} is not a directory: {HOW_TO_NAME_IT}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read the storage directory {root}: {reason}; {HOW_TO_NAME_IT}") from error
    return Storage(root)


def _component(subdomain: str) -> str:
    """Return the subdomain; refuse all but a plain name, so database values stay below the root."""
    plain = subdomain not in ("", ".", "..") and not any(sign in subdomain for sign in "/\\\0")
    try:
        os.fsencode(subdomain)
    except UnicodeEncodeError:
        plain = False
    if not plain:
        message = f"{subdomain!r} cannot be the name of a directory: check the subdomain of this site"
        raise StorageError(message)
    return subdomain


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - Path.is_dir hides permission errors
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
    """Read one pair of `pdfs` and `txt`: each PDF with its path, and the documents with text."""
    pdfs: dict[str, str] = {}
    directories: set[str] = set()  # directories that contain a PDF, directly or deeper
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
    """Return the directory and all its parents.

    >>> sorted(_with_parents("council/2024"))
    ['', 'council', 'council/2024']
    """
    parts = directory.split("/")
    return {"/".join(parts[:end]) for end in range(len(parts) + 1)}


def _texts(root: str, pdfs: Mapping[str, str], directories: Set[str]) -> list[str]:
    """List the documents with text; a document with pages may be listed more than once.

    A text belongs to the PDF of the same name, else it is a page of the PDF that names its directory.
    Otherwise it is a separate document; below the depth of documents it is a page of its directory.
    """
    found: list[str] = []
    waiting: list[tuple[str, str | None]] = [(root, None)]  # directory, and the PDF of its pages
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
    """List the documents of the files with this suffix, and those files.

    Names contain no slash, so they can be joined and split at their suffixes. This covers most directories,
    and is much faster than testing each name.
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
    """List the files and the subdirectories of a directory."""
    with _reading(directory), os.scandir(directory) as listing:
        entries = list(listing)
        files = _files(entries)
        if len(files) == len(entries):
            return files, []
        return files, [entry.path for entry in entries if entry.name[0] != "." and _leads_on(entry)]
    return [], []


def _any_text(directory: str) -> bool:
    """Check for a text in the directory; stops at the first one."""
    with _reading(directory), os.scandir(directory) as listing:
        return any(_documents_of([entry], "", ".txt")[0] for entry in listing if _is_file(entry))
    return False


@contextmanager
def _reading(directory: str) -> Iterator[None]:
    """Treat vanished directories as empty, and raise for unreadable ones."""
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
    """Check for a directory, or a link to one that does not form a loop."""
    target = _target(entry)
    if target is None or not stat.S_ISDIR(target.st_mode):
        return entry.is_dir(follow_symlinks=False)
    return not any(os.path.samestat(target, parent.stat()) for parent in Path(entry.path).parents)


def _target(entry: Entry) -> os.stat_result | None:
    """Follow a symbolic link; return None for other entries and broken links."""
    try:
        return entry.stat() if entry.is_symlink() else None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
