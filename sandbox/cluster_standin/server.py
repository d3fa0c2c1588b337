"""The HTTP side: who asks, one answer a request, and watches as they go on.

One thread, one event loop: a request is answered whole before the next.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import ClientConnectionError, web

from runtime import logs
from runtime.kubernetes import Object
from sandbox.cluster_standin import requests, verbs
from sandbox.cluster_standin.garbage import Garbage
from sandbox.cluster_standin.refusals import Refusal, expired
from sandbox.cluster_standin.registry import Registry
from sandbox.cluster_standin.requests import Request
from sandbox.cluster_standin.resources import Resource
from sandbox.cluster_standin.selectors import Admits, selection
from sandbox.cluster_standin.store import Change, Store, Watcher
from sandbox.cluster_standin.verbs import Answer, Verbs

LARGEST_BODY: Final = 3 * 1024 * 1024  # as the real server's limit of a request
BOOKMARK_SECONDS: Final = 60.0
LONGEST_WATCH: Final = 3600.0
_LOG: Final = logs.get(__name__)

Users = Mapping[str, str]
"""User by token."""


class Server:
    """Serves one store. `users` says who has which token; who has none of them is not let in."""

    def __init__(self, registry: Registry, users: Users) -> None:
        self._store: Store = registry.store
        self._users = users
        self._verbs = Verbs(registry)
        self._garbage = Garbage(registry)
        registry.begin()
        self._garbage.sweep()

    def application(self) -> web.Application:
        """What a web server runs."""
        made = web.Application(client_max_size=LARGEST_BODY)
        made.router.add_route("*", "/{path:.*}", self._handle)
        return made

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except Refusal as refusal:
            if refusal.code == HTTPStatus.NOT_IMPLEMENTED:
                _LOG.warning("not served", asked=str(refusal))
            return _response(verbs.refused(refusal))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if path in requests.HEALTH and request.method == "GET":
            return web.Response(text="ok")
        user = self._user(request)
        body = await request.read()
        if path == requests.VERSION and request.method == "GET":
            return _response(verbs.version())
        if path == requests.ACCESS_REVIEW and request.method == "POST":
            return _response(verbs.access_review(body, user))
        asked = requests.read(
            request.method,
            path,
            dict(request.query),
            content=request.headers.get("Content-Type", ""),
            body=body,
            agent=request.headers.get("User-Agent", ""),
            user=user,
        )
        if asked.verb == "watch":
            return await self._watch(request, asked)
        try:
            return _response(self._verbs.answer(asked))
        finally:
            self._garbage.sweep()

    def _user(self, request: web.Request) -> str:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        user = self._users.get(token)
        if user is None:
            raise Refusal(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")
        return user

    # ------------------------------------------------------------ watches

    async def _watch(self, request: web.Request, asked: Request) -> web.StreamResponse:
        place = asked.place
        admits = selection(
            place.resource, asked.options.get("labelSelector", ""), asked.options.get("fieldSelector", "")
        )
        since, seconds = asked.number("resourceVersion"), asked.number("timeoutSeconds")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        try:
            watcher = self._store.watch(place.resource, place.namespace, since)
        except Refusal as refusal:  # as the real one: in the stream, once the request was understood
            await response.write(_line("ERROR", json.dumps(refusal.status()).encode()))
            await response.write_eof()
            return response
        bookmarks = asked.options.get("allowWatchBookmarks") in ("true", "1")
        ends = time.monotonic() + (seconds or LONGEST_WATCH)
        try:
            await self._follow(response, watcher, admits, ends, bookmarks=bookmarks)
            await response.write_eof()
        except (ConnectionError, ClientConnectionError):
            _LOG.debug("a watch was left", path=asked.words)
        finally:
            self._store.end(watcher)
        return response

    async def _follow(
        self, response: web.StreamResponse, watcher: Watcher, admits: Admits, ends: float, *, bookmarks: bool
    ) -> None:
        while True:
            told = self._lines(watcher, admits)
            if told:
                await response.write(told)
                continue
            if watcher.is_lost:
                gone = expired("too old resource version: this watch was not read in time")
                await response.write(_line("ERROR", json.dumps(gone.status()).encode()))
                return
            left = ends - time.monotonic()
            try:
                await asyncio.wait_for(watcher.news.wait(), max(0.0, min(left, BOOKMARK_SECONDS)))
            except TimeoutError:
                if bookmarks:
                    await response.write(self._bookmark(watcher.resource))
                if time.monotonic() >= ends:
                    return

    def _lines(self, watcher: Watcher, admits: Admits) -> bytes:
        watcher.news.clear()
        lines = []
        while watcher.changes:
            lines.append(self._event(watcher.changes.popleft(), admits))
        return b"".join(lines)

    def _event(self, change: Change, admits: Admits) -> bytes:
        """What a change is to this watch: what comes into its selection is added, what leaves it is deleted."""
        before = change.old is not None and admits(change.old)
        after = change.new is not None and admits(change.new)
        if not before and not after:
            return b""
        kind = "MODIFIED" if before and after else "ADDED" if after else "DELETED"
        item = change.last
        if kind == "DELETED" and change.new is not None and change.old is not None:
            version = item["metadata"][
                "resourceVersion"
            ]  # the last that was admitted, at the version that ended it
            item = {**change.old, "metadata": {**change.old["metadata"], "resourceVersion": version}}
        return _line(kind, self._store.text(change.resource, item))

    def _bookmark(self, resource: Resource) -> bytes:
        told: Object = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(self._store.version), "creationTimestamp": None},
        }
        return _line("BOOKMARK", json.dumps(told).encode())


def _line(kind: str, item: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + item + b"}\n"


def _response(answer: Answer) -> web.Response:
    return web.Response(body=answer.body, status=answer.code, content_type="application/json")
