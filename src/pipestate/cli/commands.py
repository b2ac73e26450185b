"""Commands by name, and their help. A command's module is imported when it is called, or listed in `--help`.

Help shows options as people type them, with their meaning beside or, on narrow terminals, below. Typer's own help
shows types (`<float range>`) instead of values, and cuts off long names.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import TyperGroup

from pipestate.cli.output import console, say
from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database.interrupt import telling

OWN = {
    "init": "pipestate.cli.init:init",
    "revision": "pipestate.cli.init:revision",
    "verify": "pipestate.cli.verify:verify",
    "gate": "pipestate.cli.verify:gate",
    "plan": "pipestate.cli.status:plan",
    "upgrade": "pipestate.cli.upgrade:upgrade",
    "downgrade": "pipestate.cli.upgrade:downgrade",
    "ready": "pipestate.cli.upgrade:ready",
    "rehearse": "pipestate.cli.rehearse:rehearse",
    "compat": "pipestate.cli.rehearse:compat",
    "status": "pipestate.cli.status:status",
    "drift": "pipestate.cli.status:drift",
    "report": "pipestate.cli.status:report",
    "backfill": "pipestate.cli.backfill:backfill",
    "attest": "pipestate.cli.ledger:attest",
    "observe": "pipestate.cli.ledger:observe",
    "history": "pipestate.cli.ledger:history",
    "ledger": "pipestate.cli.ledger:app",
    "guard": "pipestate.cli.guard:app",
    "fleet": "pipestate.cli.fleet:app",
    "runbook": "pipestate.cli.runbook:app",
    "purge": "pipestate.cli.ledger:purge",
    "eject": "pipestate.cli.init:eject",
}
DEMO = "demo"  # a command of the application, offered in every project
# `downgrade` takes `-1` as a revision, so unknown options are passed on.
_SETTINGS = {"downgrade": {"ignore_unknown_options": True}}
TITLES = ("Arguments", "Options")


class Commands(TyperGroup):
    """The tool's own commands, and those that installed packages add.

    Entry points are read for `--help`, for unknown names, and for `backfill`: its form without a name is an entry
    point (`cli/backfill.py`).
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command; report Ctrl-C in one sentence, with an exit code apart from the command's answers."""
        with telling(lambda: "the command ended before it was done"):
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command; return None for an unknown name, raise PipestateError for a broken command."""
        if cmd_name not in self.commands:
            made = _own(cmd_name) or _added(cmd_name)
            if made is None:
                return None
            self.commands[cmd_name] = made
        return self.commands[cmd_name]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        require_command(ctx, args)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return list(usage(self, ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        write_help(self, ctx, formatter)

    @property
    def added(self) -> set[str]:
        """The names of commands from packages: help lists them separately."""
        return {name for name in self.commands if name not in OWN}

    def list_commands(self, ctx: Any) -> list[str]:
        """List all working commands; print the reason for each broken one."""
        from pipestate.core import plugins
        from pipestate.project.find import serves_application

        names = list(OWN)
        hides = not serves_application()
        for plugin in plugins.find_plugins(plugins.COMMANDS).values():
            if hides and plugin.is_of_application and plugin.name != DEMO:
                continue
            try:
                if plugin.name in OWN:
                    raise ConfigError(f"{plugin.title} is left out: pipestate has a command of that name")
                self.get_command(ctx, plugin.name)
                names.append(plugin.name)
            except PipestateError as error:
                if not ctx.resilient_parsing:  # set during shell completion
                    say(f"pipestate: {error}", err=True)
        return names

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of a command line; compare a misspelt name with all commands."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            for name in self.list_commands(ctx):
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)


def _own(name: str) -> Any:
    if name not in OWN:
        return None
    module, _, attribute = OWN[name].partition(":")
    return build(name, getattr(import_module(module), attribute))


def _added(name: str) -> Any:
    from pipestate.core import plugins

    plugin = plugins.find_plugins(plugins.COMMANDS).get(name)
    if plugin is None:
        return None
    made = plugin.load()
    try:
        return build(name, made)
    except Exception as error:  # Typer raises many types for functions that it cannot convert
        raise plugin.broken(error) from error


def build(name: str, made: Callable[..., Any] | typer.Typer) -> Any:
    """Make a command from a function, or a command group from a Typer."""
    shell = typer.Typer(pretty_exceptions_enable=False)
    if isinstance(made, typer.Typer):
        shell.add_typer(made, name=name)
    else:
        shell.command(name, context_settings=_SETTINGS.get(name))(made)
    return explain(typer.main.get_group(shell).commands[name])


def require_command(context: Any, args: list[str]) -> None:
    """Print the help of a group that was called alone, and exit with 2. Typer drops the help that Click prints."""
    if not args and not context.resilient_parsing:
        typer.echo(context.get_help(), err=True)
        context.exit(2)


Rows = Sequence[tuple[str, str]]


def explain(command: Any) -> Any:
    """Give a command and its subcommands this help."""
    if hasattr(command, "commands"):
        parse = command.parse_args

        def parse_args(context: Any, args: list[str]) -> Any:
            require_command(context, args)
            return parse(context, args)

        command.parse_args = parse_args
    command.collect_usage_pieces = lambda context: list(usage(command, context))
    command.format_help = lambda context, formatter: write_help(command, context, formatter)
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


def write_help(command: Any, context: Any, formatter: Any) -> None:
    """Write the whole help for the terminal's width."""
    formatter.width = console().width
    formatter.write_usage(context.command_path, " ".join(usage(command, context)))
    for paragraph in (command.help or "").split("\n\n"):
        formatter.write_paragraph()
        formatter.write_text(" ".join(paragraph.split()))
    for title, rows in _sections(command, context):
        with formatter.section(title):
            formatter.write_dl(rows)


def _sections(command: Any, context: Any) -> Iterator[tuple[str, Rows]]:
    """Yield commands, arguments and options under their titles; options of a panel come last, under its name."""
    yield from _commands(command, context)
    parameters = _shown(command, context)
    panels = {each: getattr(each, "rich_help_panel", None) or TITLES[_is_option(each)] for each in parameters}
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


def _written(parameter: Any, *, every: bool = False) -> str:
    """Write a parameter as people type it: `--older-than 30d`, `[RUNBOOK]...`; with `every`, all its names."""
    if not _is_option(parameter):
        name = parameter.metavar or parameter.name.upper()
        return (name if parameter.required else f"[{name}]") + ("..." if parameter.nargs == -1 else "")
    longest = str(max(parameter.opts, key=len))
    names = [*sorted(parameter.opts, key=len), *parameter.secondary_opts] if every else [longest]
    if parameter.is_flag:
        return ", ".join(names)
    last_word = longest.removeprefix("--").rpartition("-")[2].upper()
    value = parameter.metavar or ("N" if isinstance(parameter.default, int | float) else last_word)
    return f"{', '.join(names)} {value}"


def _meaning(parameter: Any) -> str:
    """Write the meaning of a parameter, its choices and its default."""
    default = parameter.default
    is_enum = isinstance(default, Enum)
    choices = (
        [each.value for each in type(default)]
        if is_enum
        else getattr(getattr(parameter, "type", None), "choices", ())
    )
    notes = [", ".join(map(str, choices))]
    if _is_option(parameter) and parameter.required:
        notes.append("required")
    if getattr(parameter, "show_default", False) and default not in (None, False, (), []):
        value = default.value if is_enum else f"{default:g}" if isinstance(default, float) else default
        notes.append(f"default {value}")
    told = "; ".join(note for note in notes if note)
    return (parameter.help or "") + (f" ({told})" if told else "")
