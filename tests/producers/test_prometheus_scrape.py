"""The scrape as a source: a real exporter on loopback that answers, hangs, lies or breaks off."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from producers.edges import Edges
from producers.errors import ScrapeFailed
from producers.http_get import http_get
from producers.identity import Identity
from producers.mapping import load_mapping
from producers.observation import SignalClass
from producers.prometheus_scrape import PrometheusScrape
from schemas.signals import ChipFault, NodeRef

IDENTITY = Identity("test", NodeRef(uid="uid-1", name="node-1"))
NOW = datetime(2026, 3, 1, tzinfo=UTC)
WELL = 'npu_chip_info_health_status{id="0",vdie_id=""} 1\n'
FAULTY = f'{WELL}npu_chip_info_error_code{{id="0",vdie_id=""}} {int("80E01801", 16)}\n'

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answer(body: str | bytes, status: str = "200 OK", length: int | None = None, more: str = "") -> Answer:
    raw = body.encode() if isinstance(body, str) else body

    async def give(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status}\r\n{more}Connection: close\r\nContent-Length: {len(raw) if length is None else length}\r\n\r\n"
        writer.write(head.encode() + raw)
        await writer.drain()

    return give


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    del writer
    await reader.read()


@contextlib.asynccontextmanager
async def exporter(give: Answer) -> AsyncIterator[str]:
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await give(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def get(give: Answer, *, timeout: float = 5, max_bytes: int = 1000) -> bytes:  # noqa: ASYNC109
    async with exporter(give) as url:
        return await http_get(url, timeout=timedelta(seconds=timeout), max_bytes=max_bytes)


def test_a_whole_answer_is_returned() -> None:
    assert asyncio.run(get(answer(WELL))) == WELL.encode()


@pytest.mark.parametrize(
    ("give", "says"),
    [
        (answer("gone", "503 Service Unavailable"), "answered 503"),
        (answer("", "302 Found", more="Location: http://127.0.0.1:1/\r\n"), "answered 302"),
        (answer("x" * 2000), "more than 1,000 bytes"),
        (answer("half", length=100), "http://127.0.0.1"),
        (answer(b"", "garbage"), "http://127.0.0.1"),
    ],
)
def test_anything_but_a_whole_200_is_a_failed_scrape(give: Answer, says: str) -> None:
    with pytest.raises(ScrapeFailed, match=says):
        asyncio.run(get(give))


def test_an_exporter_that_hangs_is_given_up() -> None:
    with pytest.raises(ScrapeFailed, match=r"did not answer within 0\.2 s"):
        asyncio.run(get(hang, timeout=0.2))


def test_nobody_there_is_a_failed_scrape() -> None:
    with pytest.raises(ScrapeFailed, match=r"127\.0\.0\.1:1"):
        asyncio.run(http_get("http://127.0.0.1:1/metrics", timeout=timedelta(seconds=1), max_bytes=10))


def test_a_wrong_url_is_a_failed_scrape() -> None:
    with pytest.raises(ScrapeFailed, match="file:///etc/passwd"):
        asyncio.run(http_get("file:///etc/passwd", timeout=timedelta(seconds=1), max_bytes=10))


class Exporter:
    """Answers in turn; an exception is a failed scrape."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)

    async def __call__(self) -> bytes:
        if not self.answers:
            await asyncio.Event().wait()
        said = self.answers.pop(0)
        if isinstance(said, Exception):
            raise said
        return said.encode()


def source(*answers: str | Exception) -> PrometheusScrape:
    edges = Edges(IDENTITY, load_mapping("npu-exporter"))
    return PrometheusScrape("exporter:npu", Exporter(*answers), edges, lambda: NOW, every=timedelta(0))


def states(scrape: PrometheusScrape, count: int) -> list[str]:
    async def collect() -> list[str]:
        found: list[str] = []
        while len(found) < count:
            batch = await scrape.next()
            assert batch.kind is SignalClass.FAULT
            found += [one.signal.state for one in batch.observations if isinstance(one.signal, ChipFault)]
        return found

    return asyncio.run(asyncio.wait_for(collect(), 10))


def test_a_failed_scrape_is_no_clear_and_no_new_fault() -> None:
    scrape = source(FAULTY, ScrapeFailed("away"), "half a li", "", FAULTY, WELL)

    assert states(scrape, 2) == ["asserted", "cleared"]
    assert scrape.counts() == {"scrapes": 3, "scrapes_failed": 3}
    assert scrape.counts() == {}


def test_a_source_is_blind_from_a_failed_scrape_to_the_next_that_succeeds() -> None:
    scrape = source(WELL, ScrapeFailed("away"), ScrapeFailed("away"), WELL)
    seen = []

    async def look() -> None:
        for _ in range(4):
            await scrape.scrape()
            seen.append(scrape.works)

    assert not scrape.works
    asyncio.run(look())
    assert seen == [True, False, False, True]


def test_a_batch_carries_the_state_that_makes_a_restart_silent() -> None:
    first = source(FAULTY)
    batch = asyncio.run(first.next())
    again = source(FAULTY, WELL)
    again.restore(batch.state)

    assert states(again, 1) == ["cleared"]
