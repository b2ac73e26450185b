"""The page docs/reference/cli.md, written from `--help`: `make docs-cli`.

Options that most commands share (which project, which database) stand once, at the top of the page.
"""

from collections.abc import Iterator
from typing import Any

import typer.main
from typer.testing import CliRunner

from pipestate.cli.main import OWN, app
from support.alembic_runs import ROOT

PAGE = ROOT / "docs" / "reference" / "cli.md"
COLUMNS = "78"
HELP_ALONE = "\n\nOptions:\n  -h, --help  Show this message and exit."
SHARED = ("Which project:", "Which database:")
HEAD = """\
# Command line

`make docs-cli` writes this page from `--help`. [Exit codes](exit-codes.md) and [JSON](json.md) have pages of
their own. `pipestate --install-completion` installs completion for your shell.

"""
APPLICATION = """\
# The shipped application

These commands serve the migration that comes with pipestate, and belong to no other project.

"""


def helped(*command: str) -> str:
    """Return what `pipestate COMMAND --help` prints."""
    done = CliRunner().invoke(app, [*command, "--help"], prog_name="pipestate", env={"COLUMNS": COLUMNS})
    assert done.exit_code == 0, done.output
    return done.output.strip("\n")


def commands(*, groups: bool = True) -> Iterator[tuple[str, ...]]:
    """Yield every command by its words, with or without the groups."""
    group: Any = typer.main.get_command(app)
    context = group.context_class(group, info_name="pipestate")
    for name in group.list_commands(context):
        below = getattr(group.get_command(context, name), "commands", {})
        if groups or not below:
            yield (name,)
        yield from ((name, each) for each in below)


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split a help into its own part and the shared panels by their titles."""
    own, shared = [], {}
    for part in text.replace(HELP_ALONE, "").split("\n\n"):
        title = part.partition("\n")[0]
        if title in SHARED:
            shared[title] = part
        else:
            own.append(part)
    return "\n\n".join(own), shared


def page() -> str:
    """Write the whole page."""
    panels: dict[str, str] = {}
    sections = []
    application = False
    for words in commands():
        own, shared = split(helped(*words))
        for title, part in shared.items():
            if panels.setdefault(title, part) != part:
                own += f"\n\n{part}"  # another form of the panel stands with its command
        named = [title.rstrip(":").split()[-1] for title, part in shared.items() if panels[title] == part]
        kinds = " and the ".join(named)
        note = f"\nThe [common options](#common-options) for the {kinds} work here, too.\n" if named else ""
        if words[0] not in OWN and not application:
            application = True
            sections.append(APPLICATION.replace("# ", "## ", 1))
        sections.append(f"## {' '.join(words)}\n\n```help\n{own}\n```\n{note}\n")
    common = "\n\n".join(panels.values())
    top = f"## pipestate\n\n```help\n{helped()}\n```\n\n## Common options\n\n```help\n{common}\n```\n\n"
    return (HEAD + top + "".join(sections)).rstrip("\n") + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
