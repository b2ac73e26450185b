"""What an env.py says of its version table, without running it."""

from pathlib import Path

import pytest

from pipestate.project.version_table import declared_in

DEFAULT = (None, None, True)
UNCERTAIN = (None, None, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("context.configure(connection=c)", DEFAULT),
        ("context.configure(version_table='v')", ("v", None, True)),
        ("context.configure(version_table_schema='s')", (None, "s", True)),
        ("V = 'v'\nS = 's'\ncontext.configure(version_table=V, version_table_schema=S)", ("v", "s", True)),
        ("V: str = 'a' + '_v'\ncontext.configure(version_table=V)", ("a_v", None, True)),
        ("def run():\n    v = 'inner'\n    context.configure(version_table=v)", ("inner", None, True)),
        ("v = 'outer'\ndef run(v):\n    context.configure(version_table=v)", UNCERTAIN),
        ("v = 'outer'\ndef run():\n    v = find()\n    context.configure(version_table=v)", UNCERTAIN),
        ("configure(version_table='v')\nconfigure(url=u, version_table='v')", ("v", None, True)),
        ("configure(version_table='v')\nconfigure(url=u)", UNCERTAIN),
        ("context.configure(version_table=name())", UNCERTAIN),
        ("context.configure(version_table=f'v_{tenant}')", UNCERTAIN),
        ("context.configure(version_table_schema=None)", DEFAULT),
        ("O = {'version_table': 'v', 'compare_type': True}\ncontext.configure(**O)", ("v", None, True)),
        ("O = {'compare_type': True}\ncontext.configure(connection=c, **O)", DEFAULT),
        ("context.configure(connection=c, **options())", UNCERTAIN),
        ("O = {**MORE}\ncontext.configure(**O)", UNCERTAIN),
        ("if x:\n    V = 'a'\nelse:\n    V = 'b'\nconfigure(version_table=V)", UNCERTAIN),
        ("V = 'a'\nif x:\n    V = 'b'\nconfigure(version_table=V)", UNCERTAIN),
        ("from somewhere import run\nrun(context)", UNCERTAIN),
        ("async def run():\n    context.configure(version_table='v')", ("v", None, True)),
        ("A = B\nB = A\ncontext.configure(version_table=A)", UNCERTAIN),
    ],
)
def test_what_is_said(tmp_path: Path, text: str, said: tuple[str | None, str | None, bool]) -> None:
    env = tmp_path / "env.py"
    env.write_text(text)
    declared = declared_in(env)
    assert (declared.table, declared.schema, declared.certain) == said
    assert (declared.source == str(env)) == declared.named


def test_without_an_env_nothing_is_certain(tmp_path: Path) -> None:
    assert not declared_in(tmp_path / "env.py").certain
