"""Operators' orders, written into the mailbox of their subject and confirmed by the broker."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import click

from relight.signature import by_option, reason_option
from runtime.errors import BrokerAway, ProcessError
from runtime.kafka import KafkaClients, explain
from runtime.settings import Settings, read_settings
from schemas.envelope import encode, make_event
from schemas.ids import NODE, RUN, mailbox_key, subject_kind, subject_name
from schemas.mailbox import Order
from schemas.topics import INBOX

PATIENCE: Final = timedelta(seconds=20)
_RIGHT: Final = {RUN: "run/RUN-ID (see `relight jobs`)", NODE: "node/NODE-UID (see `relight nodes`)"}
_Command = TypeVar("_Command", bound=Callable[..., None])


def order_options(command: _Command) -> _Command:
    """Who orders it and why; both stand in the record."""
    return reason_option("Why, for the record.")(by_option("Who orders it.")(command))


def checked_subject(subject: str, *kinds: str) -> str:
    """The subject, if it is of a kind that takes the order."""
    if subject_kind(subject) not in kinds or not subject_name(subject):
        right = " or ".join(_RIGHT[kind] for kind in kinds)
        raise click.UsageError(f"{subject!r} is no subject of this order; right would be {right}")
    return subject


def give(subject: str, order: Order) -> None:
    """Write the order into its mailbox. What goes wrong ends as one readable message, and the order was not given."""
    try:
        settings = read_settings(Settings)
        if settings.cluster is None:
            raise click.UsageError("no cluster is known: set RELIGHT_CLUSTER")
        event = make_event(
            order,
            id=uuid.uuid4().hex,
            source=f"/clusters/{settings.cluster}/cli",
            subject=subject,
            time=datetime.now(UTC),
            cluster=settings.cluster,
        )
        _send(settings, mailbox_key(settings.cluster, subject), encode(event))
    except ProcessError as error:
        raise click.ClickException(f"{error}; the order was not given") from error
    click.echo(f"{getattr(order, 'kind', 'order')} given to {subject}")


def _send(settings: Settings, key: bytes, value: bytes) -> None:
    failed: list[str] = []
    clients = KafkaClients(settings.kafka, "relight-order")
    clients.reach()
    producer = clients.bounded_producer(PATIENCE)
    producer.produce(
        settings.topic(INBOX.name),
        key=key,
        value=value,
        on_delivery=lambda error, _: (
            failed.append(str(explain(error, "giving the order"))) if error else None
        ),
    )
    if producer.flush(PATIENCE.total_seconds()) or failed:
        raise BrokerAway(failed[0] if failed else f"not confirmed within {PATIENCE.total_seconds():g} s")
