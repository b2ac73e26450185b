import pytest

from pipestate.runbook.markdown import MAX_NESTING, Fence, FrontMatter, Heading, Prose, Task, Unread, blocks


def test_blocks_come_in_order_with_the_line_where_each_begins() -> None:
    source = "---\na: b\n---\n# Title\n\ntext\n\n## Phase: x\n\n- [ ] word\n\n```sql\nSELECT 1\n```\n"

    assert list(blocks(source)) == [
        FrontMatter(1, "a: b"),
        Heading(4, 1, "Title", nested=False),
        Prose(6, "text"),
        Heading(8, 2, "Phase: x", nested=False),
        Task(10, "[ ] word"),
        Fence(12, "sql", "SELECT 1\n", closed=True),
    ]


@pytest.mark.parametrize(
    ("info", "language"),
    [
        ("sql", "sql"),
        ("SQL", "sql"),
        (" Sql ", "sql"),
        ('sql title="x"', "sql"),
        ("sql{1,3}", "sql"),
        ("{.sql}", ""),
        ("", ""),
        ("mysql", "mysql"),
        ("sql-example", "sql-example"),
    ],
)
@pytest.mark.parametrize("mark", ["```", "~~~", "`````"])
def test_the_language_is_the_first_word_in_lower_case(mark: str, info: str, language: str) -> None:
    assert list(blocks(f"{mark}{info}\nx\n{mark}\n")) == [Fence(1, language, "x\n", closed=True)]


def test_a_fence_in_a_list_item_loses_its_indentation_and_keeps_its_line() -> None:
    [_, fence] = blocks("1. step\n\n   ```sql\n   SELECT 1\n     FROM a\n   ```\n")

    assert fence == Fence(3, "sql", "SELECT 1\n  FROM a\n", closed=True)


def test_a_fence_may_begin_on_the_line_of_its_list_item_or_in_a_quote() -> None:
    assert list(blocks("- ```sql\n  a\n  ```\n\n> ~~~sql\n> b\n> ~~~\n")) == [
        Fence(1, "sql", "a\n", closed=True),
        Fence(5, "sql", "b\n", closed=True),
    ]


def test_a_fence_inside_a_longer_fence_is_its_content() -> None:
    [fence] = blocks("````markdown\n```sql\nSELECT 1\n```\n````\n")

    assert fence == Fence(1, "markdown", "```sql\nSELECT 1\n```\n", closed=True)


@pytest.mark.parametrize(
    "source",
    [
        "```sql\nSELECT 1\n",
        "```sql",
        "````sql\nx\n```\n",
        "~~~sql\nx\n```\n",
        "- ```sql\n  x\n\ntext\n",
        "```sql\n``` x\n",
    ],
)
def test_a_fence_that_ends_with_the_file_or_the_item_is_not_closed(source: str) -> None:
    [fence] = (block for block in blocks(source) if isinstance(block, Fence))

    assert not fence.closed


def test_an_empty_fence_is_closed() -> None:
    assert list(blocks("```sql\n```")) == [Fence(1, "sql", "", closed=True)]


def test_html_and_indented_code_are_kept_for_the_lint() -> None:
    source = "<!--\n```sql\n-- check: a\n```\n-->\n\n    -- check: b\n"

    assert list(blocks(source)) == [
        Unread(1, "<!--\n```sql\n-- check: a\n```\n-->\n"),
        Unread(7, "-- check: b\n"),
    ]


def test_a_fence_between_html_tags_with_blank_lines_is_a_fence() -> None:
    found = list(blocks("<details>\n\n```sql\nx\n```\n\n</details>\n"))

    assert found[1] == Fence(3, "sql", "x\n", closed=True)


def test_headings_underlined_or_quoted_are_seen_as_what_they_are() -> None:
    assert list(blocks("Phase: a\n--------\n\n> ## Phase: b\n")) == [
        Heading(1, 2, "Phase: a", nested=False),
        Heading(4, 2, "Phase: b", nested=True),
    ]


def test_deep_nesting_loses_nothing() -> None:
    depth = MAX_NESTING // 2

    assert list(blocks("> " * depth + "```sql\n" + "> " * depth + "x\n")) == [
        Fence(1, "sql", "x\n", closed=False)
    ]
