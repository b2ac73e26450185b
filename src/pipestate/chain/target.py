"""What an upgrade is asked for: `head`, `heads`, a revision, the beginning of its id, a branch."""

from pipestate.chain.graph import Chain
from pipestate.errors import ConfigError


def find_targets(chain: Chain, name: str) -> tuple[str, ...]:
    """Return the revisions that are meant; ConfigError where there is none, or more than one."""
    if name == "heads":
        return chain.heads
    if name == "head":
        return _one_head(chain.heads, "head")
    branch, at, _ = name.partition("@")
    if branch in chain.labels and name in (branch, f"{branch}@head"):
        above = chain.heads_above(chain.labels[branch])
        return _one_head(above, name) if at else above
    return (_revision(chain, name),)


def _one_head(heads: tuple[str, ...], name: str) -> tuple[str, ...]:
    if len(heads) > 1:
        raise ConfigError(f"{name}: there are several ({', '.join(heads)}); name one of them, or say heads")
    return heads


def _revision(chain: Chain, name: str) -> str:
    if name in chain:
        return name
    found = [revision.id for revision in chain if name and revision.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{name}: several revisions begin so ({', '.join(found)}); write more of the id")
    raise ConfigError(
        f"{name}: no revision and no branch of this chain; write head, heads, a branch, or one of the ids that "
        "`pipestate plan` shows"
    )
