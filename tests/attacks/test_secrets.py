"""Wrong configuration is one sentence, with exit 2 or 3: never a traceback, never the password."""

from urllib.parse import quote

import pytest

from attacks.attacked import Done
from attacks.project import Project

PASSWORD = "s3cr%t/p@ss[/w]"
ENCODED = quote(PASSWORD, safe="")
COMMANDS = ["verify", "verify --json", "plan", "history"]


def assert_discreet(done: Done, *codes: int) -> None:
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    assert done.returncode in codes, said
    for secret in (PASSWORD, ENCODED, ENCODED.replace("%", "%%"), "p@ss", "s3cr%t", "s3cr"):
        assert secret not in said, said


def set_line(project: Project, line: str) -> None:
    """Replace the line with the URL in alembic.ini."""
    lines = project.read("alembic.ini").splitlines()
    place = next(n for n, each in enumerate(lines) if each.startswith("sqlalchemy.url"))
    project.write("alembic.ini", "\n".join([*lines[:place], line, *lines[place + 1 :]]) + "\n")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "line",
    [
        f"sqlalchemy.url = postgresql://app:{ENCODED}@db/civic",
        f"sqlalchemy.url = postgresql://app:{PASSWORD}@db/civic",
        f"sqlalchemy.url = postgresql://app:{PASSWORD}%(NAME)s@db/civic".replace("s3cr%t", "s3cr%%t"),
        "sqlalchemy.url = postgresql://app:s3cr%",
    ],
    ids=[
        "an encoded password with bare percent signs",
        "a bare password",
        "an unset name",
        "a percent at the end",
    ],
)
def test_a_percent_sign_that_is_not_escaped_shows_no_password(
    approved: Project, line: str, command: str
) -> None:
    set_line(approved, line)
    assert_discreet(approved.pipestate(*command.split()), 2)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_does_not_answer_shows_no_password(approved: Project, command: str) -> None:
    url = f"postgresql://app:{ENCODED}@127.0.0.1:1/civic"
    set_line(approved, f"sqlalchemy.url = {url.replace('%', '%%')}")
    done = approved.pipestate(*command.split())
    assert_discreet(done, 3)
    assert_discreet(approved.pipestate(*command.split(), "--database-url", url), 2, 3)
    assert_discreet(approved.pipestate(*command.split(), DATABASE_URL=url), 2, 3)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://app:{ENCODED}@127.0.0.1:port/civic",
        f"postgresql://app:{PASSWORD}@127.0.0.1:1/civic",
        f"postgresql://app@127.0.0.1:1/civic?password={ENCODED}",
        f"postgresql://app@127.0.0.1:1/civic?sslpassword={ENCODED}&nonsense=1",
        f"postgresql://app:{ENCODED}@127.0.0.1:1/civic?nonsense=1",
        f"postgresql://app:{ENCODED}@127.0.0.1:1/civic?sslmode=nonsense",
        f"mysql://app:{ENCODED}@127.0.0.1:1/civic",
        f"postgresql+nonsense://app:{ENCODED}@127.0.0.1:1/civic",
        f"app:{ENCODED}",
    ],
)
def test_a_url_that_cannot_be_used_shows_no_password(approved: Project, url: str) -> None:
    for command in ("verify", "verify --json", "plan"):
        assert_discreet(approved.pipestate(*command.split(), "--database-url", url), 2, 3)


@pytest.mark.parametrize(
    "text",
    [
        "script_location = migrations\n",
        "",
        "[alembic]\n",
        "[alembic]\nscript_location = %(nowhere)s/migrations\n",
        "[alembic]\nscript_location = migrations\nscript_location = migrations\n",
        "[alembic\nscript_location = migrations\n",
        "[alembic]\nscript_location = no/such/directory\n",
        "\x00\x01\x02",
    ],
    ids=[
        "no section",
        "empty",
        "no location",
        "unset name",
        "a key twice",
        "no bracket",
        "no directory",
        "binary",
    ],
)
@pytest.mark.parametrize("command", ["verify", "plan"])
def test_an_alembic_ini_that_cannot_be_read_is_a_sentence(approved: Project, text: str, command: str) -> None:
    approved.write("alembic.ini", text)
    url = approved.database.text
    assert_discreet(approved.pipestate(*command.split(), "--database-url", url), 2)


def test_an_alembic_ini_that_is_a_directory_or_missing_is_a_sentence(approved: Project) -> None:
    for ini in (".", "no.ini"):
        assert_discreet(approved.pipestate("verify", "--config", ini), 2)


def test_a_wrong_phase_in_a_revision_is_a_sentence(approved: Project) -> None:
    approved.edit("migrations/versions/c3_drop_old_orders.py", ("orders/ready", "orders/x[/y]"))
    done = approved.alembic("upgrade", "head")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "x[/y]" in done.stderr
