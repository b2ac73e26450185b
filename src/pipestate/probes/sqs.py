"""The probe `sqs`: one figure of a queue of Amazon SQS.

    waiting = sqs depth https://sqs.eu-west-1.amazonaws.com/123456789012/jobs

SQS itself counts messages; how old the oldest one is only CloudWatch knows. Credentials, and an endpoint other
than Amazon's, are found as boto3 finds them (AWS_PROFILE, AWS_ENDPOINT_URL, a role of the machine, …).
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipestate.errors import ConfigError, Unreachable
from pipestate.probes.options import parse_options
from pipestate.safe import plain
from pipestate.web import parse_address

NAMES = ("region", "endpoint")
# CloudWatch gets a value a minute; a queue that wakes up after hours gets its first one late.
WINDOW = timedelta(minutes=10)
WAITING = "ApproximateNumberOfMessages"
IN_FLIGHT = "ApproximateNumberOfMessagesNotVisible"
DELAYED = "ApproximateNumberOfMessagesDelayed"
_REGION = re.compile(r"(?:sqs\.)?([a-z]+(?:-[a-z]+)+-\d+)\..*amazonaws\.com(?:\.cn)?")


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue, and how to reach it and CloudWatch."""

    url: str
    region: str | None
    endpoint: str | None

    @property
    def name(self) -> str:
        return self.url.rstrip("/").rpartition("/")[2]

    def client(self, service: str) -> Any:
        """Make a client of boto3 that does not wait for long."""
        try:
            import boto3
            from botocore.config import Config
        except ImportError as error:
            raise ConfigError("the probe sqs needs boto3: pip install 'pipestate[sqs]'") from error
        patience = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2})
        return boto3.session.Session().client(
            service, region_name=self.region, endpoint_url=self.endpoint, config=patience
        )


def probe(ini: Path, options: str) -> float:
    """Return the figure of the queue that the options name."""
    figure, queue = parse_queue(options)
    try:
        return figure(queue)
    except (ConfigError, Unreachable):
        raise
    except Exception as error:  # botocore makes a class of its own for every answer of every service
        if not type(error).__module__.startswith(("botocore", "boto3", "urllib3")):
            raise
        raise Unreachable(plain(" ".join(str(error).split()))) from error


def parse_queue(options: str) -> tuple[Callable[[Queue], float], Queue]:
    """Read which figure of which queue is wanted."""
    given = parse_options(options, names=NAMES)
    if len(given.words) != 2 or given.words[0] not in FIGURES:
        raise ConfigError(
            f"write one of {', '.join(FIGURES)}, then the queue's URL: "
            "depth https://sqs.eu-west-1.amazonaws.com/123456789012/jobs"
        )
    figure, url = given.words
    parse_address(url, source="the queue's URL")
    return FIGURES[figure], Queue(url, given.one("region") or region_of(url), given.one("endpoint"))


def region_of(url: str) -> str | None:
    """Read the region from the address of a queue; without one, boto3 finds its own.

    >>> region_of("https://sqs.eu-west-1.amazonaws.com/123456789012/jobs")
    'eu-west-1'
    """
    found = _REGION.fullmatch(urlsplit(url).hostname or "")
    return found[1] if found else None


def depth(queue: Queue) -> float:
    """Count the messages that wait to be received."""
    return float(_attributes(queue, WAITING)[WAITING])


def in_flight(queue: Queue) -> float:
    """Count the messages that were received and not yet deleted."""
    return float(_attributes(queue, IN_FLIGHT)[IN_FLIGHT])


def dlq(queue: Queue) -> float:
    """Count the messages in the dead-letter queue that this queue names."""
    policy = _attributes(queue, "RedrivePolicy").get("RedrivePolicy")
    if policy is None:
        raise Unreachable(
            f"the queue {plain(queue.name)} names no dead-letter queue: ask `depth` of that one"
        )
    *_, account, name = str(json.loads(policy)["deadLetterTargetArn"]).split(":")
    found = queue.client("sqs").get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)
    return depth(Queue(found["QueueUrl"], queue.region, queue.endpoint))


def oldest(queue: Queue) -> float:
    """Return the greatest age of the oldest message, in seconds, of the last ten minutes.

    CloudWatch has no value for a queue that is empty; where messages are in it, that is no zero.
    """
    counts = _attributes(queue, WAITING, IN_FLIGHT, DELAYED)
    values = _ages(queue)
    messages = sum(int(count) for count in counts.values())
    if not values and messages:
        raise Unreachable(f"CloudWatch has no age for {plain(queue.name)}, and {messages} messages are in it")
    return max(values, default=0.0)


def _ages(queue: Queue) -> list[float]:
    now = datetime.now(UTC)
    found = queue.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/SQS",
        MetricName="ApproximateAgeOfOldestMessage",
        Dimensions=[{"Name": "QueueName", "Value": queue.name}],
        StartTime=now - WINDOW,
        EndTime=now + timedelta(minutes=1),  # the minute that has begun, too
        Period=60,
        Statistics=["Maximum"],
    )
    return [float(point["Maximum"]) for point in found["Datapoints"]]


def _attributes(queue: Queue, *names: str) -> Mapping[str, str]:
    found = queue.client("sqs").get_queue_attributes(QueueUrl=queue.url, AttributeNames=list(names))
    attributes: Mapping[str, str] = found.get("Attributes", {})
    return attributes


FIGURES: Mapping[str, Callable[[Queue], float]] = {
    "depth": depth,
    "dlq": dlq,
    "oldest": oldest,
    "in-flight": in_flight,
}
