"""A command of the tool whose form without a name an installed package offers.

The entry point `backfill` of the group `pipestate.backfills` is a function as those of `pipestate.commands` are. Its
options join the command's own, so that `--help` shows them and Typer reads them; without a name it is called.
"""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import typer

from pipestate.cli.output import say
from pipestate.errors import ConfigError, OtherChain, PipestateError

NAME = "name"


def with_bare_form(own: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command the options of its bare form, where a package offers one that works."""
    bare = _offered(own.__name__)
    if bare is None:
        return own
    ours, theirs = (inspect.signature(each).parameters for each in (own, bare))
    added = {name: parameter for name, parameter in theirs.items() if name not in ours}

    def command(context: typer.Context, **given: Any) -> Any:
        if given[NAME] is not None:
            _refuse_added(context, added, given[NAME])
            return own(**{name: given[name] for name in ours})
        try:
            return bare(**{name: given[name] for name in theirs})
        except OtherChain:
            return own(**{name: given[name] for name in ours})  # which says what there is

    command.__name__, command.__module__ = own.__name__, own.__module__
    command.__doc__ = (
        f"{inspect.cleandoc(own.__doc__ or '')}\n\nWithout a name: {inspect.cleandoc(bare.__doc__ or '')}"
    )
    where = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [where, *ours.values(), *added.values()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _offered(command: str) -> Callable[..., Any] | None:
    """Load what packages offer; one that is broken is told of, and left out."""
    from pipestate import plugins

    plugin = plugins.backfills().get(command)
    if plugin is None:
        return None
    try:
        made: Callable[..., Any] = plugin.load()
    except PipestateError as error:
        say(f"pipestate: {error}", err=True)
        return None
    return made


def _refuse_added(context: typer.Context, added: Iterable[str], name: str) -> None:
    """Refuse options of the bare form that were typed beside a name: they would do nothing."""
    for option in added:
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            raise ConfigError(
                f"--{option.replace('_', '-')} goes with the bare form, without {name}: take it out"
            )
