"""The probe `sqs`, against a server that speaks the API of SQS and CloudWatch."""

import sys
from pathlib import Path
from uuid import uuid4

import pytest

from aws import CREDENTIALS, Aws
from pipestate.errors import ConfigError, Unreachable
from pipestate.probes.sqs import probe

INI = Path("alembic.ini")


@pytest.fixture
def name() -> str:
    """A queue of its own: the server outlives the test."""
    return f"jobs-{uuid4().hex}"


def test_the_depth_is_what_waits_and_in_flight_is_what_was_received(aws: Aws, name: str) -> None:
    url = aws.queue(name, messages=3)
    aws.client("sqs").receive_message(QueueUrl=url)
    assert probe(INI, f"depth {url}") == 2
    assert probe(INI, f"in-flight {url}") == 1


def test_the_dead_letter_queue_is_the_one_that_the_queue_names(aws: Aws, name: str) -> None:
    aws.queue(f"{name}-dlq", messages=4)
    assert probe(INI, f"dlq {aws.queue(name, dlq=f'{name}-dlq')}") == 4


def test_a_queue_that_names_none_has_no_number_of_dead_letters(aws: Aws, name: str) -> None:
    with pytest.raises(Unreachable, match="names no dead-letter queue: ask `depth` of that one"):
        probe(INI, f"dlq {aws.queue(name)}")


def test_the_age_of_the_oldest_message_is_cloudwatch_s(aws: Aws, name: str) -> None:
    url = aws.queue(name, messages=1)
    aws.tell_age(name, 12, 340, 55)
    assert probe(INI, f"oldest {url}") == 340


def test_an_empty_queue_has_no_age_and_that_is_zero(aws: Aws, name: str) -> None:
    assert probe(INI, f"oldest {aws.queue(name)}") == 0


def test_messages_without_an_age_are_not_a_calm_queue(aws: Aws, name: str) -> None:
    url = aws.queue(name, messages=2)
    with pytest.raises(Unreachable, match=r"has no age for jobs-[0-9a-f]+, and 2 messages are in it"):
        probe(INI, f"oldest {url}")


@pytest.mark.parametrize("figure", ["depth", "in-flight", "dlq", "oldest"])
def test_a_queue_that_does_not_exist_is_one_sentence(aws: Aws, figure: str) -> None:
    with pytest.raises(Unreachable, match="The specified queue does not exist"):
        probe(INI, f"{figure} {aws.url}/123456789012/nowhere")


def test_an_endpoint_can_be_an_option(aws: Aws, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = aws.queue(name, messages=1)
    for variable in ("AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable)
    assert probe(INI, f"depth {url} endpoint={aws.url} region=eu-west-1") == 1
    with pytest.raises(Unreachable, match="You must specify a region"):
        probe(INI, f"depth {url} endpoint={aws.url}")


def test_a_server_that_is_down_and_missing_credentials_are_sentences(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs"
    with pytest.raises(Unreachable, match="Could not connect to the endpoint URL"):
        probe(INI, f"depth {url} endpoint=http://127.0.0.1:1")
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)
    with pytest.raises(Unreachable, match="Unable to locate credentials") as caught:
        probe(INI, f"depth {url}")
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "write one of depth, dlq, oldest, in-flight, then the queue's URL"),
        ("https://sqs.eu-west-1.amazonaws.com/1/jobs", "write one of depth"),
        ("weight https://sqs.eu-west-1.amazonaws.com/1/jobs", "write one of depth"),
        ("depth jobs", "the queue's URL is not the address of a web server"),
        ("depth http://[/jobs", "the queue's URL is not the address of a web server"),
        ("depth ${NO_SUCH_VARIABLE}", "the environment variable NO_SUCH_VARIABLE is not set"),
        ("depth https://host/1/jobs zone=a", "there is no option zone=; there are region=, endpoint="),
    ],
)
def test_wrong_options_are_one_sentence(options: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        probe(INI, options)
    assert said in str(caught.value)


def test_without_boto3_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigError, match=r"needs boto3: pip install 'pipestate\[sqs\]'"):
        probe(INI, "depth https://sqs.eu-west-1.amazonaws.com/123456789012/jobs")
