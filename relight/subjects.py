"""Whom an order is for: its run or node, by the whole of its id or by a beginning of it that is nobody else's.

Guarantee: no order is written into a mailbox that nobody reads because an id was cut short, misspelt or a name. The record is asked; while it
is away, or does not know the id, only what has the form of a whole one is taken, and that is said: a store must not stand between people and
a pause.
"""

from __future__ import annotations

import re
from typing import Final

import click

from relight.orders import checked_subject
from relight.record import CANDIDATES, LEAST, NODES_MEANT, RUNS_MEANT, ask, reader, several
from relight.tables import plain
from schemas.ids import NODE, RUN, subject_kind, subject_name

WHOLE: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
"""Runs and nodes are known by the UIDs of their objects, which Kubernetes makes in this form."""
_QUESTIONS: Final = {RUN: RUNS_MEANT, NODE: NODES_MEANT}
_SHOWN_BY: Final = {RUN: "relight jobs -o json", NODE: "relight nodes -o json"}
_CALLED: Final = {RUN: "job", NODE: "node"}


def run_meant(given: str, *, instead: str) -> str:
    """The whole subject of an order that only runs take. Raises as `subject_meant`; for a node UsageError says what there is `instead`."""
    if subject_kind(given) == NODE:
        raise click.UsageError(f"{given!r} is a node; {instead}")
    return subject_meant(given, RUN)


def subject_meant(given: str, *kinds: str) -> str:
    """The whole subject. Raises UsageError for kinds that take no such order, ClickException where it is not clear who is meant."""
    kind, name = subject_kind(checked_subject(given, *(kinds or (RUN, NODE)))), subject_name(given)
    try:
        with reader() as store:
            _, rows = ask(store, _QUESTIONS[kind], id=name, least=LEAST, limit=CANDIDATES + 1)
    except click.ClickException as away:
        why = f"the record was not asked who that is: {plain(away.format_message())}"
        return f"{kind}/{_as_it_is(kind, name, why)}"
    known = {str(identity): str(called) for identity, called in rows}
    if name in known:
        return given
    named = [identity for identity, called in known.items() if called == name]
    if named:
        ids = ", ".join(map(plain, named))
        raise click.ClickException(
            f"{plain(name)} is the name of a {_CALLED[kind]}; right would be its UID: {ids}"
        )
    if len(known) > 1:
        raise several(name, list(known))
    if known:
        (whole,) = known
        click.echo(f"{plain(name)} is {plain(whole)}", err=True)
        return f"{kind}/{whole}"
    return f"{kind}/{_as_it_is(kind, name, f'the record knows no {kind} {plain(name)}')}"


def _as_it_is(kind: str, name: str, why: str) -> str:
    """The id, if it is a whole one."""
    if WHOLE.fullmatch(name):
        click.echo(f"{why}; the order is given all the same", err=True)
        return name
    raise click.ClickException(
        f"{why}, and this is no whole UID; nothing was ordered; right would be one of `{_SHOWN_BY[kind]}`{_hint(name)}"
    )


def _hint(name: str) -> str:
    return f", or {LEAST} letters of it and more" if len(name) < LEAST else ""
