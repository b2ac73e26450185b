"""Contract: what the test wrote into contract.json."""

import json
from pathlib import Path

from pipestate import Contract

revision = "b2"
down_revision = "a1"

wanted = json.loads((Path(__file__).parents[2] / "contract.json").read_text(encoding="utf-8"))
contract = Contract("odd/ready", **wanted)
upgrade, downgrade = contract.upgrade, contract.downgrade
