"""A stand-in in this process: its registry is looked into, its HTTP side asked as any client would."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest
from aiohttp import web

from sandbox import ports
from sandbox.cluster_standin.registry import Registry
from sandbox.cluster_standin.server import Server
from sandbox.cluster_standin.store import Store

TOKEN = "a-token"  # noqa: S105 - lets nobody in anywhere else


class Asker:
    """Asks a server on a port: status code and body."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: str = "application/json",
        token: str = TOKEN,
    ) -> tuple[int, dict[str, Any]]:
        text = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": content, "User-Agent": "asker/1"}
        code, answer = self._ask(method, path, text, headers)
        return code, json.loads(answer)

    def head(self, path: str) -> int:
        return self._ask("HEAD", path, None, {"Authorization": f"Bearer {TOKEN}"})[0]

    def text(self, path: str) -> str:
        return self._ask("GET", path, None, {})[1].decode()

    def _ask(self, method: str, path: str, text: str | None, headers: dict[str, str]) -> tuple[int, bytes]:
        line = HTTPConnection(ports.LOOPBACK, self.port, timeout=10)
        try:
            line.request(method, path, text, headers)
            answer = line.getresponse()
            return answer.status, answer.read()
        finally:
            line.close()


@pytest.fixture(scope="session")
def ask() -> Iterator[Asker]:
    """A server without controllers, on a thread of its own."""
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(Server(Registry(Store()), {TOKEN: "admin"}).application(), shutdown_timeout=0.1)
    (port,) = ports.free_ports(1)

    async def serve() -> None:
        await runner.setup()
        await web.TCPSite(runner, ports.LOOPBACK, port).start()

    loop.run_until_complete(serve())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield Asker(port)
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
