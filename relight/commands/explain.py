"""Say what was decided about one event, by which rule, and why the others did not decide."""

from __future__ import annotations

import click

from relight.tables import output_option, plain, show


@click.command()
@click.argument("event_id")
@output_option
def command(event_id: str, *, output: str) -> None:
    """Explain EVENT_ID, an id as it stands in signals, in `trigger` of a decision, or in `relight incidents show`.

    \b
    relight explain 9a0e55...
    relight topics tail signals.v1 | jq -r .id

    An event that reached no rule's index has no decision: that is said. Ends with 1 when the record does not know the event or does not answer.
    """
    from relight.record import EVENT, EXPLAINED, ask, reader

    with reader() as store:
        event = ask(store, EVENT, event=event_id)
        decisions = ask(store, EXPLAINED, event=event_id)
    if not event[1] and not decisions[1]:
        raise click.ClickException(f"the record knows no event {plain(event_id)!r}")
    if event[1]:
        show(*event, output, title="event")
    if decisions[1]:
        show(*decisions, output, title="decisions about it")
    elif output == "table":
        click.echo("no rule looks at an event like this: it was counted, and nothing was decided")
