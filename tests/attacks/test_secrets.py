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


UNESCAPED = {
    "an encoded password with bare percent signs": f"sqlalchemy.url = postgresql://app:{ENCODED}@db/civic",
    "a bare password": f"sqlalchemy.url = postgresql://app:{PASSWORD}@db/civic",
    "an unset name": f"sqlalchemy.url = postgresql://app:{PASSWORD}%(NAME)s@db/civic".replace("r%t", "r%%t"),
    "a percent at the end": "sqlalchemy.url = postgresql://app:s3cr%",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("line", UNESCAPED.values(), ids=UNESCAPED)
def test_a_percent_sign_that_is_not_escaped_shows_no_password(
    approved: Project, line: str, command: str
) -> None:
    set_line(approved, line)
    assert_discreet(approved.pipestate(*command.split()), 2)


# Alembic's own command line ends with 255 where it shows an error without a traceback.
ALEMBIC = 255
RUNS = """from alembic import context
from pipestate.environment import run

run(context)
"""
STOCK = "from alembic import context\n"
GUARDS = """from alembic import context
from pipestate.environment import guard

guard(context)
"""
ENVIRONMENTS = ["run", "guard"]
ALEMBICS = ["upgrade head", "upgrade b2:head --sql", "current", "check"]


def use(project: Project, environment: str) -> None:
    """Let env.py be one line of ours, or Alembic's own with the guard in it."""
    if environment == "run":
        project.write("migrations/env.py", RUNS)
    else:
        project.edit("migrations/env.py", (STOCK, GUARDS))


@pytest.mark.parametrize("command", ALEMBICS)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("line", UNESCAPED.values(), ids=UNESCAPED)
def test_alembic_shows_no_password_after_a_percent_sign_that_is_not_escaped(
    approved: Project, line: str, environment: str, command: str
) -> None:
    set_line(approved, line)
    use(approved, environment)
    done = approved.alembic(*command.split())
    assert_discreet(done, ALEMBIC)
    assert "sqlalchemy.url in [alembic]" in done.stdout + done.stderr


@pytest.mark.parametrize("line", UNESCAPED.values(), ids=UNESCAPED)
def test_a_database_that_is_named_needs_no_url_from_the_ini(approved: Project, line: str) -> None:
    set_line(approved, line)
    use(approved, "run")
    done = approved.alembic("-x", f"url={approved.database.text}", "current")
    assert_discreet(done, 0)
    assert "b2" in done.stdout


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_alembic_shows_no_password_of_a_server_that_does_not_answer(
    approved: Project, environment: str
) -> None:
    url = f"postgresql://app:{ENCODED}@127.0.0.1:1/civic"
    set_line(approved, f"sqlalchemy.url = {url.replace('%', '%%')}")
    use(approved, environment)
    done = approved.alembic("upgrade", "head")
    if environment == "run":
        assert_discreet(done, ALEMBIC)
        assert_discreet(approved.alembic("-x", f"url={url}", "upgrade", "head"), ALEMBIC)
    for secret in (
        PASSWORD,
        ENCODED,
        "p@ss",
        "s3cr",
    ):  # who connects in an env.py of his own shows his traceback
        assert secret not in done.stdout + done.stderr


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
    use(approved, "run")
    for command in ("upgrade head", "current"):
        assert_discreet(approved.alembic("-x", f"url={url}", *command.split()), ALEMBIC)
    if not url.startswith("mysql"):
        assert_discreet(approved.alembic("-x", f"url={url}", "upgrade", "b2:head", "--sql"), 0, ALEMBIC)


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
