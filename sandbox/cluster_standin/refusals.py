"""What the stand-in answers instead of doing it: one exception, and the Status it becomes.

Messages, reasons and causes are worded as the real API server words them where our clients read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from runtime.kubernetes import Object
from sandbox.cluster_standin.resources import Resource
from sandbox.errors import SandboxError

CHANGED: str = "the object has been modified; please apply your changes to the latest version and try again"


class Refusal(SandboxError):  # noqa: N818 - it is an answer to a client, not a fault
    """A request that is not done; the message is for who asked."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details

    def status(self) -> Object:
        """The body of the answer."""
        told: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            **({"reason": self.reason} if self.reason else {}),
            "code": self.code,
        }
        if self.details is not None:
            told["details"] = self.details
        return told


@dataclass(frozen=True, slots=True)
class Cause:
    """What is wrong with one field."""

    field: str
    text: str
    reason: str = "FieldValueInvalid"


def not_served(what: str) -> Refusal:
    """The stand-in does not do this, and says so. `what` names verb and path, and the option that is too much."""
    return Refusal(
        HTTPStatus.NOT_IMPLEMENTED,
        "NotImplemented",
        f"{what}: the cluster stand-in does not serve this; a real control plane does",
    )


def bad_request(message: str) -> Refusal:
    """The request makes no sense."""
    return Refusal(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def not_found(resource: Resource, name: str) -> Refusal:
    """There is no such object."""
    return Refusal(
        HTTPStatus.NOT_FOUND, "NotFound", f'{resource.title} "{name}" not found', _of(resource, name)
    )


def already_exists(resource: Resource, name: str) -> Refusal:
    """The name is taken."""
    return Refusal(
        HTTPStatus.CONFLICT, "AlreadyExists", f'{resource.title} "{name}" already exists', _of(resource, name)
    )


def conflict(resource: Resource, name: str, why: str = CHANGED) -> Refusal:
    """Somebody else was quicker, or it is another object by now."""
    return Refusal(
        HTTPStatus.CONFLICT,
        "Conflict",
        f'Operation cannot be fulfilled on {resource.title} "{name}": {why}',
        _of(resource, name),
    )


def forbidden(resource: Resource, name: str, why: str, *, cause: Cause | None = None) -> Refusal:
    """It may not be, whoever asks."""
    details = _of(resource, name)
    if cause is not None:
        details["causes"] = [_told(cause)]
    return Refusal(
        HTTPStatus.FORBIDDEN, "Forbidden", f'{resource.title} "{name}" is forbidden: {why}', details
    )


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> Refusal:
    """The object is not as it must be."""
    said = [f"{cause.field}: {cause.text}" for cause in causes]
    text = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    details = {
        "name": name,
        "group": resource.group,
        "kind": resource.kind,
        "causes": [_told(cause) for cause in causes],
    }
    details = {key: value for key, value in details.items() if value}
    return Refusal(
        HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", f'{_kind(resource)} "{name}" is invalid: {text}', details
    )


def other_object(resource: Resource, name: str, given: str, found: str) -> Refusal:
    """A deletion meant for an object that is another one by now."""
    why = (
        f"the UID in the precondition ({given}) does not match the UID in record ({found})."
        " The object might have been deleted and then recreated"
    )
    return _precondition(resource, name, why)


def other_version(resource: Resource, name: str, given: str, found: str) -> Refusal:
    """A deletion meant for an object as it is not any more."""
    why = (
        f"the ResourceVersion in the precondition ({given}) does not match the ResourceVersion in record ({found})."
        " The object might have been modified"
    )
    return _precondition(resource, name, why)


def _precondition(resource: Resource, name: str, why: str) -> Refusal:
    said = f'Operation cannot be fulfilled on {_kind(resource)} "{name}": {why}'
    return Refusal(HTTPStatus.CONFLICT, "Conflict", said, {**_of(resource, name), "kind": resource.kind})


def unreadable_patch(why: str) -> Refusal:
    """What the patch makes is no object of its kind."""
    cause = Cause("patch", f"Invalid value: {why}")
    return Refusal(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Invalid",
        f' "" is invalid: patch: {cause.text}',
        {"causes": [_told(cause)]},
    )


def patch_does_not_apply(why: str) -> Refusal:
    """A test of a JSON patch failed, or its path is not there."""
    del why  # the real server does not say
    said = "the server rejected our request due to an error in our request"
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", said, {})


def expired(message: str) -> Refusal:
    """What was asked about is too long ago."""
    return Refusal(HTTPStatus.GONE, "Expired", message)


def _kind(resource: Resource) -> str:
    return f"{resource.kind}.{resource.group}" if resource.group else resource.kind


def _told(cause: Cause) -> Object:
    return {"reason": cause.reason, "message": cause.text, "field": cause.field}


def _of(resource: Resource, name: str) -> Object:
    group = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": resource.plural}
