"""SQS and CloudWatch, as boto3 finds them through the environment."""

from collections.abc import Iterator

import pytest

from aws import Aws, aws_server


@pytest.fixture(scope="session")
def aws_on_this_machine() -> Iterator[Aws]:
    with aws_server() as running:
        yield running


@pytest.fixture
def aws(aws_on_this_machine: Aws, monkeypatch: pytest.MonkeyPatch) -> Aws:
    for name, value in aws_on_this_machine.environment.items():
        monkeypatch.setenv(name, value)
    return aws_on_this_machine
