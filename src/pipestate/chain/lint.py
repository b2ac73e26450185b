"""Everything that is wrong with runbooks: in themselves, and beside the chain that they belong to."""

from collections.abc import Sequence
from pathlib import Path

from pipestate.chain.project import Project
from pipestate.chain.read import read_chain
from pipestate.chain.revisions import names_revisions, wrong_revisions
from pipestate.runbook.files import pages_of
from pipestate.runbook.finding import Finding
from pipestate.runbook.lint import examine


def lint(files: Sequence[Path], project: Project | None) -> list[Finding]:
    """Check these files; those of the project's own directory are held against its chain as well."""
    home = project.runbooks.resolve() if project is not None else None
    findings, clean = [], []
    for page in pages_of(files):
        runbook, found = examine(page)
        findings += found
        if runbook is not None and not found and page.resolve().parent == home:
            clean.append(runbook)
    if project is not None and any(names_revisions(runbook) for runbook in clean):
        findings += wrong_revisions(read_chain(project), clean)
    return findings
