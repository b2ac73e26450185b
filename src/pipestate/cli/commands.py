"""The commands by name. A command's module is imported when it is called, or listed in `--help`."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
import typer.main
from typer.core import TyperGroup

from pipestate.cli.help import explain, page, usage
from pipestate.cli.output import say
from pipestate.cli.ready import pass_ready_values, ready
from pipestate.errors import ConfigError, PipestateError
from pipestate.interrupt import telling

if TYPE_CHECKING:
    from pipestate.plugins import Plugin

OWN = {
    "init": "pipestate.cli.scaffold:init",
    "revision": "pipestate.cli.scaffold:revision",
    "verify": "pipestate.cli.verify:verify",
    "gate": "pipestate.cli.verify:gate",
    "plan": "pipestate.cli.status:plan",
    "upgrade": "pipestate.cli.upgrade:upgrade",
    "rehearse": "pipestate.cli.rehearse:rehearse",
    "compat": "pipestate.cli.rehearse:compat",
    "status": "pipestate.cli.status:status",
    "report": "pipestate.cli.report:report",
    "backfill": "pipestate.cli.backfill:backfill",
    "attest": "pipestate.cli.ledger:attest",
    "observe": "pipestate.cli.ledger:observe",
    "history": "pipestate.cli.ledger:history",
    "ledger": "pipestate.cli.ledger:app",
    "fleet": "pipestate.cli.fleet:app",
    "runbook": "pipestate.cli.runbook:app",
    "purge": "pipestate.cli.purge:purge",
}


class Commands(TyperGroup):
    """The tool's own commands, and those that installed packages add.

    Entry points are read for `--help`, for names that the tool does not know itself, and for `backfill`, whose form
    without a name is one (`cli/bare.py`).
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C is told in one sentence, and is not an answer of the command."""
        with telling(lambda: "the command ended before it was done"):
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command; None where no command has that name, PipestateError where it is broken."""
        if cmd_name not in self.commands:
            made = _own(cmd_name) or _added(cmd_name)
            if made is None:
                return None
            self.commands[cmd_name] = made
        return self.commands[cmd_name]

    def get_params(self, ctx: Any) -> list[Any]:
        return ready(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return list(usage(self, ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(page(self, ctx))

    @property
    def added(self) -> set[str]:
        """The names of commands that are not the tool's own: help shows them apart."""
        return {name for name in self.commands if name not in OWN}

    def list_commands(self, ctx: Any) -> list[str]:
        """List all that work; say of each of the others, in one sentence, why it does not."""
        from pipestate import plugins

        names = list(OWN)
        for plugin in plugins.commands().values():
            try:
                _refuse_own(plugin)
                self.get_command(ctx, plugin.name)
                names.append(plugin.name)
            except PipestateError as error:
                if not ctx.resilient_parsing:  # then the shell asks, to complete a word
                    say(f"pipestate: {error}", err=True)
        return names

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of a command line; a misspelt one is compared with all that there are."""
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
    from pipestate import plugins

    plugin = plugins.commands().get(name)
    if plugin is None:
        return None
    made = plugin.load()
    try:
        return build(name, made)
    except Exception as error:  # Typer raises all kinds of errors for a function that it does not understand
        raise plugin.broken(error) from error


def build(name: str, made: Callable[..., Any] | typer.Typer) -> Any:
    """Make a command of a function, a group of commands of a Typer."""
    shell = typer.Typer(pretty_exceptions_enable=False)
    if isinstance(made, typer.Typer):
        shell.add_typer(made, name=name)
    else:
        shell.command(name)(made)
    return explain(pass_ready_values(typer.main.get_group(shell).commands[name]))
