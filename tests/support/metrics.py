"""What a collector reads in a text: OpenMetrics, and the older format that node_exporter knows."""

from typing import Any

from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families


def open_metrics(text: str) -> list[Any]:
    """Read the families as the reference parser does, which refuses whatever is not as the specification says."""
    return list(parser.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]


def older_format(text: str) -> list[Any]:
    return list(text_string_to_metric_families(text))
