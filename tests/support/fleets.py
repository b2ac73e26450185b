"""A fleet for tests: databases of the miniature project `shop`, each in a state of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipestate.fleet.evaluate import Answer, make_request
from pipestate.fleet.list import find_tenants, parse_list
from pipestate.fleet.run import Fleet, evaluate_fleet
from pipestate.fleet.upgrade import FleetUpgrade, parse_waves, upgrade_fleet
from pipestate.fleet.worker import Workers
from pipestate.project.find import Named, Project, find_project
from pipestate.project.graph import find_targets
from pipestate.runbook.files import every_runbook
from support.servers import Database, Postgres
from support.shop_project import open_shop

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


def evaluate_list(
    project: Project, lines: Sequence[str], *, jobs: int = 3, phase: str | None = None, **options: object
) -> tuple[Fleet, dict[str, Answer]]:
    """Evaluate the databases of that list; return what became of all, and each one's answer by name."""
    books = every_runbook(project.runbooks)
    settings = {"timeout_s": 10.0, "compare": True, **options}
    question = make_request(project, books, [phase] if phase else [], **settings)  # type: ignore[arg-type]
    answers: list[Answer] = []
    tenants = find_tenants(list(parse_list("\n".join(lines), "list")), 10.0, jobs)
    fleet = evaluate_fleet(question, tenants, jobs, answers.append)
    return fleet, {answer.name: answer for answer in answers}


def upgraded(
    project: Project,
    lines: Sequence[str],
    target: str = "heads",
    *,
    waves: str = "1,100%",
    jobs: int = 3,
    phase: str | None = None,
    x: Sequence[str] = (),
    **options: object,
) -> tuple[Fleet, dict[str, Answer]]:
    """Upgrade the databases of that list; return what became of all, and each one's answer by name."""
    books = every_runbook(project.runbooks)
    question = make_request(project, books, [phase] if phase else [], timeout_s=10.0)
    wanted = find_targets(question.locate.migrations, target)
    how = FleetUpgrade(question, wanted, parse_waves(waves), required=phase is not None, **options)  # type: ignore[arg-type]
    answers: list[Answer] = []
    tenants = find_tenants(list(parse_list("\n".join(lines), "list")), 10.0, jobs)
    fleet = upgrade_fleet(how, tenants, Workers(project, target, None, x), jobs, answers.append)
    return fleet, {answer.name: answer for answer in answers}
