"""Prometheus text, read whole or not at all.

The parser is prometheus_client's. A scrape of which one line cannot be read is no scrape: an exporter that dies in the middle of its answer must
not look like one whose chips are well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from producers.errors import ScrapeFailed

SAMPLES_LIMIT: Final = 100_000
"""A node's exporter has some hundred to some thousand."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of one series."""

    series: str
    labels: Mapping[str, str]
    value: float


def read_exposition(body: bytes) -> tuple[Sample, ...]:
    """Read a scrape.

    Raises ScrapeFailed when it is empty, implausibly large, or a line of it cannot be read.
    """
    read: list[Sample] = []
    try:
        for family in text_string_to_metric_families(_without_comments(body.decode("utf-8"))):
            read += [Sample(sample.name, sample.labels, sample.value) for sample in family.samples]
    except (ValueError, KeyError, IndexError) as error:
        raise ScrapeFailed(f"what comes after sample {len(read)} cannot be read: {error!s:.200}") from error
    if not read:
        raise ScrapeFailed("the answer holds no sample")
    if len(read) > SAMPLES_LIMIT:
        raise ScrapeFailed(f"the answer holds {len(read):,} samples; at most {SAMPLES_LIMIT:,} are a node's")
    return tuple(read)


def _without_comments(text: str) -> str:
    """The samples alone: told that a series is a counter, the parser gives it another name (`_total`) than the exporter and its mapping do."""
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
