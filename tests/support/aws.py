"""SQS and CloudWatch on this machine: moto's server speaks their API."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

REGION = "eu-west-1"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "s3cr3t-aws-key",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


@dataclass(frozen=True)
class Aws:
    url: str

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to reach this server instead of Amazon."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.url, "AWS_DEFAULT_REGION": REGION}

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    def queue(self, name: str, messages: int = 0, *, dlq: str | None = None) -> str:
        """Make a queue with so many messages; return its URL."""
        arn = f"arn:aws:sqs:{REGION}:123456789012:{dlq}"
        policy = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})}
        sqs = self.client("sqs")
        url = str(sqs.create_queue(QueueName=name, Attributes=policy if dlq else {})["QueueUrl"])
        for number in range(messages):
            sqs.send_message(QueueUrl=url, MessageBody=str(number))
        return url

    def tell_age(self, queue: str, *seconds: float) -> None:
        """Let CloudWatch know how old the oldest message of a queue was."""
        values = [
            {
                "MetricName": "ApproximateAgeOfOldestMessage",
                "Dimensions": [{"Name": "QueueName", "Value": queue}],
                "Value": value,
            }
            for value in seconds
        ]
        self.client("cloudwatch").put_metric_data(Namespace="AWS/SQS", MetricData=values)


@contextmanager
def aws_server() -> Iterator[Aws]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        yield Aws(f"http://127.0.0.1:{port}")
    finally:
        server.stop()
