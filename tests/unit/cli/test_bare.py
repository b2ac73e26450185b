"""The form of a command without a name: what one package offers, and nothing where two do."""

import inspect
from pathlib import Path

import pytest

from packages import installed
from pipestate.cli.backfill import backfill
from pipestate.cli.bare import with_bare_form

OFFER = "def backfill(*, colour: str = 'red') -> None:\n    '''Paint.'''\n    print(colour)\n"


def own(*, name: str | None = None, dry_run: bool = False) -> str:
    """Fill."""
    return f"own {name}"


own.__name__ = "backfill"


def test_the_command_has_the_options_of_both_forms() -> None:
    options = inspect.signature(backfill).parameters
    assert {"name", "max_lag", "dry_run", "storage_dir", "threshold_hours"} <= set(options)
    assert "Without a name: " in str(backfill.__doc__)


def test_what_two_packages_offer_is_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed(tmp_path, "acme", OFFER, backfills={"backfill": "acme:backfill"}):
        assert with_bare_form(own) is own
    said = capsys.readouterr().err
    assert said.startswith("pipestate: the bare form backfill of ")
    assert said.endswith("is offered more than once: uninstall one of them\n")
