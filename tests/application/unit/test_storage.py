"""Documents are counted from names: PDFs, texts, pages, agendas; and nothing outside the root."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.pipeline.storage import Documents, Storage, StorageError, open_storage
from support.file_rights import powerless

SITE = "a.ca.us"


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory that other users can enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


def put(root: Path, *names: str) -> Path:
    """Empty files of the site."""
    for name in names:
        path = root / SITE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def found(root: Path) -> tuple[set[str], set[str]]:
    documents = open_storage(root).documents(SITE)
    return set(documents.pdfs), set(documents.texts)


def test_a_document_is_a_pdf_and_its_text(root: Path) -> None:
    put(root, "pdfs/council/2024-01-01.pdf", "pdfs/council/2024-02-01.pdf", "txt/council/2024-01-01.txt")
    documents = open_storage(root).documents(SITE)
    assert documents.pdfs["council/2024-01-01"] == f"{root}/{SITE}/pdfs/council/2024-01-01.pdf"
    assert (documents.completed, documents.total) == (1, 2)
    assert documents.missing == ["council/2024-02-01"]


def test_pages_are_one_document(root: Path) -> None:
    put(root, "pdfs/c/d.pdf", "txt/c/d/1.txt", "txt/c/d/2.txt", "txt/c/e/1.txt", "txt/c/e/2.txt")
    assert found(root) == ({"c/d"}, {"c/d", "c/e"})


def test_text_and_pages_of_one_document_are_one(root: Path) -> None:
    put(root, "txt/c/d.txt", "txt/c/d/1.txt", "txt/c/d/2.txt")
    assert found(root) == (set(), {"c/d"})


def test_text_without_a_pdf_is_a_document_of_its_own(root: Path) -> None:
    put(root, "pdfs/c/a.pdf", "txt/c/b.txt", "txt/c/c.txt", "txt/c/d.txt")
    documents = open_storage(root).documents(SITE)
    assert (documents.completed, documents.total, documents.missing) == (3, 4, ["c/a"])


def test_deeper_and_shallower_documents_follow_their_pdf(root: Path) -> None:
    put(root, "pdfs/c/d/annex.pdf", "pdfs/c/d.pdf", "pdfs/top.pdf", "pdfs/paged.pdf")
    put(root, "txt/c/d/annex.txt", "txt/c/d/1.txt", "txt/top.txt", "txt/paged/1.txt", "txt/paged/2.txt")
    everything = {"c/d/annex", "c/d", "top", "paged"}
    assert found(root) == (everything, everything)


def test_an_annex_alone_is_not_the_text_of_the_document_above(root: Path) -> None:
    put(root, "pdfs/c/d.pdf", "pdfs/c/d/annex.pdf", "txt/c/d/annex.txt")
    assert open_storage(root).documents(SITE).missing == ["c/d"]


def test_pages_in_a_directory_below_belong_to_the_same_pdf(root: Path) -> None:
    put(root, "pdfs/c/d.pdf", "txt/c/d/scan/1.txt", "txt/c/d/scan/2.txt", "txt/c/e/scan/1.txt")
    assert found(root) == ({"c/d"}, {"c/d", "c/e/scan"})


def test_agendas_are_counted_beside_minutes(root: Path) -> None:
    put(root, "pdfs/c/d.pdf", "_agendas/pdfs/c/d.pdf", "_agendas/txt/c/d/1.txt")
    assert found(root) == ({"c/d", "_agendas/c/d"}, {"_agendas/c/d"})


def test_the_case_of_a_suffix_does_not_matter_and_other_files_do_not_count(root: Path) -> None:
    put(root, "pdfs/c/d.PDF", "txt/c/d.Txt", "pdfs/c/readme.md", "txt/c/x.pdf", "pdfs/c/y.txt")
    assert found(root) == ({"c/d"}, {"c/d"})


def test_hidden_names_and_directories_with_a_suffix_are_no_documents(root: Path) -> None:
    put(root, "pdfs/c/.d.pdf", "pdfs/.trash/c.pdf", "txt/c/.txt", "pdfs/odd.pdf/d.pdf", "txt/c/d.txt/1.txt")
    assert found(root) == ({"odd.pdf/d"}, {"c/d.txt"})


def test_a_site_without_a_directory_has_no_documents(root: Path) -> None:
    storage = open_storage(root)
    assert storage.documents(SITE) == Documents({}, frozenset())
    assert not storage.has(SITE)
    (root / SITE).mkdir()
    assert storage.has(SITE)
    assert storage.documents(SITE).total == 0


@pytest.mark.parametrize(
    "subdomain", ["", ".", "..", "../other", "a/b", "/etc", "a\\b", "a\0b", "..\\x", "\udfff"]
)
def test_a_subdomain_cannot_climb_out(root: Path, subdomain: str) -> None:
    storage = Storage(root / "sites")
    for read_site in (storage.documents, storage.has):
        with pytest.raises(StorageError, match="check the subdomain"):
            read_site(subdomain)


def test_linked_directories_are_followed_and_loops_end(root: Path) -> None:
    put(root, "pdfs/c/d.pdf")
    (root / "elsewhere").mkdir()
    (root / "elsewhere" / "e.pdf").touch()
    (root / SITE / "pdfs" / "linked").symlink_to(root / "elsewhere")
    (root / SITE / "pdfs" / "c" / "up").symlink_to("..")
    (root / SITE / "pdfs" / "c" / "all").symlink_to(root)
    (root / SITE / "pdfs" / "c" / "self").symlink_to("self")
    (root / SITE / "pdfs" / "c" / "self.pdf").symlink_to("self.pdf")
    (root / "elsewhere" / "back").symlink_to(root / SITE / "pdfs")
    assert found(root) == ({"c/d", "linked/e"}, set())


def test_linked_files_count_and_broken_links_do_not(root: Path) -> None:
    put(root, "pdfs/c/d.pdf")
    (root / SITE / "pdfs" / "c" / "e.pdf").symlink_to("d.pdf")
    (root / SITE / "pdfs" / "c" / "f.pdf").symlink_to("nothing.pdf")
    assert found(root) == ({"c/d", "c/e"}, set())


@pytest.mark.parametrize("closed", ["", "pdfs", "pdfs/c", "txt/c"])
def test_what_may_not_be_read_is_named(root: Path, closed: str) -> None:
    put(root, "pdfs/c/d.pdf", "txt/c/d.txt")
    directory = root / SITE / closed
    directory.chmod(0)
    with powerless(), pytest.raises(StorageError, match="Permission denied") as caught:
        open_storage(root).documents(SITE)
    assert f"{directory}".rstrip("/") in str(caught.value)
    directory.chmod(0o755)


@pytest.mark.parametrize("rights", [0, 0o444, 0o111])
def test_a_root_that_may_not_be_read_or_entered_is_refused(root: Path, rights: int) -> None:
    closed = root / "sites"
    closed.mkdir()
    closed.chmod(rights)
    with powerless(), pytest.raises(ConfigError, match=r"cannot read .*sites.*--storage-dir or STORAGE_DIR"):
        open_storage(closed)


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (None, "no storage directory given"),
        ("", "no storage directory given"),
        (" ", "no storage directory given"),
        ("missing", "does not exist"),
        ("file", "is not a directory"),
        ("nul\0", "cannot read"),
    ],
)
def test_a_root_that_is_no_directory_is_refused(root: Path, path: str | None, what: str) -> None:
    (root / "file").touch()
    with pytest.raises(ConfigError, match=rf"{what}.*--storage-dir or STORAGE_DIR"):
        open_storage(path and path.strip() and str(root / path))


def test_a_root_that_goes_away_is_not_a_site_without_documents(root: Path) -> None:
    storage = Storage(root / "mount")
    with pytest.raises(StorageError, match="is gone"):
        storage.documents(SITE)
