"""The pages of a project, where it has any."""

from pipestate.chain.calls import Calls
from pipestate.chain.project import Project
from pipestate.errors import ConfigError
from pipestate.runbook.find import runbook_files


def require_pages(project: Project) -> None:
    """Refuse a project without a runbook, and say what writes one."""
    if not runbook_files(project.runbooks):
        init = Calls(project.named).pipestate("init NAME")
        raise ConfigError(f"this project has no runbook yet: `{init}` writes one to begin with")
