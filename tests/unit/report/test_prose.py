import re

from markupsafe import Markup

from pipestate.report.prose import ProseSection, sections

FRONT = "---\nrunbook: book\n---\n"


def rendered(text: str, notes: dict[int, str] | None = None) -> str:
    """The whole page as HTML. Its text begins on line 4."""
    marked = {line: Markup(note) for line, note in (notes or {}).items()}
    found = sections(FRONT + text, marked, prefix="book")
    return "".join(f"{each.heading}\n{each.body}" for each in found)


def tags(html: str) -> set[str]:
    return set(re.findall(r"<(\w+)", html))


def test_a_page_is_cut_at_its_headings_and_deeper_ones_stay_inside() -> None:
    text = "intro\n\n# Title\n\nwhy\n\n## Phase: one\n\n### Details\n\ntext\n"
    found = sections(FRONT + text, {}, prefix="book")
    assert [(each.level, each.line, each.anchor, str(each.heading)) for each in found] == [
        (0, 1, "book", ""),
        (1, 6, "book.title", "Title"),
        (2, 10, "book.phase-one", "Phase: one"),
    ]
    assert '<h5 id="book.details">Details</h5>' in found[2].body


def test_a_note_follows_the_block_on_its_line() -> None:
    html = rendered("```sql\n-- check: c\nSELECT 1;\n```\n\nafter\n", {4: "<b>NOTE</b>"})
    assert re.search(r"SELECT 1;.*</details>\s*<b>NOTE</b>\s*<p>after", html, re.DOTALL)


def test_a_note_stands_inside_the_item_on_its_line_whose_box_is_gone() -> None:
    html = rendered("- [ ] `backup` (24h): there is\n  one\n- again: `a/b`\n", {4: "[N1]", 6: "[N2]"})
    assert "<li><code>backup</code> (24h): there is\none[N1]</li>" in html
    assert "<li>again: <code>a/<wbr>b</code>[N2]</li>" in html


def test_sql_is_folded() -> None:
    html = rendered("```sql\n-- check: c\nSELECT 1;\n```\n", {4: "failed"})
    assert '<details class="sql"><summary>SQL: check: c</summary>' in html


def test_raw_html_is_shown_as_text_and_a_remark_is_left_out() -> None:
    html = rendered(
        "a <b onclick=x>b</b>\n\n<script>\nalert(1)\n</script>\n\n<!-- for editors -->\n\n&lt;i&gt;\n"
    )
    assert tags(html) <= {"p", "pre"}
    assert "&lt;script&gt;" in html
    assert "for editors" not in html


def test_nothing_is_loaded_from_elsewhere() -> None:
    html = rendered("![the chart](https://evil.example/x.png) ![](x.png)\n")
    assert tags(html) <= {"p", "span"}
    assert "the chart" in html
    assert "evil" not in html


def test_links_lead_to_the_page_or_to_the_web_and_no_other_place() -> None:
    html = rendered(
        "# In case\n\n[in](#in-case) [gone](#nowhere) [file](docs/x.md) [web](https://a.example/?q=<) "
        "[js](javascript:alert(1)) [data](data:text/html,x) <https://b.example>\n"
    )
    assert re.findall(r'href="([^"]*)"', html) == [
        "#book.in-case",
        "https://a.example/?q=%3C",
        "https://b.example",
    ]
    assert '<span class="elsewhere" title="docs/x.md">file</span>' in html


def test_control_characters_are_visible_in_every_place() -> None:
    hostile = "x\x1b[31m\u202ey"
    html = rendered(
        f"# {hostile}\n\n{hostile} `{hostile}` [{hostile}]({hostile})\n\n```\n{hostile}\n```\n\n| {hostile} |\n|-|\n"
    )
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert html.count("x\\x1b[31m\\u202ey") >= 5


def test_tables_are_there_and_carry_no_style() -> None:
    html = rendered("| a | b |\n|--:|:-:|\n| 1 | `2` |\n")
    assert '<td class="right">1</td>' in html
    assert "style=" not in html


def test_two_headings_of_the_same_words_have_two_ids() -> None:
    found = sections(FRONT + "# A\n\n# A\n", {}, prefix="book")
    assert [each.anchor for each in found] == ["book.a", "book.a-1"]


def test_an_empty_page_has_no_section() -> None:
    empty: list[ProseSection] = []
    assert sections(FRONT, {}, prefix="book") == empty
