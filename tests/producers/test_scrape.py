"""A scrape counts whole or not at all; mapping tables that are wrong are refused; a GET is bounded."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from producers.edges import Edges
from producers.errors import MappingError, ScrapeFailed
from producers.exposition import read_exposition
from producers.http_get import http_get
from producers.identity import Identity
from producers.mapping import SHIPPED, load_mapping
from producers.observation import SignalClass
from producers.prometheus_scrape import PrometheusScrape
from schemas.signals import ChipFault, NodeRef

AT = datetime(2026, 3, 1, tzinfo=UTC)
WELL = b'npu_chip_info_error_code{id="0",vdie_id="V"} 0\n'
ILL = b'npu_chip_info_error_code{id="0",vdie_id="V"} 2162263042\n'


def source_of(*answers: bytes | ScrapeFailed) -> PrometheusScrape:
    """A source that gets these answers, one after the other."""
    left = iter(answers)

    async def fetch() -> bytes:
        answer = next(left)
        if isinstance(answer, ScrapeFailed):
            raise answer
        return answer

    edges = Edges(Identity("c", NodeRef(uid="n", name="n")), load_mapping("npu-exporter"))
    source = PrometheusScrape("exporter:npu-exporter", fetch, edges, lambda: AT, every=timedelta(0))
    source.restore(None)
    return source


def states(source: PrometheusScrape) -> list[str]:
    found = asyncio.run(source.scrape())
    return [one.signal.state.value for one in found if isinstance(one.signal, ChipFault)]


@pytest.mark.parametrize(
    "failed",
    [
        ScrapeFailed("no answer"),
        b"",
        b"# HELP x only words\n",
        WELL + b'npu_chip_info_error_code{id="1",vdi',
        b"\xff\xfe",
        b"<html>starting</html>",
    ],
    ids=["no answer", "empty", "no sample", "cut off", "no text", "another page"],
)
def test_a_failed_scrape_clears_nothing_and_makes_the_source_blind(failed: bytes | ScrapeFailed) -> None:
    source = source_of(ILL, failed, ILL, WELL)
    assert states(source) == ["asserted"]
    seen = [(states(source), source.works) for _ in range(3)]
    assert seen == [([], False), ([], True), (["cleared"], True)]
    assert source.counts() == {"scrapes": 3, "scrapes_failed": 1}
    assert source.counts() == {}


def test_a_source_hands_out_edges_with_the_state_behind_them() -> None:
    source = source_of(WELL, WELL, ILL)
    batch = asyncio.run(source.next())
    assert batch.kind is SignalClass.FAULT
    assert len(batch.observations) == 1
    again = source_of(ILL, WELL)
    again.restore(json.loads(json.dumps(batch.state)))
    assert [states(again) for _ in range(2)] == [[], ["cleared"]]


@given(st.binary(max_size=400) | st.text(alphabet='ab{}="\\,\n# 01.eE+-NaInf_', max_size=200).map(str.encode))
@example(b"a{")
@example(b'a{b="')
@example(b'a{b="\\')
@example(b"# TYPE a\n")
@example(b"a 1 99999999999999999999999999\n")
def test_any_answer_is_read_or_refused(raw: bytes) -> None:
    try:
        samples = read_exposition(raw)
    except ScrapeFailed:
        return
    edges = Edges(Identity("c", NodeRef(uid="n", name="n")), load_mapping("npu-exporter"))
    edges.observe(samples, AT)


# ---------------------------------------------------------------- mapping tables


@pytest.mark.parametrize("table", sorted(path.stem for path in SHIPPED.glob("*.yaml")))
def test_the_shipped_tables_are_right(table: str) -> None:
    assert load_mapping(table).exporter == table


ROW = "{read: rate, namespace: x, code: c, series: [a], window: 1m, above: 8, back_at: 4}"


@pytest.mark.parametrize(
    ("signals", "says"),
    [
        (f"[{ROW}, {ROW}]", "has two rows"),
        ("[]", "signals"),
        (f"[{ROW.replace('back_at: 4', 'back_at: 9')}]", r"back_at \(9\) exceeds above \(8\)"),
        (f"[{ROW.replace('read: rate', 'read: guess')}]", "guess"),
        (f"[{ROW.replace('code: c', 'code: a b')}]", "signals.0"),
        (f"[{ROW.replace('series: [a]', 'series: []')}]", "series"),
        (f"[{ROW.replace('above: 8', 'abvoe: 8')}]", "abvoe"),
        (f"[{ROW.replace('window: 1m', 'window: soon')}]", "window"),
        ("[", "while parsing"),
    ],
)
def test_a_wrong_table_is_refused_with_file_and_place(tmp_path: Path, signals: str, says: str) -> None:
    table = tmp_path / "site.yaml"
    table.write_text(
        f"exporter: site\nchip: {{id: [uuid], index: i}}\nsignals: {signals}\n", encoding="utf-8"
    )
    with pytest.raises(MappingError, match=says) as caught:
        load_mapping(str(table))
    assert "site.yaml" in str(caught.value)


def test_a_table_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(MappingError, match=r"dcgm-exporter, npu-exporter"):
        load_mapping("no-exporter")


# ---------------------------------------------------------------- the GET


def answer(status: str, body: bytes, *headers: str, promised: int | None = None) -> bytes:
    """An HTTP answer; `promised` is the length it claims to have."""
    length = len(body) if promised is None else promised
    head = "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {length}", *headers))
    return head.encode() + b"\r\n\r\n" + body


def get_from(answered: bytes | None, *, timeout: timedelta = timedelta(seconds=10)) -> bytes:
    """Fetch from a server on the loopback that answers with these bytes and hangs up, or (None) says nothing."""

    async def run() -> bytes:
        done = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            if answered is None:
                await done.wait()
            writer.write(answered or b"")
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            try:
                return await http_get(f"http://127.0.0.1:{port}/metrics", timeout=timeout, max_bytes=1000)
            finally:
                done.set()

    return asyncio.run(run())


def test_a_whole_answer_is_handed_out() -> None:
    assert get_from(answer("200 OK", WELL)) == WELL


@pytest.mark.parametrize(
    ("answered", "says"),
    [
        (answer("503 Service Unavailable", WELL), "answered 503"),
        (answer("302 Found", b"", "Location: /other"), "answered 302"),
        (answer("200 OK", b"#" * 1001), "more than 1,000 bytes"),
        (answer("200 OK", WELL, promised=900), "http://"),
        (b"not HTTP\r\n\r\n", "http://"),
        (b"", "http://"),
    ],
    ids=["error", "redirect", "too large", "cut off", "another protocol", "hung up"],
)
def test_anything_but_a_whole_200_within_the_limits_is_refused(answered: bytes, says: str) -> None:
    with pytest.raises(ScrapeFailed, match=says):
        get_from(answered)


def test_an_exporter_that_does_not_answer_is_given_up() -> None:
    with pytest.raises(ScrapeFailed, match=r"within 0\.05 s"):
        get_from(None, timeout=timedelta(seconds=0.05))


def test_nobody_there_is_a_failed_scrape() -> None:
    with pytest.raises(ScrapeFailed):
        asyncio.run(http_get("http://127.0.0.1:1/metrics", timeout=timedelta(seconds=5), max_bytes=1000))
