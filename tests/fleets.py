"""A fleet for tests: databases of the miniature project `shop`, each in a state of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bed import Database, Postgres
from pipestate.chain.project import Named, Project, find_project
from pipestate.fleet.answer import Answer
from pipestate.fleet.listing import parse_list
from pipestate.fleet.question import make_question
from pipestate.fleet.run import Fleet, ask_fleet
from pipestate.fleet.tenants import find_tenants
from pipestate.runbook.find import every_runbook
from shops import open_shop

APPROVAL = "INSERT INTO approvals VALUES ('drop log')"
UNREACHABLE = "postgresql://app:s3cret@127.0.0.1:1/gone"


@dataclass
class Tenants:
    """Databases on one server, made from templates, which go at the end."""

    server: Postgres
    directory: Path
    made: list[Database] = field(default_factory=list)

    def create(self, revision: str = "b2", *statements: str) -> Database:
        """A database of the shop at that revision, in which these statements were run."""

        def fill(fresh: Database) -> None:
            open_shop(self.directory / f"template-{revision}", fresh).upgrade(revision)

        database = self.server.copy_of(f"shop at {revision}", fill)
        self.made.append(database)
        if statements:
            database.run(*statements)
        return database

    def named(self, name: str, revision: str = "b2", *statements: str) -> str:
        """A line of the list for such a database."""
        return f"{name} = {self.create(revision, *statements).text}"

    def drop(self) -> None:
        for database in self.made:
            self.server.drop(database)


def project_in(root: Path) -> Project:
    return find_project(Named(config=root / "alembic.ini"))


def asked(
    project: Project, lines: Sequence[str], *, jobs: int = 3, phase: str | None = None, **options: object
) -> tuple[Fleet, dict[str, Answer]]:
    """Ask the databases of that list; return what became of all, and each one's answer by name."""
    books = every_runbook(project.runbooks)
    settings = {"timeout_s": 10.0, "compare": True, **options}
    question = make_question(project, books, [phase] if phase else [], **settings)  # type: ignore[arg-type]
    answers: list[Answer] = []
    tenants = find_tenants(list(parse_list("\n".join(lines), "list")), 10.0, jobs)
    fleet = ask_fleet(question, tenants, jobs, answers.append)
    return fleet, {answer.name: answer for answer in answers}
