"""ClickHouse's HTTP interface on ClickHouse's own engine (chDB), for the clients that speak to a server.

`python -m sandbox.clickhouse_front FOLDER --port PORT`. Several processes may use it at once; statements run one after another, as chDB has one
session a process. Served: statements in the body or in `query`, `INSERT ... FORMAT x` with the data behind it, server-side parameters,
settings as arguments, output formats, the error header, basic authentication and the headers X-ClickHouse-User and -Key. Not served:
compression of bodies (a client asks for none), sessions, temporary tables, external data. What is not served is answered 501.

Users stand for the rights a real server grants: `reader` runs in the engine's readonly mode and reads no files, `writer` inserts and
reads, `migrator` may do anything.

It can be told to misbehave, as servers and the way to them do: see `sandbox.clickhouse_faults`.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import re
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import parse_qs, urlsplit

from sandbox.clickhouse_faults import PATH as FAULTS_PATH
from sandbox.clickhouse_faults import Fault, Faults, Kind

READS: Final = frozenset({"SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS"})
_ALLOWED: Final[Mapping[str, frozenset[str] | None]] = {
    "reader": READS,
    "writer": READS | {"INSERT"},
    "migrator": None,
}
_SOURCES: Final = re.compile(
    r"\b(file|url|s3|remote|executable|mysql|postgresql|numbers_mt)\s*\(", re.IGNORECASE
)
_FIRST_WORD: Final = re.compile(r"^(?:\s|--[^\n]*\n|/\*.*?\*/)*(\w+)", re.DOTALL)
_INSERT: Final = re.compile(
    r"^\s*INSERT\s+INTO\s+(?P<into>.+?)\s+FORMAT\s+(?P<format>\w+)[ \t]*;?[ \t]*\r?(?:\n|\Z)",  # behind the first line's end is data
    re.IGNORECASE | re.DOTALL,
)
_COLUMNS: Final = re.compile(r"\((?P<columns>[^()]*)\)\s*$", re.DOTALL)
_FORMAT: Final = re.compile(r"\bFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
_CODE: Final = re.compile(r"Code: (\d+)")
_OWN_ARGUMENTS: Final = frozenset(
    {
        "query", "database", "default_format", "user", "password", "session_id", "session_timeout", "query_id",
        "compress", "decompress", "wait_end_of_query", "buffer_size", "client_protocol_version", "role", "quota_key",
        "send_progress_in_http_headers", "http_headers_progress_interval_ms", "enable_http_compression",
        "session_check",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Refused(Exception):  # noqa: N818 - says what happened
    """A statement that is not run: HTTP status, ClickHouse's error code, and why."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Result(Protocol):
    """What the engine answers."""

    def bytes(self) -> bytes | None:
        """The output in the format that was asked for."""
        ...

    def rows_read(self) -> int:
        """Rows read."""
        ...

    def bytes_read(self) -> int:
        """Bytes read."""
        ...

    def rows_written(self) -> int:
        """Rows written."""
        ...

    def bytes_written(self) -> int:
        """Bytes written."""
        ...


class Engine:
    """The engine behind the front; one statement at a time."""

    def __init__(self, folder: Path) -> None:
        from chdb import session  # noqa: PLC0415 - half a second, only where it is used

        self._session = session.Session(str(folder))  # type: ignore[no-untyped-call]
        self._lock = threading.Lock()

    def run(self, statement: str, form: str, parameters: Mapping[str, str]) -> Result:
        """Run one statement. Raises Refused with ClickHouse's own code."""
        with self._lock:
            try:
                answer: Result = self._session.query(statement, form, params=dict(parameters) or None)  # type: ignore[no-untyped-call]
                return answer
            except Exception as error:  # chDB's own class is not public
                found = _CODE.search(str(error))
                code = int(found[1]) if found else 1000
                raise Refused(404 if code in (60, 81) else 500, code, str(error)) from error


class Front:
    """Turns requests into statements."""

    def __init__(self, engine: Engine, passwords: Mapping[str, str]) -> None:
        self._engine = engine
        self._passwords = passwords

    def answer(self, arguments: Mapping[str, str], body: bytes, user: str, password: str) -> Answer:
        """Run what a request asks for."""
        query_id = arguments.get("query_id") or str(uuid.uuid4())
        try:
            self._know(user, password)
            return self._run(arguments, body, user, query_id)
        except Refused as refused:
            return _refusal(refused, query_id)

    def _know(self, user: str, password: str) -> None:
        if self._passwords.get(user) != password:
            raise Refused(
                403, 516, f"{user}: Authentication failed: password is incorrect, or there is no user"
            )

    def _run(self, arguments: Mapping[str, str], body: bytes, user: str, query_id: str) -> Answer:
        if arguments.get("decompress") == "1" or arguments.get("compress") == "1":
            raise Refused(501, 48, "compressed bodies are not served here; right would be compress=False")
        statement = arguments.get("query", "")
        data = body if statement else b""
        if not statement:
            statement, data = _split(body)
        _may(user, statement)
        statement = _in_database(statement, arguments.get("database", ""))
        settings = {
            k: v for k, v in arguments.items() if k not in _OWN_ARGUMENTS and not k.startswith("param_")
        }
        if user == "reader":
            settings["readonly"] = (
                "2"  # as a reader of a real server: limits may be asked for, nothing written
            )
        parameters = {k.removeprefix("param_"): v for k, v in arguments.items() if k.startswith("param_")}
        asked = _FORMAT.search(statement)
        form = asked[1] if asked else arguments.get("default_format", "TabSeparated")
        begun = time.monotonic()
        insert = _INSERT.match(statement)
        if insert is not None:
            result = self._insert(insert, data, settings)
        else:
            result = self._engine.run(_with_settings(statement, settings), form, parameters)
        content = result.bytes() or b""
        summary = (
            f'{{"read_rows":"{result.rows_read()}","read_bytes":"{result.bytes_read()}","written_rows":"{result.rows_written()}",'
            f'"written_bytes":"{result.bytes_written()}","elapsed_ns":"{int((time.monotonic() - begun) * 1e9)}"}}'
        )
        headers = {
            "X-ClickHouse-Query-Id": query_id,
            "X-ClickHouse-Format": form,
            "X-ClickHouse-Timezone": "UTC",
            "X-ClickHouse-Server-Display-Name": "sandbox",
            "X-ClickHouse-Summary": summary,
        }
        return Answer(200, content, headers)

    def _insert(self, insert: re.Match[str], data: bytes, settings: Mapping[str, str]) -> Result:
        into, form = insert["into"], insert["format"]
        columns = _COLUMNS.search(into)
        chosen = columns["columns"] if columns else "*"
        with tempfile.NamedTemporaryFile(prefix="relight-insert-") as file:
            file.write(data)
            file.flush()
            statement = f"INSERT INTO {into} SELECT {chosen} FROM file('{file.name}', {form})"  # noqa: S608 - as given
            return self._engine.run(_with_settings(statement, settings), "TabSeparated", {})


def _refusal(refused: Refused, query_id: str) -> Answer:
    text = str(refused)
    if not text.startswith("Code: "):
        text = f"Code: {refused.code}. DB::Exception: {text}"
    headers = {"X-ClickHouse-Exception-Code": str(refused.code), "X-ClickHouse-Query-Id": query_id}
    return Answer(refused.status, text.encode(), headers)


def _refusal_as_told(fault: Fault) -> Answer:
    if fault.code:
        return _refusal(Refused(fault.status, fault.code, fault.message), str(uuid.uuid4()))
    return Answer(fault.status, f"{fault.message}\n".encode(), {})


def _head(body: bytes) -> str:
    return body[:65_536].decode("utf-8", "replace")


def _split(body: bytes) -> tuple[str, bytes]:
    """Statement and data of a body that holds both: an insert's data begins behind its first line's format."""
    found = _INSERT.match(_head(body))
    if found is None:
        return body.decode("utf-8", "replace"), b""
    length = len(found[0].encode())
    return found[0], body[length:]


def _first_word(statement: str) -> str:
    found = _FIRST_WORD.match(statement)
    return found[1].upper() if found else ""


def _may(user: str, statement: str) -> None:
    allowed = _ALLOWED.get(user)
    word = _first_word(statement)
    if allowed is not None and word not in allowed:
        raise Refused(403, 497, f"{user}: Not enough privileges for {word or 'an empty statement'}")
    if user == "reader" and _SOURCES.search(statement):
        raise Refused(403, 497, f"{user}: Not enough privileges for table functions")


def _in_database(statement: str, database: str) -> str:
    # chDB has one current database a session; callers name it in the statement.
    del database
    return statement.rstrip().rstrip(";")


def _with_settings(statement: str, settings: Mapping[str, str]) -> str:
    if not settings:
        return statement
    words = ", ".join(f"{name} = {_literal(value)}" for name, value in sorted(settings.items()))
    return f"{statement} SETTINGS {words}"


def _literal(value: str) -> str:
    if re.fullmatch(r"-?\d+(\.\d+)?", value):
        return value
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


class FrontServer(ThreadingHTTPServer):
    """The listening side, with the front its handlers ask."""

    daemon_threads = True

    def __init__(self, port: int, front: Front) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.front = front
        self.faults = Faults()


class Handler(BaseHTTPRequestHandler):
    """Requests in, answers out; what they mean is the front's."""

    protocol_version = "HTTP/1.1"
    server: FrontServer

    def do_GET(self) -> None:
        """A statement in the address."""
        self._serve(b"")

    def do_POST(self) -> None:
        """A statement in the body, or data for one in the address."""
        self._serve(self._body())

    def do_DELETE(self) -> None:
        """No more faults."""
        if urlsplit(self.path).path == FAULTS_PATH:
            self.server.faults.clear()
            self._send(Answer(200, self.server.faults.to_json(), {}))
        else:
            self._send(Answer(501, b"not served here\n", {}))

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self._chunks()
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> bytes:
        parts: list[bytes] = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _serve(self, body: bytes) -> None:
        parts = urlsplit(self.path)
        arguments = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        if parts.path == "/ping":
            self._send(Answer(200, b"Ok.\n", {}))
            return
        if parts.path == FAULTS_PATH:
            self._take_fault(body)
            return
        if parts.path != "/":
            self._send(Answer(501, b"not served here\n", {}))
            return
        if self.headers.get("Content-Encoding"):
            self._send(Answer(501, b"compressed bodies are not served here\n", {}))
            return
        self._answer(
            arguments, body, self.server.faults.strike(_first_word(arguments.get("query") or _head(body)))
        )

    def _answer(self, arguments: Mapping[str, str], body: bytes, fault: Fault | None) -> None:
        kind = None if fault is None else fault.kind
        if fault is not None and kind is Kind.REFUSE:
            self._send(_refusal_as_told(fault))
            return
        if kind is Kind.CUT_BEFORE:
            self._cut()
            return
        if fault is not None and kind is Kind.DELAY:
            time.sleep(fault.seconds)
        answer = self.server.front.answer(arguments, body, *self._who(arguments))
        if kind is Kind.CUT_AFTER:
            self._cut()
        else:
            self._send(answer)

    def _cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):  # the client's own end came first
            self.connection.shutdown(socket.SHUT_RDWR)

    def _take_fault(self, body: bytes) -> None:
        try:
            if body:
                self.server.faults.add(Fault.from_json(body))
        except (ValueError, TypeError, KeyError) as error:
            self._send(Answer(400, f"no fault: {error}\n".encode(), {}))
        else:
            self._send(Answer(200, self.server.faults.to_json(), {}))

    def _who(self, arguments: Mapping[str, str]) -> tuple[str, str]:
        given = self.headers.get("Authorization", "")
        if given.startswith("Basic "):
            user, _, password = base64.b64decode(given[6:]).decode().partition(":")
            return user, password
        user = self.headers.get("X-ClickHouse-User") or arguments.get("user", "default")
        return user, self.headers.get("X-ClickHouse-Key") or arguments.get("password", "")

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        try:
            self.end_headers()
            self.wfile.write(answer.body)
        except (BrokenPipeError, ConnectionResetError):  # whoever asked has given up
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""
        del format, args


def main() -> None:
    """Serve until ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--password", action="append", default=[], metavar="USER=PASSWORD")
    given = parser.parse_args()
    passwords = {"writer": "", "reader": "", "migrator": "", "default": ""}
    passwords |= dict(pair.split("=", 1) for pair in given.password)
    front = Front(Engine(given.folder), passwords)
    FrontServer(given.port, front).serve_forever()


if __name__ == "__main__":
    main()
