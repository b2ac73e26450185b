from pathlib import Path

import pytest

from pipestate.rehearse.child import LONG_S, Recorder, may_lock


@pytest.mark.parametrize(
    ("statement", "seconds", "looked"),
    [
        ("ALTER TABLE orders ADD COLUMN x integer", 0.0, True),
        ("-- why\n/* and */ do $$ begin end $$", 0.0, True),
        ("SELECT take_the_lock(1)", 0.0, True),
        ("SELECT id\nFROM orders", 0.0, False),
        ("SELECT id FROM orders FOR UPDATE", LONG_S, True),
        ("UPDATE orders SET x = 1", 0.0, False),
        ("UPDATE orders SET x = 1", LONG_S, True),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", 1.0, False),
        ("BEGIN", 1.0, False),
        ("", 1.0, False),
    ],
)
def test_after_which_statements_the_locks_are_looked_at(statement: str, seconds: float, looked: bool) -> None:
    assert may_lock(statement, seconds) is looked


def test_an_error_is_traced_to_the_revision_also_through_a_cause(tmp_path: Path) -> None:
    file = tmp_path / "a1.py"
    file.write_text("def upgrade():\n    x = 1\n    raise ValueError('no')\n")
    names: dict[str, object] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    recorder = Recorder(lambda *_, **__: None, [tmp_path], tmp_path)

    def fail_otherwise() -> None:
        try:
            names["upgrade"]()  # type: ignore[operator]
        except ValueError as cause:
            raise RuntimeError("told otherwise") from cause

    with pytest.raises(RuntimeError) as caught:
        fail_otherwise()
    assert recorder.line_of(caught.value) == "a1.py:3", "relative to the project"
    assert recorder.line_of(RuntimeError("from nowhere")) is None
