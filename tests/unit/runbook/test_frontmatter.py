from collections.abc import Callable

import pytest

from pipestate.core.errors import RunbookError
from support.parsed import parse

Lint = Callable[[str], list[tuple[int, str]]]

BODY = "\n## Phase: ready\n\n```sql\n-- check: a\n-- require: rows = 0\nSELECT 1;\n```\n"


def page(front: str) -> str:
    return f"---\n{front}\n---\n{BODY}"


def test_the_front_matter_names_the_runbook_and_its_phases() -> None:
    runbook = parse(
        page("runbook: sample\ndefault: true\nphases:\n  ready: {from: '0002', until: a1, opens: ['0006']}"),
        "sample.md",
    )

    assert (runbook.name, runbook.default) == ("sample", True)
    assert (runbook.phases[0].from_, runbook.phases[0].until) == ("0002", "a1")
    assert runbook.phases[0].opens == ("0006",)


@pytest.mark.parametrize("revision", ["0003", "1.0", "2026-01-20", "on", "1e5", "0x1f", "1_000"])
def test_a_revision_without_quotes_stays_as_it_is_written(revision: str) -> None:
    front = f"runbook: sample\nphases:\n  ready: {{from: {revision}, until: a1, opens: [{revision}]}}"
    phase = parse(page(front), "sample.md").phases[0]

    assert (phase.from_, phase.opens) == (revision, (revision,))


@pytest.mark.parametrize("about", ["", " {}", " null", " ~"])
def test_a_phase_may_follow_no_revisions(about: str) -> None:
    runbook = parse(page(f"runbook: sample\nphases:\n  ready:{about}"), "sample.md")

    assert not runbook.default
    assert (runbook.phases[0].from_, runbook.phases[0].until, runbook.phases[0].opens) == (None, None, ())


@pytest.mark.parametrize("end", ["---", "..."])
def test_the_front_matter_may_end_as_yaml_does(end: str) -> None:
    assert parse(f"---\nrunbook: a\nphases: {{ready: }}\n{end}\n{BODY}", "a.md").name == "a"


@pytest.mark.parametrize(
    ("front", "line", "message"),
    [
        ("default: true\nphases:\n  ready:", 1, "the front matter has no `runbook:`: name the runbook there"),
        ("runbook: a", 1, "the front matter has no `phases:`: list them there, in order"),
        ("", 1, "the front matter is empty: begin the file with"),
        ("# only a comment", 1, "the front matter is empty"),
        ("just text", 2, "the front matter must be keys with values"),
        ("- a\n- b", 2, "the front matter must be keys with values"),
        ("runbook: [a\nphases:", 3, "the front matter is not YAML: "),
        ("runbook: 'a\nphases:", 3, "the front matter is not YAML: found unexpected end of stream"),
        ("runbook: a\x07", 1, "the front matter is not YAML: unacceptable character"),
        (
            "runbook: a\nphases: {ready: }\ndefualt: true",
            4,
            "unknown key `defualt` in the front matter: it takes",
        ),
        (
            "runbook: a\nphases:\n  ready:\n    form: '0003'",
            5,
            "unknown key `form` in phase ready: it takes from,",
        ),
        ("runbook: a\nrunbook: b\nphases: {ready: }", 3, "`runbook` appears twice in the front matter"),
        ("runbook: a\nphases:\n  ready:\n  ready:", 5, "`ready` appears twice in phases: keep one of them"),
        ("runbook: A b\nphases: {ready: }", 2, "`runbook: A b`: a name is lower-case letters"),
        ("runbook:\nphases: {ready: }", 2, "`runbook:` has no value"),
        ("runbook: {a: b}\nphases: {ready: }", 2, "`runbook:` must be one text"),
        ("runbook: a\ndefault: maybe\nphases: {ready: }", 3, "`default:` must be true or false"),
        ("runbook: a\nphases: ready", 3, "phases must be keys with values"),
        ("runbook: a\nphases: [ready]", 3, "phases must be keys with values"),
        ("runbook: a\nphases:", 3, "`phases:` is empty: list the phases, in order"),
        ("runbook: a\nphases: {}", 3, "`phases:` is empty: list the phases, in order"),
        ("runbook: a\nphases:\n  ready: soon", 4, "phase ready must be keys with values"),
        ("runbook: a\nphases: {ready: , Go on: }", 3, "phase `Go on`: a name is lower-case letters"),
        ("runbook: a\nphases:\n  ready:\n    until: ''", 5, "`until:` has no value"),
        ("runbook: a\nphases:\n  ready:\n    until: ['1']", 5, "`until:` must be one text"),
        (
            "runbook: a\nphases:\n  ready:\n    opens: '0006'",
            5,
            '`opens:` must be a list of revisions, as opens: ["ae10"]',
        ),
        ("runbook: " + "[" * 3000, 1, "the front matter is not YAML"),
        (
            "default: true\nrunbook: orders\nphases: {ready: }",
            3,
            "`runbook: orders` is in a file of another name: call the file orders.md, or write `runbook: sample` here",
        ),
    ],
)
def test_a_wrong_front_matter_is_reported_with_its_line(
    front: str, line: int, message: str, findings_of: Lint
) -> None:
    reported = findings_of(page(front))

    assert [found for found in reported if found[0] == line and message in found[1]], reported


def test_a_file_whose_name_could_be_no_runbooks_is_to_be_called_by_its_runbook() -> None:
    with pytest.raises(RunbookError, match=r"Old Orders.md:2: .* call the file orders.md$"):
        parse(page("runbook: orders\nphases: {ready: }"), "runbooks/Old Orders.md")


@pytest.mark.parametrize(
    "text",
    [
        "# No front matter\n" + BODY,
        "\n---\nrunbook: a\nphases: {ready: }\n---\n" + BODY,
        "---\nrunbook: a\nphases: {ready: }\n" + BODY,
        "---",
        "---\n",
        "---\nrunbook: a",
    ],
)
def test_no_front_matter_is_reported(text: str, findings_of: Lint) -> None:
    line, message = findings_of(text)[0]

    assert line == 1
    assert message.startswith(
        "no front matter, or it is not closed: begin the file with `---`, `runbook: its-name`"
    )
