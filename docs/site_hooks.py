"""The site's own steps: the shipped runbooks become pages, and links out of docs/ become plain text."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PLACE = "migration/runbooks/"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the runbooks, which lie beside docs/: there Alembic's project finds them."""
    for path in sorted((ROOT / "runbooks").glob("*.md")):
        if path.stem.endswith(".sqlite"):
            continue
        text = path.read_text(encoding="utf-8").replace("](../docs/", "](../../")
        text = re.sub(r"\[([^\]]+)\]\(\.\./(?:examples|alembic|src)[^)]*\)", r"\1", text)
        files.append(File.generated(config, PLACE + path.name, content=text))
    return files
