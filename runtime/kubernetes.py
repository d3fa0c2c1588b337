"""The one client of the Kubernetes API: plain objects in and out, typed errors, an explicit rate, nothing tried twice behind one's back.

On the official client's configuration, authentication and transport. Objects are dictionaries as the server wrote them: a field of a newer
server is neither lost nor refused, and a watch costs one JSON decode an event. A write that timed out may have happened: callers make
every write conditional (UID, resourceVersion) and read again, so nothing here retries.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3.exceptions import HTTPError

from runtime.errors import (
    ApiAway,
    ApiConflict,
    ApiForbidden,
    ApiGone,
    ApiInvalid,
    ApiNotFound,
    ApiTooMany,
    SettingsConflict,
)
from runtime.settings import KubernetesSettings

Object = dict[str, Any]
Query = Mapping[str, str | int | bool | None]

_TOKEN_LASTS: Final = 1.0
"""Seconds; a token is renewed a minute or more before its end."""
_ERRORS: Final = {401: ApiForbidden, 403: ApiForbidden, 404: ApiNotFound, 409: ApiConflict, 410: ApiGone}


class PatchKind(StrEnum):
    """Content types of a patch."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Listing:
    """What a list returned, and from where to watch on."""

    items: list[Object]
    resource_version: str


class ChangeKind(StrEnum):
    """Kinds of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a watch."""

    kind: ChangeKind
    object: Object


class Rate:
    """Token bucket, shared by all threads of a client: at most `burst` at once and `per_second` in the long run."""

    def __init__(
        self,
        per_second: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._sleep = sleep
        self._tokens = float(burst)
        self._at = clock()
        self._lock = threading.Lock()

    def take(self) -> None:
        """Take one, waiting for its turn; whoever came first goes first."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
            self._at = now
            self._tokens -= 1
            wait = -self._tokens / self._per_second
        if wait > 0:
            self._sleep(wait)


class Watch:
    """An open watch: iterate over its changes; `close` from any thread ends the iteration."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._closed = False

    def close(self) -> None:
        """End it, also while another thread reads."""
        self._closed = True
        try:
            self._response.shutdown()
        except (
            OSError,
            ValueError,
            AttributeError,
            RuntimeError,
        ):  # read to its end already, or never connected
            return

    def __iter__(self) -> Iterator[Change]:
        """Changes until the server ends the watch. Raises ApiGone when the version is too old, ApiAway when the line broke."""
        rest = b""
        try:
            for chunk in self._response.stream(None):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield _change(line)
        except (HTTPError, OSError, ValueError, KeyError, TypeError) as error:  # cut, no JSON, no event
            if not self._closed:
                raise ApiAway(f"watch: {error}") from error
        finally:
            self._response.close()


def _change(line: bytes) -> Change:
    event: Object = json.loads(line)
    if event["type"] == "ERROR":
        status = event.get("object", {})
        kind = ApiGone if status.get("code") == 410 else ApiAway  # noqa: PLR2004 - HTTP's Gone
        raise kind(f"watch: {status.get('message', status)}")
    return Change(ChangeKind(event["type"]), event["object"])


class Cluster:
    """The API server, as one process sees it. Safe to use from many threads."""

    def __init__(self, settings: KubernetesSettings, name: str) -> None:
        """`name` of the process stands in the user agent. Raises SettingsConflict when no configuration is found."""
        configuration = _configuration(settings)
        configuration.retries = urllib3.Retry(0, redirect=3)
        configuration.connection_pool_maxsize = settings.connections
        self._configuration = configuration
        self._pool = ApiClient(configuration).rest_client.pool_manager
        self._agent = f"relight-{name}"
        self._timeout = settings.timeout.total_seconds()
        self._watch_seconds = settings.watch.total_seconds()
        self._rate = Rate(settings.rate, settings.burst)
        self._token: str | None = None
        self._token_until = 0.0

    def get(self, path: str) -> Object:
        """One object. Raises ApiNotFound and the other errors of `runtime.errors`."""
        return self._call("GET", path)

    def list(self, path: str, *, labels: str = "", fields: str = "", page: int = 500) -> Listing:
        """All objects under a path, page by page. Raises ApiGone when a page token grew too old: list again."""
        items: list[Object] = []
        query: dict[str, str | int | bool | None] = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "limit": page,
        }
        while True:
            answer = self._call("GET", path, query=query)
            items += answer.get("items") or []
            metadata = answer["metadata"]
            query["continue"] = metadata.get("continue")
            if not query["continue"]:
                return Listing(items, metadata["resourceVersion"])

    def create(self, path: str, body: Object, **query: str) -> Object:
        """Raises ApiConflict when it exists, ApiInvalid when it may not."""
        return self._call("POST", path, body=body, query=query)

    def replace(self, path: str, body: Object) -> Object:
        """Put the whole object; conditional by the resourceVersion in it. Raises ApiConflict."""
        return self._call("PUT", path, body=body)

    def patch(
        self,
        path: str,
        body: Object | Sequence[Object],
        *,
        kind: PatchKind = PatchKind.MERGE,
        manager: str = "",
    ) -> Object:
        """Patch; put `metadata.uid` and `metadata.resourceVersion` into a merge patch to make it conditional. Raises ApiConflict."""
        return self._call("PATCH", path, body=body, content=kind.value, query={"fieldManager": manager})

    def delete(
        self,
        path: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        propagation: str = "Background",
    ) -> Object:
        """Delete, conditional by UID and resourceVersion where given. Raises ApiConflict, ApiNotFound."""
        conditions = {"uid": uid, "resourceVersion": resource_version}
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        options["preconditions"] = {key: value for key, value in conditions.items() if value}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        return self._call("DELETE", path, body=options)

    def watch(self, path: str, *, since: str, labels: str = "", fields: str = "") -> Watch:
        """Watch from a version on, for as long as the setting `watch` says; a line that stays dead a while longer counts as broken."""
        query: dict[str, str | int | bool | None] = {
            "watch": True,
            "resourceVersion": since,
            "labelSelector": labels,
            "fieldSelector": fields,
            "allowWatchBookmarks": True,
            "timeoutSeconds": max(1, int(self._watch_seconds)),
        }
        return Watch(
            self._request("GET", path, query=query, timeout=self._watch_seconds + self._timeout, stream=True)
        )

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Object | Sequence[Object] | None = None,
        content: str = "",
    ) -> Object:
        response = self._request(method, path, query=query, body=body, content=content, timeout=self._timeout)
        try:
            answer: Object = json.loads(response.data)
        except ValueError as error:
            raise ApiAway(f"{method} {path}: the answer is no JSON: {error}") from error
        return answer

    def _request(
        self,
        method: str,
        path: str,
        *,
        timeout: float,
        query: Query | None = None,
        body: Object | Sequence[Object] | None = None,
        content: str = "",
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        if not stream:
            self._rate.take()
        headers = {"User-Agent": self._agent, "Accept": "application/json"}
        token = self._authorization()
        if token:
            headers["Authorization"] = token
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = content or "application/json"
        with _away(f"{method} {path}"):
            response = self._pool.request(
                method,
                self._configuration.host + path + _text(query),
                body=data,
                headers=headers,
                timeout=urllib3.Timeout(connect=self._timeout, read=timeout),
                preload_content=not stream,
            )
            if response.status >= 400:  # noqa: PLR2004 - HTTP's errors begin here
                if response.status == 401:  # noqa: PLR2004 - HTTP's Unauthorized: perhaps there is a new token
                    self._token_until = 0.0
                _raise(f"{method} {path}", response)
        return response

    def _authorization(self) -> str | None:
        """Asked for at most once a second: the official client reads its whole configuration anew each time (a tenth of a busy process)."""
        now = time.monotonic()
        if now >= self._token_until:
            self._token = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
            self._token_until = now + _TOKEN_LASTS
        return self._token


def _text(query: Query | None) -> str:
    given = {key: value for key, value in (query or {}).items() if value not in (None, "", False)}
    if not given:
        return ""
    words = {key: "true" if value is True else str(value) for key, value in given.items()}
    return "?" + urlencode(words)


@contextmanager
def _away(doing: str) -> Iterator[None]:
    try:
        yield
    except (HTTPError, OSError) as error:
        raise ApiAway(f"{doing}: {error}") from error


def _raise(doing: str, response: urllib3.BaseHTTPResponse) -> None:
    try:
        status: Object = json.loads(response.data)
        said = str(status.get("message") or status)
    except ValueError:
        status, said = {}, response.data[:200].decode("utf-8", "replace")
    message = f"{doing}: {response.status} {said}"
    code = response.status
    if code == 429 or (code >= 500 and "Retry-After" in response.headers):  # noqa: PLR2004 - HTTP
        # An eviction that a budget forbids is a 429 as well; its cause says so.
        raise ApiTooMany(message, retry_after=_seconds(response.headers.get("Retry-After")), status=status)
    if code in _ERRORS:
        raise _ERRORS[code](message, status=status)
    if code >= 500:  # noqa: PLR2004 - the server's own faults
        raise ApiAway(message, status=status)
    raise ApiInvalid(message, status=status)


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or "1"))
    except ValueError:
        return 1.0


def _configuration(settings: KubernetesSettings) -> Configuration:
    configuration = Configuration()
    try:
        if settings.kubeconfig is not None:
            load_kube_config(  # type: ignore[no-untyped-call]
                str(settings.kubeconfig), context=settings.context, client_configuration=configuration
            )
        else:
            try:
                load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            except ConfigException:
                load_kube_config(context=settings.context, client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise SettingsConflict(
            f"no way to the cluster: {error}; right would be RELIGHT_KUBERNETES__KUBECONFIG=FILE, or a pod with a service account"
        ) from error
    return configuration
