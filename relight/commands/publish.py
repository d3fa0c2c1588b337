"""Publish a fault or another signal from outside: built from flags or a JSON file, checked, confirmed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from schemas.wording import agreeing, counted

if TYPE_CHECKING:
    from runtime.settings import Settings
    from schemas.envelope import Event

NOT_CONFIRMED: Final = 1
INVALID: Final = 3
"""2 is click's for wrong usage."""

_Command = TypeVar("_Command", bound=Callable[..., None])


@dataclass(frozen=True, slots=True)
class _Sending:
    """Where events go, and what stands in every envelope."""

    bootstrap: str | None
    named_cluster: str | None
    source: str
    id: str | None
    time: datetime | None
    topic: str | None
    patience: timedelta
    dry_run: bool
    unlisted: bool

    def build(self, kind: str, fields: Mapping[str, object]) -> Event:
        """An event of one signal; ends with 3 when it is none."""
        from producers.errors import EventRefused
        from producers.publish import build_event, build_signal

        try:
            event = build_event(
                build_signal(kind, fields),
                cluster=self.cluster,
                source=self.source,
                id=self.id,
                time=self.time,
            )
        except EventRefused as refused:
            click.echo(str(refused), err=True)
            raise SystemExit(INVALID) from None
        wrong = self.misnamed(event)
        if wrong is not None:
            click.echo(wrong, err=True)
            raise SystemExit(INVALID)
        return event

    def misnamed(self, event: Event) -> str | None:
        """What is wrong with the name the event goes by, unless whoever sends it answers for it."""
        from relight.listed_names import unlisted

        return None if self.unlisted else unlisted(event.data)

    @property
    def cluster(self) -> str:
        """Id of the cluster, from the flag or the settings."""
        named = self.named_cluster or self._settings().cluster
        if named is None:
            raise click.UsageError("no cluster is known: give --cluster or set RELIGHT_CLUSTER")
        return named

    def _settings(self) -> Settings:
        from runtime.errors import SettingsConflict
        from runtime.settings import Settings, read_settings

        given: dict[str, object] = {} if self.bootstrap is None else {"kafka": {"bootstrap": self.bootstrap}}
        try:
            return read_settings(Settings, **given)
        except SettingsConflict as conflict:
            raise click.UsageError(str(conflict)) from None

    def send(self, events: list[Event]) -> None:
        """Send, tell what became of each, and end with 1 unless all are confirmed."""
        from producers.errors import DeliveryFailed
        from producers.publish import EventPublisher
        from runtime.errors import BrokerError
        from runtime.kafka import KafkaClients
        from schemas.envelope import encode
        from schemas.topics import EXTERNAL_SIGNALS

        if self.dry_run:
            for event in events:
                click.echo(encode(event))
            return
        settings = self._settings()
        clients = KafkaClients(settings.kafka, "relight-publish")
        try:
            there = clients.reach(min(self.patience, timedelta(seconds=10)))
        except BrokerError as error:
            click.echo(str(error), err=True)
            raise SystemExit(NOT_CONFIRMED) from None
        topic = settings.topic(self.topic or EXTERNAL_SIGNALS.name)
        if topic not in there:
            click.echo(
                f"topic {topic} is not at {settings.kafka.bootstrap}; right would be one of `relight topics create`",
                err=True,
            )
            raise SystemExit(NOT_CONFIRMED)
        publisher = EventPublisher(
            clients.bounded_producer(self.patience),
            cluster=self.cluster,
            source=self.source,
            topic=topic,
            patience=self.patience,
        )
        with publisher:
            results = publisher.send(events)
        failed = [result for result in results if isinstance(result, DeliveryFailed)]
        for result in results:
            if not isinstance(result, DeliveryFailed):
                click.echo(f"{result.event.id} {result.topic} {result.partition} {result.offset}")
        for failure in failed:
            click.echo(str(failure), err=True)
        if failed:
            raise SystemExit(NOT_CONFIRMED)


def _moment(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    del context, parameter
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no time; right would be 2026-03-01T12:00:00Z") from None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _pairs(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _places(command: _Command) -> _Command:
    """Flags that say where it was seen and what ran there."""
    options = [
        click.option("--node-uid", help="UID of the node: its identity."),
        click.option("--node", "node_name", help="Name of the node. Alone it serves as the identity too."),
        click.option("--run", help="Id of the run that was there."),
        click.option("--pod-uid", help="UID of the run's pod that was there."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _place(values: Mapping[str, object]) -> dict[str, object]:
    uid, name = values["node_uid"], values["node_name"]
    node = _pairs(uid=uid or name, name=name or uid)
    placement = _pairs(run=values["run"], pod_uid=values["pod_uid"])
    return _pairs(node=node or None, placement=placement or None)


def _named(values: Mapping[str, object], *names: str) -> dict[str, object]:
    return _pairs(**{name: values[name] for name in names})


@click.group(invoke_without_command=True)
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="JSON lines, one event each; - is standard input. All are checked before one is sent.",
)
@click.option("--bootstrap", help="Broker, host:port; RELIGHT_KAFKA__BOOTSTRAP otherwise.")
@click.option("--cluster", help="Id of the cluster; RELIGHT_CLUSTER otherwise.")
@click.option(
    "--source", default="/relight/publish", show_default=True, help="Who says so; rate caps are per source."
)
@click.option("--id", "id", help="Identity of the event: the same again is counted once. Random otherwise.")
@click.option(
    "--time", callback=_moment, help="When it happened (ISO 8601; without a zone it is UTC). Now otherwise."
)
@click.option(
    "--topic", help="Another topic than external-signals.v1, for relight's own parts; needs the rights."
)
@click.option(
    "--patience", type=click.FloatRange(0.1, 600), default=30, show_default=True, help="Seconds to wait."
)
@click.option("--dry-run", is_flag=True, help="Check and print the events; send nothing.")
@click.option(
    "--unlisted",
    is_flag=True,
    help="Send conditions and code tables that the default rulebook does not have: those of your own overlay.",
)
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    file: Path | None,
    bootstrap: str | None,
    cluster: str | None,
    source: str,
    id: str | None,  # noqa: A002 - the CloudEvents attribute's own name
    time: datetime | None,
    topic: str | None,
    patience: float,
    **flags: bool,
) -> None:
    """Publish signals to external-signals.v1. Prints id, topic, partition and offset of each that the broker has confirmed.

    A condition or code table that the default rulebook does not have is refused, since no rule would look at it.

    Ends with 0 when all are confirmed, 1 when one is not (send it again with the same id), 2 for wrong usage, 3 when an event is not valid (then
    nothing was sent).
    """
    sending = _Sending(bootstrap, cluster, source, id, time, topic, timedelta(seconds=patience), **flags)
    context.obj = sending
    if context.invoked_subcommand is not None:
        if file is not None:
            raise click.UsageError("give --file or a kind of signal, not both")
        return
    if file is None:
        raise click.UsageError("nothing to publish: give --file or a kind of signal (see --help)")
    if id is not None or time is not None:
        raise click.UsageError("--id and --time are of one event; in a file each line has its own")
    with click.open_file(str(file), encoding="utf-8") as lines:
        events = _read(lines, str(file), sending)
    sending.send(events)


def _read(lines: Iterable[str], name: str, sending: _Sending) -> list[Event]:
    from producers.errors import EventRefused
    from producers.publish import read_lines

    events, refused = [], 0
    facts = sending.topic is not None
    for number, read in read_lines(lines, cluster=sending.cluster, source=sending.source, facts=facts):
        wrong = str(read) if isinstance(read, EventRefused) else sending.misnamed(read)
        if wrong is not None:
            refused += 1
            click.echo(f"{name}:{number}: {wrong}", err=True)
        elif not isinstance(read, EventRefused):
            events.append(read)
    if refused:
        click.echo(
            f"{refused} of {counted(refused + len(events), 'event')} {agreeing(refused, 'is', 'are')} not valid; nothing was sent",
            err=True,
        )
        raise SystemExit(INVALID)
    return events


@command.command("chip-fault")
@_places
@click.option("--chip", required=True, help="Serial or UUID of the chip, or index:<n>.")
@click.option("--bus", help="PCI bus of the chip.")
@click.option("--index", type=click.IntRange(0), help="Index of the chip on its node.")
@click.option(
    "--namespace", required=True, help="Code table: ascend, xid, sxid, dcgm; a site's own with --unlisted."
)
@click.option("--code", required=True, help="Code as that table writes it.")
@click.option(
    "--state", type=click.Choice(["asserted", "cleared", "once"]), default="once", show_default=True
)
@click.option("--severity", type=click.Choice(["notice", "minor", "major", "critical"]))
@click.option("--product", help="Product of the chip.")
@click.option("--detail", help="The line or value it was read from.")
@click.pass_obj
def chip_fault(sending: _Sending, /, **values: object) -> None:
    """Publish a chip fault."""
    chip = _pairs(id=values["chip"], bus=values["bus"], index=values["index"])
    named = _named(values, "namespace", "code", "state", "severity", "product", "detail")
    fields = {**_place(values), "chip": chip, **named}
    sending.send([sending.build("chip_fault", fields)])


@command.command("node-condition")
@_places
@click.option("--condition", required=True, help="Row of the node conditions table, such as not-ready.")
@click.option(
    "--state", type=click.Choice(["asserted", "cleared", "once"]), default="asserted", show_default=True
)
@click.option("--severity", type=click.Choice(["notice", "minor", "major", "critical"]))
@click.option("--detail", help="What was seen.")
@click.pass_obj
def node_condition(sending: _Sending, /, **values: object) -> None:
    """Publish that a condition of a node began or ended."""
    fields = {**_place(values), **_named(values, "condition", "state", "severity", "detail")}
    sending.send([sending.build("node_condition", fields)])


@command.command("preemption-notice")
@_places
@click.option("--deadline", required=True, callback=_moment, help="When it is taken away (ISO 8601).")
@click.option("--by", type=click.Choice(["cloud", "scheduler", "queue"]), default="cloud", show_default=True)
@click.pass_obj
def preemption_notice(sending: _Sending, /, **values: object) -> None:
    """Publish that a node or pod will be taken away at a known time."""
    fields = {**_place(values), **_named(values, "deadline", "by")}
    sending.send([sending.build("preemption_notice", fields)])
