"""A request taken apart: what it is about, what it wants done, with which options. Whatever is not served is refused here, by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from sandbox.cluster_standin.refusals import Refusal, bad_request, not_served
from sandbox.cluster_standin.registry import Place
from sandbox.cluster_standin.resources import BY_NAME

OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "get": frozenset({"resourceVersion"}),
    "list": frozenset({"labelSelector", "fieldSelector", "limit", "continue", "resourceVersion"}),
    "watch": frozenset(
        {
            "watch",
            "resourceVersion",
            "labelSelector",
            "fieldSelector",
            "allowWatchBookmarks",
            "timeoutSeconds",
        }
    ),
    "create": frozenset({"fieldManager", "dryRun"}),
    "update": frozenset({"fieldManager"}),
    "patch": frozenset({"fieldManager"}),
    "delete": frozenset(),
}
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
ACCESS_REVIEW: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
VERSION: Final = "/version"
HEALTH: Final = frozenset({"/healthz", "/readyz", "/livez"})


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked.

    Args:
        words: method and path, for messages.
        verb: as Kubernetes calls it.
        place: what it is about.
        subresource: or empty.
        options: of the query, only those the verb has.
        content: type of the body.
        body: as it came.
        agent: the client's name of itself, up to the first slash.
        user: who it is.
    """

    words: str
    verb: str
    place: Place
    subresource: str
    options: Mapping[str, str]
    content: str
    body: bytes
    agent: str
    user: str

    @property
    def manager(self) -> str:
        """As whom a write is noted: as asked, or the client's name. Parts of a control plane are known by their user."""
        own = self.user.removeprefix("system:") if self.user.startswith("system:kube-") else self.agent
        return self.options.get("fieldManager") or own or "unknown"

    def json(self) -> Any:  # noqa: ANN401 - any JSON
        """The body. Raises a bad request when it is none."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise bad_request(f"the body is no JSON: {error}") from None

    def number(self, option: str, default: int = 0) -> int:
        """A whole number. Raises a bad request for what is none."""
        text = self.options.get(option, "")
        try:
            return int(text) if text else default
        except ValueError:
            raise bad_request(f"{option}={text!r} is no number") from None


def read(
    method: str, raw_path: str, query: Mapping[str, str], *, content: str, body: bytes, agent: str, user: str
) -> Request:
    """Take a request apart. Raises 501 for everything that is not served."""
    words = f"{method} {raw_path}"
    place, subresource = _place(raw_path, words)
    verb = _VERBS.get(method, "")
    if method == "GET":
        verb = "get" if place.name else "watch" if query.get("watch") in ("true", "1") else "list"
    _need_verb(verb, place, subresource, words)
    _need_options(verb, query, words)
    return Request(
        words,
        verb,
        place,
        subresource,
        dict(query),
        content.split(";", maxsplit=1)[0],
        body,
        agent.split("/", maxsplit=1)[0],
        user,
    )


def _place(raw_path: str, words: str) -> tuple[Place, str]:
    parts = [unquote(each) for each in raw_path.strip("/").split("/")]
    group, rest = "", parts
    if parts[:2] == ["api", "v1"]:
        rest = parts[2:]
    elif len(parts) > 2 and parts[0] == "apis" and parts[2] == "v1":  # noqa: PLR2004 - apis/GROUP/v1
        group, rest = parts[1], parts[3:]
    else:
        raise not_served(words)
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and (group, rest[2]) in BY_NAME:  # noqa: PLR2004 - namespaces/NAME/PLURAL
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *more = [*rest, "", "", ""][: max(4, len(rest) + 1)]
    resource = BY_NAME.get((group, plural))
    if resource is None or any(more) or (namespace and not resource.namespaced):
        raise not_served(words)
    if resource.namespaced and name and not namespace:
        raise not_served(words)
    return Place(resource, namespace, name), subresource


def _need_verb(verb: str, place: Place, subresource: str, words: str) -> None:
    resource = place.resource
    served = resource.subresources.get(subresource, frozenset()) if subresource else resource.verbs
    on_all = verb in ("list", "watch", "create") and not subresource
    if verb not in served or on_all == bool(place.name):
        raise not_served(words)
    if verb == "create" and resource.namespaced and not place.namespace:
        raise not_served(words)


def _need_options(verb: str, query: Mapping[str, str], words: str) -> None:
    odd = sorted(query.keys() - OPTIONS[verb])
    if odd:
        raise not_served(f"{words} with {', '.join(f'{name}={query[name]}' for name in odd)}")
    version = query.get("resourceVersion")
    if verb in ("get", "list") and version not in (None, "", "0"):
        raise not_served(f"{words} with resourceVersion={version}")
    if verb == "watch" and version in (None, "", "0"):
        raise not_served(f"{words} without a resourceVersion to go on from")
    if query.get("dryRun", "All") != "All":
        raise bad_request(f"dryRun={query['dryRun']}: supported values: All")


__all__ = ["ACCESS_REVIEW", "HEALTH", "VERSION", "Refusal", "Request", "read"]
