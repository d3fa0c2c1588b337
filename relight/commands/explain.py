"""Say what was decided about one event, by which rule, and why the others did not decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from relight.tables import output_option, plain, show

if TYPE_CHECKING:
    from audit.store import Store

_OF_SOME: Final = frozenset({"exit_code", "exit_signal", "ordered_by_relight", "ladder_row", "count"})
"""What only exits, or decisions by a row or by a rule that counts, have; the others do not show it."""


@click.command()
@click.argument("event_id")
@output_option
def command(event_id: str, *, output: str) -> None:
    """Explain EVENT_ID, an id as it stands in signals, in `trigger` of a decision, or in `relight incidents show`.

    \b
    relight explain 9a0e55c1
    relight topics tail signals.v1 | jq -r .id

    6 letters of an id and more are enough, as far as they are those of one. The id of a decision explains what it was about. An event that
    reached no rule's index has no decision: that is said. Ends with 1 when the record does not know the event, when the id is an incident's or
    that of several, or when the record does not answer.
    """
    from relight.record import EVENT, EXPLAINED, ask, reader

    with reader() as store:
        event = ask(store, EVENT, event=event_id)
        decisions = ask(store, EXPLAINED, event=event_id)
        if not event[1] and not decisions[1]:
            meant = _event_meant(store, event_id)
            event = ask(store, EVENT, event=meant)
            decisions = ask(store, EXPLAINED, event=meant)
    if output == "json":
        show(*event, output)
        show(*decisions, output)
        return
    for title, (columns, rows) in (("event", event), ("decision about it", decisions)):
        for row in rows:  # each on its own, a line a column: sentences do not read in narrow columns
            told = [
                (column, value)
                for column, value in zip(columns, row, strict=True)
                if column not in _OF_SOME or value not in (None, "")
            ]
            show(("what", "value"), told, output, title=title)
    if not decisions[1]:
        click.echo("no rule looks at an event like this: it was counted, and nothing was decided")


def _event_meant(store: Store, given: str) -> str:
    """The event that the beginning of an id, or the id of a decision, stands for."""
    from relight.record import LEAST, what_is

    found = what_is(store, given)
    if found is None:
        hint = f"; the beginning of an id has {LEAST} letters or more" if len(given) < LEAST else ""
        raise click.ClickException(f"the record knows no event {plain(given)!r}{hint}")
    kind, whole, trigger = found
    if kind == "incident":
        raise click.ClickException(
            f"{plain(given)} is an incident; right would be `relight incidents show {plain(whole)}`, and of its chain an event id"
        )
    if kind == "decision":
        click.echo(f"{plain(given)} is a decision; it was about event {plain(trigger)}:", err=True)
    return trigger
