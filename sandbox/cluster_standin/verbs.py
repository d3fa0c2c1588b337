"""Requests answered from the registry: everything but watches, which go on. A request is answered at one moment, all or nothing."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final

from runtime.kubernetes import Object, PatchKind
from sandbox.cluster_standin import patches, pods
from sandbox.cluster_standin.refusals import Refusal, bad_request, not_served
from sandbox.cluster_standin.registry import DeleteOptions, Registry, delete_options, success
from sandbox.cluster_standin.requests import Request
from sandbox.cluster_standin.resources import Resource
from sandbox.cluster_standin.schema import now_text
from sandbox.cluster_standin.selectors import selection

JSON: Final = "application/json"
TOKEN_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent."""

    body: bytes
    code: int = HTTPStatus.OK


class Verbs:
    """What is done for each verb."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        self._subresources: Mapping[tuple[str, str], Callable[[Request], Answer]] = {
            ("create", "binding"): self._bind,
            ("create", "eviction"): self._evict,
            ("create", "token"): self._token,
        }

    def answer(self, request: Request) -> Answer:
        """Do it. Raises Refusal."""
        special = self._subresources.get((request.verb, request.subresource))
        if special is not None:
            return special(request)
        verbs: Mapping[str, Callable[[Request], Answer]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
        }
        return verbs[request.verb](request)

    def _get(self, request: Request) -> Answer:
        resource = request.place.resource
        return Answer(self._store.text(resource, self._registry.get(request.place)))

    def _list(self, request: Request) -> Answer:
        resource, options = request.place.resource, request.options
        limit = request.number("limit")
        labels, fields = options.get("labelSelector", ""), options.get("fieldSelector", "")
        if options.get("continue"):
            rest, version = self._store.take_rest(options["continue"])
        else:
            admits = selection(resource, labels, fields)
            rest = [each for each in self._store.items(resource, request.place.namespace) if admits(each)]
            version = self._store.version
        page, after = (rest[:limit], rest[limit:]) if limit > 0 else (rest, [])
        metadata: Object = {"resourceVersion": str(version)}
        if after:
            metadata["continue"] = self._store.keep_rest(after, version)
            if not labels and not fields:
                metadata["remainingItemCount"] = len(after)
        told = {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": page,
        }
        return _json(told)

    def _create(self, request: Request) -> Answer:
        _need_json(request)
        only_ask = "dryRun" in request.options
        made = self._registry.create(
            request.place, request.json(), manager=request.manager, only_ask=only_ask
        )
        return Answer(self._store.text(request.place.resource, made), HTTPStatus.CREATED)

    def _update(self, request: Request) -> Answer:
        _need_json(request)
        body = request.json()
        made = self._registry.change(
            request.place,
            lambda _: body,
            manager=request.manager,
            subresource=request.subresource,
            whole=True,
        )
        return Answer(self._store.text(request.place.resource, made))

    def _patch(self, request: Request) -> Answer:
        if request.content not in set(PatchKind):
            raise not_served(f"{request.words} with content type {request.content}")
        patch, resource = request.json(), request.place.resource
        if request.content == PatchKind.STRATEGIC and request.subresource != "status":
            raise not_served(f"{request.words} with content type {request.content}")
        made = self._registry.change(
            request.place,
            lambda old: patches.patched(old, patch, request.content, resource),
            manager=request.manager,
            subresource=request.subresource,
        )
        return Answer(self._store.text(resource, made))

    def _delete(self, request: Request) -> Answer:
        body = request.json() if request.body else None
        options = delete_options(body, request.words)
        return self._deleted(
            request.place.resource, self._registry.delete(request.place, options).item, request
        )

    def _deleted(self, resource: Resource, item: Object, request: Request) -> Answer:
        is_gone = self._store.find(resource, request.place.namespace, request.place.name) is None
        if is_gone and not resource.returns_deleted:
            return _json(success(resource, item))
        return Answer(self._store.text(resource, item))

    # ------------------------------------------------------------ subresources

    def _bind(self, request: Request) -> Answer:
        _need_json(request)
        old = self._registry.get(request.place)
        made = pods.bound(old, request.json(), now_text())
        self._registry.write(request.place.resource, made)
        return _json(_done(), HTTPStatus.CREATED)

    def _evict(self, request: Request) -> Answer:
        """No disruption budget is served, so none forbids it."""
        _need_json(request)
        options = delete_options(request.json().get("deleteOptions"), request.words)
        old = self._registry.get(request.place)
        if options.uid and options.uid != old["metadata"]["uid"]:
            self._registry.delete(request.place, options)  # says what is wrong
        if (old.get("status") or {}).get("phase") not in pods.ENDED and not old["metadata"].get(
            "deletionTimestamp"
        ):
            made = copy.deepcopy(old)
            said = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
            pods.set_condition(made, "DisruptionTarget", "True", now_text(), **said)
            self._registry.write(request.place.resource, made)
        self._registry.delete(request.place, DeleteOptions(grace=options.grace, uid=options.uid))
        return _json(_done(), HTTPStatus.CREATED)

    def _token(self, request: Request) -> Answer:
        """A token that names its account; nobody checks what it may do."""
        _need_json(request)
        account = self._registry.get(request.place)
        asked = request.json()
        seconds = (asked.get("spec") or {}).get("expirationSeconds") or TOKEN_SECONDS
        place = request.place
        user = f"system:serviceaccount:{place.namespace}:{place.name}"
        text = f"{user}:{account['metadata']['uid']}:{datetime.now(UTC).timestamp()}"
        token = f"standin-{hashlib.sha256(text.encode()).hexdigest()}"
        ends = now_text(datetime.now(UTC) + timedelta(seconds=seconds))
        told = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": place.name, "namespace": place.namespace, "creationTimestamp": now_text()},
            "spec": {**(asked.get("spec") or {}), "expirationSeconds": seconds},
            "status": {"token": token, "expirationTimestamp": ends},
        }
        return _json(told, HTTPStatus.CREATED)


def access_review(body: bytes, user: str) -> Answer:
    """Whether somebody may do something: everybody may do everything here, and it says so."""
    try:
        asked = json.loads(body)
    except ValueError as error:
        raise bad_request(f"the body is no JSON: {error}") from None
    if not isinstance(asked, dict) or "resourceAttributes" not in (asked.get("spec") or {}):
        raise not_served("a SelfSubjectAccessReview without resourceAttributes")
    reason = f"the cluster stand-in limits nobody, {user} neither"
    told = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"creationTimestamp": None},
        "spec": asked["spec"],
        "status": {"allowed": True, "reason": reason},
    }
    return _json(told, HTTPStatus.CREATED)


def version() -> Answer:
    """Which server this is."""
    told = {"major": "1", "minor": "36", "gitVersion": "v1.36.3-relight-standin", "platform": "sandbox"}
    return _json(told)


def refused(refusal: Refusal) -> Answer:
    """The answer that is a refusal."""
    return _json(refusal.status(), refusal.code)


def _json(told: Object, code: int = HTTPStatus.OK) -> Answer:
    return Answer(json.dumps(told, separators=(",", ":")).encode(), code)


def _done() -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": HTTPStatus.CREATED,
    }


def _need_json(request: Request) -> None:
    if request.content != JSON:
        raise not_served(f"{request.words} with content type {request.content!r}")
