"""Print one figure of an Amazon SQS queue, for the probe `command` of `pipestate observe`; needs boto3.

    sqs_queue_depth = command python sqs_queue.py depth SQS_QUEUE_URL

The second word names an environment variable with the queue's URL. Credentials, region and endpoint are found as
boto3 finds them. SQS counts messages; only CloudWatch knows the age of the oldest one.
"""

import os
import sys
from datetime import UTC, datetime, timedelta

import boto3
from botocore.config import Config

PATIENCE = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2})
WAITING = "ApproximateNumberOfMessages"
COUNTS = (WAITING, f"{WAITING}NotVisible", f"{WAITING}Delayed")


def depth(url: str) -> float:
    """Count the messages that wait."""
    return float(_counts(url)[WAITING])


def oldest(url: str) -> float:
    """Return the age of the oldest message in seconds, the maximum of ten minutes; an empty queue has none."""
    now = datetime.now(UTC)
    name = url.rpartition("/")[2]
    found = boto3.client("cloudwatch", config=PATIENCE).get_metric_statistics(
        Namespace="AWS/SQS",
        MetricName="ApproximateAgeOfOldestMessage",
        Dimensions=[{"Name": "QueueName", "Value": name}],
        StartTime=now - timedelta(minutes=10),
        EndTime=now + timedelta(minutes=1),
        Period=60,
        Statistics=["Maximum"],
    )
    ages = [float(point["Maximum"]) for point in found["Datapoints"]]
    if not ages and any(map(int, _counts(url).values())):
        sys.exit(f"CloudWatch has no age for {name}, and messages are in it")
    return max(ages, default=0.0)


def _counts(url: str) -> dict[str, str]:
    client = boto3.client("sqs", config=PATIENCE)
    found: dict[str, str] = client.get_queue_attributes(QueueUrl=url, AttributeNames=list(COUNTS))[
        "Attributes"
    ]
    return found


if __name__ == "__main__":
    try:
        print({"depth": depth, "oldest": oldest}[sys.argv[1]](os.environ[sys.argv[2]]))
    except Exception as error:  # botocore makes a class of its own for every answer
        sys.exit(f"{type(error).__name__}: {error}")
