"""Commands by name. A command's module is imported when it is called, or listed in `--help`."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
import typer.main
from typer.core import TyperGroup

from pipestate.cli.help import explain, page, usage
from pipestate.cli.output import say
from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database.interrupt import telling

if TYPE_CHECKING:
    from pipestate.core.plugins import Plugin

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

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return list(usage(self, ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(page(self, ctx))

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
        for plugin in plugins.commands().values():
            if hides and plugin.is_of_application and plugin.name != DEMO:
                continue
            try:
                _refuse_own(plugin)
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


def _refuse_own(plugin: "Plugin") -> None:
    if plugin.name in OWN:
        raise ConfigError(f"{plugin.title} is left out: pipestate has a command of that name")


def _own(name: str) -> Any:
    if name not in OWN:
        return None
    module, _, attribute = OWN[name].partition(":")
    return build(name, getattr(import_module(module), attribute))


def _added(name: str) -> Any:
    from pipestate.core import plugins

    plugin = plugins.commands().get(name)
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
