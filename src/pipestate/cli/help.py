"""Help of `--help`: options as people type them, with their meaning beside or, on narrow terminals, below.

Typer's own help shows types (`<float range>`) instead of values, and cuts off long names.
"""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from pipestate.cli.output import console

if TYPE_CHECKING:
    from rich.console import Console

INDENT = 2
GAP = 2
BLANKS = re.compile(r" +((?:\x1b\[\d*m)*)$", re.MULTILINE)  # blanks before a line break
TITLES = ("Arguments", "Options")
Rows = Sequence[tuple[str, str]]


def explain(command: Any) -> Any:
    """Give a command and its subcommands this help."""
    command.collect_usage_pieces = lambda context: list(usage(command, context))
    command.format_help = lambda context, formatter: formatter.write(page(command, context))
    for below in getattr(command, "commands", {}).values():
        explain(below)
    return command


def usage(command: Any, context: Any) -> Iterator[str]:
    """Yield the parts of the usage line after the command's name."""
    parameters = _shown(command, context)
    yield from (_written(each) for each in parameters if _is_option(each) and each.required)
    yield "[OPTIONS]"
    yield from (_written(each) for each in parameters if not _is_option(each))
    if hasattr(command, "commands"):
        yield "COMMAND ..."


def page(command: Any, context: Any) -> str:
    """Write the whole help for the terminal's width."""
    from rich.text import Text

    screen = console()
    with screen.capture() as written:
        screen.print(Text(f"Usage: {context.command_path} {' '.join(usage(command, context))}", "bold"))
        for paragraph in (command.help or "").split("\n\n"):
            screen.print(f"\n{' '.join(paragraph.split())}", soft_wrap=False)
        for title, rows in _sections(command, context):
            screen.print(Text(f"\n{title}:", "bold"))
            _print_rows(rows, screen)
    return BLANKS.sub(r"\1", written.get())


def _sections(command: Any, context: Any) -> Iterator[tuple[str, Rows]]:
    """Yield commands, arguments and options under their titles; options of a panel come last, under its name."""
    yield from _commands(command, context)
    parameters = _shown(command, context)
    panels = {each: _title(each) for each in parameters}
    for title in dict.fromkeys((*TITLES, *panels.values())):
        rows = [(_written(each, every=True), _meaning(each)) for each in parameters if panels[each] == title]
        if rows:
            yield title, rows


def _commands(command: Any, context: Any) -> Iterator[tuple[str, Rows]]:
    """Yield the commands of a group with the first sentence of each; commands from packages come separately."""
    if not hasattr(command, "commands"):
        return
    names = command.list_commands(context)
    added: set[str] = getattr(command, "added", set())
    for title, wanted in (("Commands", False), ("Commands that installed packages add", True)):
        rows = [
            (name, _first_sentence(command.get_command(context, name)))
            for name in names
            if (name in added) is wanted
        ]
        if rows:
            yield title, rows


def _first_sentence(command: Any) -> str:
    """Return the first sentence of a command's help.

    >>> class Purge: help = "Drop the archive. It is\\ngone then.\\n\\nExample: pipestate purge"
    >>> _first_sentence(Purge)
    'Drop the archive.'
    """
    first = " ".join((command.help or "").partition("\n\n")[0].split())
    sentence, stop, _ = first.partition(". ")
    return sentence + stop.strip()


def _shown(command: Any, context: Any) -> list[Any]:
    return [each for each in command.get_params(context) if not getattr(each, "hidden", False)]


def _is_option(parameter: Any) -> bool:
    return bool(parameter.opts[0].startswith("-"))


def _title(parameter: Any) -> str:
    panel: str | None = getattr(parameter, "rich_help_panel", None)
    return panel or TITLES[_is_option(parameter)]


def _written(parameter: Any, *, every: bool = False) -> str:
    """Write a parameter as people type it: `--older-than 30d`, `[RUNBOOK]...`; with `every`, all its names."""
    if not _is_option(parameter):
        name = parameter.metavar or parameter.name.upper()
        return (name if parameter.required else f"[{name}]") + ("..." if parameter.nargs == -1 else "")
    names = [*sorted(parameter.opts, key=len), *parameter.secondary_opts] if every else [_longest(parameter)]
    return ", ".join(names) + (
        "" if parameter.is_flag else f" {parameter.metavar or _placeholder(parameter)}"
    )


def _placeholder(parameter: Any) -> str:
    """Make a name for the value of an option without a metavar."""
    if isinstance(parameter.default, int | float):
        return "N"
    return _longest(parameter).removeprefix("--").rpartition("-")[2].upper()


def _longest(option: Any) -> str:
    return str(max(option.opts, key=len))


def _meaning(parameter: Any) -> str:
    """Write the meaning of a parameter, its choices and its default."""
    notes = [
        ", ".join(_choices(parameter)),
        "required" if _is_option(parameter) and parameter.required else "",
    ]
    if getattr(parameter, "show_default", False) and parameter.default not in (None, False, (), []):
        notes.append(f"default {_value(parameter.default)}")
    told = "; ".join(note for note in notes if note)
    return (parameter.help or "") + (f" ({told})" if told else "")


def _choices(parameter: Any) -> Iterator[str]:
    if isinstance(parameter.default, Enum):
        yield from (str(each.value) for each in type(parameter.default))
    else:
        yield from getattr(getattr(parameter, "type", None), "choices", ())


def _value(default: Any) -> str:
    if isinstance(default, Enum):
        return str(default.value)
    return f"{default:g}" if isinstance(default, float) else str(default)


def _print_rows(rows: Rows, screen: "Console") -> None:
    """Print names and meanings in two columns; a long name has its meaning below."""
    from rich.text import Text

    column = min(max(len(name) for name, _ in rows), screen.width // 2 - INDENT - GAP)
    for name, meaning in rows:
        lines = Text.from_markup(meaning).wrap(screen, screen.width - INDENT - column - GAP)
        head = Text(" " * INDENT).append(name, "cyan")
        if len(name) <= column and lines:
            head.append(" " * (column - len(name) + GAP)).append_text(lines.pop(0))
        screen.print(head, soft_wrap=True)
        for line in lines:
            screen.print(Text(" " * (INDENT + column + GAP)).append_text(line), soft_wrap=True)
