"""The `pipestate` command: its commands by name, their help, and the one place that turns errors into exit codes.

A command's module is imported when it is called, or listed in `--help`. Help shows options as people type them, with
their meaning beside or, on narrow terminals, below. Typer's own help shows types (`<float range>`) instead of values,
and cuts off long names.
"""

import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup

from pipestate import __version__
from pipestate.cli.output import console, say
from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database.interrupt import explain_interrupt
from pipestate.database.urls import shipped_root

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
    "fleet": "pipestate.cli.fleet:app",
    "runbook": "pipestate.cli.runbook:app",
    "purge": "pipestate.cli.ledger:purge",
    "eject": "pipestate.cli.init:eject",
}
DEMO = "demo"  # a command of the application, offered in every project
# `downgrade` takes `-1` as a revision, so unknown options are passed on.
_SETTINGS = {"downgrade": {"ignore_unknown_options": True}}
COMMANDS, ADDED = "Commands", "Commands that installed packages add"


class Commands(TyperGroup):
    """The tool's own commands, and those that installed packages add.

    Entry points are read for `--help`, for unknown names, and for `backfill`: its form without a name is an entry
    point (`cli/backfill.py`).
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        explain(self)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; report Ctrl-C in one sentence, with an exit code apart from the command's answers."""
        with explain_interrupt(lambda: "the command ended before it was done"):
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command; return None for an unknown name, raise PipestateError for a broken command."""
        if cmd_name in OWN and cmd_name not in self.commands:
            module, _, attribute = OWN[cmd_name].partition(":")
            self.commands[cmd_name] = build(cmd_name, getattr(import_module(module), attribute))
        elif cmd_name not in self.commands:
            from pipestate.core import plugins

            plugin = plugins.find_plugins(plugins.COMMANDS).get(cmd_name)
            if plugin is None:
                return None
            made = plugin.load()
            try:
                self.commands[cmd_name] = build(cmd_name, made)
            except Exception as error:  # Typer raises many types for functions that it cannot convert
                raise plugin.broken(error) from error
        return self.commands[cmd_name]

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


def build(name: str, made: Callable[..., Any] | typer.Typer) -> Any:
    """Make a command from a function, or a command group from a Typer."""
    shell = typer.Typer(pretty_exceptions_enable=False)
    if isinstance(made, typer.Typer):
        shell.add_typer(made, name=name)
    else:
        shell.command(name, context_settings=_SETTINGS.get(name))(made)
    return explain(typer.main.get_group(shell).commands[name])


def explain(command: Any) -> Any:
    """Give a command and its subcommands this help. A group that is called alone prints it, and exits with 2."""
    parse = command.parse_args

    def parse_args(context: Any, args: list[str]) -> Any:
        if not args and not context.resilient_parsing:  # Typer drops the help that Click prints
            typer.echo(context.get_help(), err=True)
            context.exit(2)
        return parse(context, args)

    command.collect_usage_pieces = lambda context: list(usage(command, context))
    command.format_help = lambda context, formatter: write_help(command, context, formatter)
    if hasattr(command, "commands"):
        command.parse_args = parse_args
        for below in command.commands.values():
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
    for title, rows in _sections(command, context).items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def _sections(command: Any, context: Any) -> dict[str, list[tuple[str, str]]]:
    """List commands, arguments and options by title; options of a panel come last, under its name."""
    found: dict[str, list[tuple[str, str]]] = {COMMANDS: [], ADDED: [], "Arguments": [], "Options": []}
    for name in command.list_commands(context) if hasattr(command, "commands") else ():
        is_added = isinstance(command, Commands) and name not in OWN
        summary = _first_sentence(command.get_command(context, name).help or "")
        found[ADDED if is_added else COMMANDS].append((name, summary))
    for each in _shown(command, context):
        usual = "Options" if _is_option(each) else "Arguments"
        rows = found.setdefault(getattr(each, "rich_help_panel", None) or usual, [])
        rows.append((_written(each, every=True), _meaning(each)))
    return found


def _first_sentence(text: str) -> str:
    """
    >>> _first_sentence("Drop the archive. It is\\ngone then.\\n\\nExample: pipestate purge")
    'Drop the archive.'
    """
    sentence, stop, _ = " ".join(text.partition("\n\n")[0].split()).partition(". ")
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
    noted = "; ".join(note for note in notes if note)
    return (parameter.help or "") + (f" ({noted})" if noted else "")


app = typer.Typer(
    cls=Commands,
    help="Run the checks of runbooks, and keep destructive migrations behind gates.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(given: bool) -> None:
    if given:
        typer.echo(f"pipestate {__version__}")
        raise typer.Exit


def _alembic_ini(given: bool) -> None:
    if given:
        typer.echo(shipped_root() / "alembic.ini")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    alembic_ini: Annotated[
        bool,
        typer.Option(
            "--alembic-ini",
            callback=_alembic_ini,
            is_eager=True,
            help="Show where the shipped alembic.ini is, for alembic -c or ALEMBIC_CONFIG.",
        ),
    ] = False,
) -> None:
    del version, alembic_ini


def main() -> None:
    gc.set_threshold(
        100_000, 50, 100
    )  # a command lives for a second; the default collection rate costs a tenth of it
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ✓ shows a question mark
    try:
        try:
            app(prog_name="pipestate")
        finally:
            sys.stdout.flush()
    except PipestateError as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only Python's shutdown is left
        say(f"pipestate: {error}", err=True)
        raise SystemExit(error.exit_code) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # prevents a second flush at exit
        say(f"pipestate: cannot write the output: {error.strerror}", err=True)
        raise SystemExit(3) from error
