"""A small HTTP server that answers as a test tells it to: what a real API server does only when it is ill."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from runtime.kubernetes import Cluster
from runtime.settings import KubernetesSettings

CONFIG = """
apiVersion: v1
kind: Config
current-context: test
clusters: [{{name: test, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: test, user: {{token: secret}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
"""


@dataclass(frozen=True)
class Seen:
    """What a client asked for."""

    path: str
    headers: dict[str, str]
    body: Any


class Request(BaseHTTPRequestHandler):
    """One request, answered by the server's script."""

    protocol_version = "HTTP/1.1"
    server: Server

    def _any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.seen.append(Seen(self.path, dict(self.headers), body))
        self.server.answer(self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815 - the library's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""

    def reply(self, status: int, body: object, **headers: str) -> None:
        """A whole answer."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def begin(self) -> None:
        """Begin a watch."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, raw: bytes) -> None:
        """Send some bytes of a watch."""
        self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        self.wfile.flush()

    def event(self, kind: str, item: object) -> None:
        """Send one event of a watch."""
        self.chunk(json.dumps({"type": kind, "object": item}).encode() + b"\n")

    def end(self) -> None:
        """End a watch in good order."""
        self.wfile.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """End it as a broken line does."""
        self.close_connection = True
        self.connection.close()


class Server(ThreadingHTTPServer):
    """Answers with `script`, one function a request; the last one stays."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.script: list[Callable[[Request], None]] = []
        self.seen: list[Seen] = []
        self._turn = threading.Lock()

    def answer(self, request: Request) -> None:
        """Let the script answer."""
        with self._turn:
            step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        step(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of a test."""

    def client(self, folder: Path, **settings: Any) -> Cluster:
        """The client under test, connected to this server."""
        file = folder / "kubeconfig"
        file.write_text(CONFIG.format(port=self.server_address[1]))
        usual = {"timeout": timedelta(seconds=10), "watch": timedelta(seconds=5), **settings}
        return Cluster(KubernetesSettings(kubeconfig=file, **usual), "test")


@contextmanager
def serving() -> Iterator[Server]:
    """A server for one test."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
