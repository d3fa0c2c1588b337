"""Prometheus text: whole or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers import exposition
from producers.errors import ScrapeFailed
from producers.exposition import read_exposition

TEXT = b'# HELP a says\n# TYPE a gauge\na{x="1",y="two words"} 3.5 1606402000\nb 1\n'


def test_samples_keep_series_labels_and_value() -> None:
    first, second = read_exposition(TEXT)

    assert (first.series, dict(first.labels), first.value) == ("a", {"x": "1", "y": "two words"}, 3.5)
    assert (second.series, dict(second.labels), second.value) == ("b", {}, 1.0)


def test_a_counter_keeps_the_name_its_exporter_gave_it() -> None:
    body = b"# TYPE DCGM_FI_DEV_PCIE_REPLAY_COUNTER counter\nDCGM_FI_DEV_PCIE_REPLAY_COUNTER 7\n# TYPE b_total counter\nb_total 1\n"

    assert [sample.series for sample in read_exposition(body)] == [
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "b_total",
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"# HELP a nothing but comments\n",
        b"<html>502 Bad Gateway</html>",
        b"a 1\nb",
        b'a 1\nb{x="1',
        b"a one\n",
        b"a 1\n\xff\xfe 2\n",
    ],
)
def test_an_answer_that_cannot_be_read_whole_is_no_scrape(body: bytes) -> None:
    with pytest.raises(ScrapeFailed):
        read_exposition(body)


def test_an_implausibly_large_answer_is_no_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "SAMPLES_LIMIT", 1)

    with pytest.raises(ScrapeFailed, match="at most 1"):
        read_exposition(TEXT)


@given(
    body=st.one_of(st.binary(max_size=200), st.text(alphabet='ab{}="\\\n 1#', max_size=60).map(str.encode))
)
def test_whatever_comes_is_read_or_refused(body: bytes) -> None:
    try:
        samples = read_exposition(body)
    except ScrapeFailed:
        return
    assert samples
