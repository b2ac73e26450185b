"""Which pages a name, an address, or nothing at all means; and what a broken page beside them stops."""

from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError, RunbookError
from pipestate.runbook.files import find_runbooks, runbooks_at
from support.runbook_samples import block, page

CHECK = block("SELECT 1 AS x")


def write(directory: Path, name: str, default: str) -> None:
    """Write a page whose front matter has this line for `default`."""
    text = page(CHECK, name=name).replace("default: true\n", default)
    (directory / f"{name}.md").write_text(text, encoding="utf-8")


def names(directory: Path) -> list[str]:
    return [book.name for book in find_runbooks([], directory)]


@pytest.mark.parametrize("word", ["true", "True", "TRUE", "yes", "on", "true  # it is"])
def test_whatever_yaml_takes_for_true_runs_by_default(tmp_path: Path, word: str) -> None:
    write(tmp_path, "orders", f"default: {word}\n")
    write(tmp_path, "sales", "")
    assert names(tmp_path) == ["orders"]


def test_a_default_may_stand_indented_and_below_the_phases(tmp_path: Path) -> None:
    text = page(CHECK, name="orders")
    head = "---\n  runbook: orders\n  phases: {one: }\n  default: true\n---\n"
    (tmp_path / "orders.md").write_text(head + text.split("---\n", 2)[2], encoding="utf-8")
    assert names(tmp_path) == ["orders"]


@pytest.mark.parametrize("line", ["", "default: false\n", "default: off\n"])
def test_other_pages_do_not_and_may_be_broken(tmp_path: Path, line: str) -> None:
    write(tmp_path, "orders", "default: true\n")
    write(tmp_path, "sales", line)
    with (tmp_path / "sales.md").open("a", encoding="utf-8") as file:
        file.write("```sql\n-- check: broken\n```\n")
    assert names(tmp_path) == ["orders"]
    (tmp_path / "orders.md").unlink()
    with pytest.raises(ConfigError, match="has `default: true`"):
        names(tmp_path)


@pytest.mark.parametrize("line", ["default: maybe\n", "default: [true]\n", "default: false\ndefault: true\n"])
def test_a_page_that_may_be_a_default_one_is_not_left_out_without_a_word(tmp_path: Path, line: str) -> None:
    write(tmp_path, "orders", "default: true\n")
    write(tmp_path, "sales", line)
    with pytest.raises(RunbookError, match=r"sales.md:[34]: "):
        names(tmp_path)


def test_an_address_with_a_page_reads_that_page_alone(tmp_path: Path) -> None:
    write(tmp_path, "orders", "")
    (tmp_path / "broken.md").write_text("no front matter, one", encoding="utf-8")
    assert [book.name for book in runbooks_at("orders/one", tmp_path)] == ["orders"]
    assert [book.name for book in runbooks_at("orders/one/signed", tmp_path, below=2)] == ["orders"]
    with pytest.raises(RunbookError, match=r"broken.md:1: no front matter"):
        runbooks_at("one", tmp_path)
    assert [book.name for book in runbooks_at("one/signed", tmp_path, below=2)] == ["orders"]
