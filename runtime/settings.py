"""Settings of every process: one source for defaults, grouped by topic, read from the environment.

`RELIGHT_KAFKA__BOOTSTRAP=broker:9092` sets `Settings.kafka.bootstrap`; two underscores lead into a group. Durations are seconds or a number
with a unit (`500ms`, `5s`, `10m`, `24h`, `7d`). Guarantee: a process that started has settings that fit each other; a contradiction stops it
with a message that names both. Windows, leases and graces are all here, so that tests shorten them instead of waiting.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from runtime.errors import SettingsConflict

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*$")


def read_duration(value: object) -> object:
    """Turn `5s` into a timedelta; what is no text is left to pydantic."""
    if not isinstance(value, str):
        return value
    found = _DURATION.match(value)
    if found is None:
        raise ValueError(
            f"{value!r} is no duration; right would be seconds, or a number with ms, s, m, h or d"
        )
    return timedelta(seconds=float(found[1]) * _UNITS[found[2] or "s"])


Duration = Annotated[timedelta, BeforeValidator(read_duration), Field(gt=timedelta(0))]


class Group(BaseModel):
    """Base of groups: frozen, and a misspelt setting is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class KafkaSettings(Group):
    """How to reach the broker."""

    bootstrap: str = "127.0.0.1:9092"
    """`host:port`, several separated by commas. Default: a broker on this machine."""
    client: dict[str, str | int | float | bool] = {}
    """More settings of librdkafka for every client (TLS, SASL), by its own names. Off: empty, plain text."""
    replication_factor: Annotated[int, Field(ge=1)] = 3
    """Copies of each topic that `relight topics create` makes. 3 outlives one broker; 1 for a single broker."""
    min_insync_replicas: Annotated[int, Field(ge=1)] = 2
    """Copies that must confirm a write. 2 of 3: with 1 a fence means little, since a lost leader forgets it."""


class KubernetesSettings(Group):
    """How to reach the API server, and how hard to lean on it."""

    kubeconfig: Path | None = None
    """File with the way to the cluster. Unset: the pod's own service account, else the user's default file."""
    context: str | None = None
    """Context in that file. Unset: its current one."""
    timeout: Duration = timedelta(seconds=8)
    """One call. Below the 10 s no command outlasts (finding R29)."""
    watch: Duration = timedelta(seconds=60)
    """How long a watch stays open before it is opened again; a dead line is noticed so much later, plus `timeout`."""
    rate: Annotated[float, Field(gt=0)] = 100.0
    """Calls a second in the long run, watches not counted. 100: 1,250 desired-state patches in some 11 s (finding Q44)."""
    burst: Annotated[int, Field(ge=1)] = 200
    """Calls at once after a pause."""
    connections: Annotated[int, Field(ge=1)] = 16
    """Connections kept open."""


class TopicSettings(Group):
    """Names and sizes of topics."""

    prefix: str = ""
    """Put before every topic, group and transactional id. Off: empty, the live names. Replays need one."""
    partitions: Annotated[int, Field(ge=1, le=1000)] = 48
    """Partitions of every keyed topic; fixed for years, since keys move when it changes. 48 divides well among workers."""
    check_at_start: bool = True
    """A worker refuses to start on topics unlike the catalogue. Off only for brokers that cannot describe topics (stand-ins)."""
    patience: Duration = timedelta(seconds=60)
    """How long a start waits for the broker to describe its topics. One minute outlasts a rolling restart of brokers."""


class ConsumerSettings(Group):
    """Membership in the consumer group."""

    session_timeout: Duration = timedelta(seconds=10)
    """Silence after which the group gives a worker's partitions away. 10 s: what a killed worker costs, against false alarms."""
    heartbeat: Duration = timedelta(seconds=3)
    """Sign of life; a third of the session."""
    request_timeout: Duration = timedelta(seconds=20)
    """One request to the broker; must exceed the session timeout."""
    rebalance_timeout: Duration = timedelta(seconds=20)
    """How long members may take to join again; must exceed `revoke_grace`."""
    commit_interval: Duration = timedelta(seconds=1)
    """Between writes of confirmed positions to the group. For `recovery` a hint only, for the router what a restart repeats."""
    revoke_grace: Duration = timedelta(seconds=3)
    """How long a group of messages in flight may end when partitions are taken away; afterwards its outcome counts as unknown."""
    fenced_wait: Duration = timedelta(seconds=3)
    """After a fence, how long to wait for a rebalance before taking the partition up again."""
    stall_after: Duration = timedelta(seconds=2)
    """Something to read, nothing read, for so long: the watchdog seeks. Shorter gave false alarms, which are harmless."""
    stop_grace: Duration = timedelta(seconds=15)
    """After SIGTERM, how long a process may take to end in good order before it ends itself: a stop never needs the broker."""


class Clock(StrEnum):
    """What `arrival` and `now` are."""

    BROKER = "broker"
    """The broker's append time: the live setting."""
    EVENT = "event"
    """The event's own time, for replays of old traces (finding Q5)."""


class DeadLetterSettings(Group):
    """What cannot be handled keeps its bytes."""

    whole_up_to: Annotated[int, Field(ge=1024)] = 4_000_000
    """Bytes; above it a head and a hash are kept. 4 MB: what the inputs allow, half of what the dead-letter topic allows."""
    head: Annotated[int, Field(ge=0)] = 64 * 1024
    """Bytes kept of a larger one."""


class ObserveSettings(Group):
    """Logs, metrics, health."""

    log_level: str = "INFO"
    """Least severe level that is written: DEBUG, INFO, WARNING, ERROR."""
    host: str = "127.0.0.1"
    """Where metrics and health are served. Loopback: a scraper beside it, nobody else."""
    port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """Port of `/metrics` and `/healthz`; 0 takes a free one and logs it. Off: unset."""
    stand_still: Duration = timedelta(seconds=60)
    """Something to read and no position moved for so long: health goes red."""
    gap_shown: Duration = timedelta(minutes=10)
    """Messages were deleted unread: health stays red for so long, enough for a probe to see it. It is past, and no restart mends it."""
    loop_stuck: Duration = timedelta(seconds=10)
    """The event loop did not turn for so long: health goes red. As long as the session: the group gave up as well."""


class Settings(BaseSettings):
    """What every process needs; a room with settings of its own derives from this."""

    model_config = SettingsConfigDict(
        env_prefix="RELIGHT_",
        env_nested_delimiter="__",
        # One variable of a group leaves the others as this process has them, not as every process has them.
        nested_model_default_partial_update=True,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )

    cluster: str | None = None
    """Id of the cluster this pipeline serves; events of another one are dead-lettered. Off: unset, any is served."""
    clock: Clock = Clock.BROKER
    """`event` takes each event's own time as its arrival. Refused without `topics.prefix`: never on the live topics."""
    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    consumer: ConsumerSettings = ConsumerSettings()
    deadletters: DeadLetterSettings = DeadLetterSettings()
    observe: ObserveSettings = ObserveSettings()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.clock is Clock.EVENT and not self.topics.prefix:
            raise ValueError(
                "clock is 'event' and topics.prefix is empty: event time is for replays, never for the live topics; "
                "right would be a prefix such as 'replay.'"
            )
        consumer = self.consumer
        if consumer.request_timeout <= consumer.session_timeout:
            raise ValueError(
                f"consumer.request_timeout ({consumer.request_timeout}) must exceed "
                f"consumer.session_timeout ({consumer.session_timeout})"
            )
        if consumer.rebalance_timeout <= consumer.revoke_grace:
            raise ValueError(
                f"consumer.rebalance_timeout ({consumer.rebalance_timeout}) must exceed "
                f"consumer.revoke_grace ({consumer.revoke_grace})"
            )
        if self.kafka.min_insync_replicas > self.kafka.replication_factor:
            raise ValueError(
                f"kafka.min_insync_replicas ({self.kafka.min_insync_replicas}) exceeds "
                f"kafka.replication_factor ({self.kafka.replication_factor}): nothing could be written"
            )
        return self

    def topic(self, name: str) -> str:
        """Name of a catalogue topic in the broker."""
        return f"{self.topics.prefix}{name}"

    def identity(self, name: str) -> str:
        """Group or transactional id, apart for each prefix."""
        return f"{self.topics.prefix}relight-{name}"


_S = TypeVar("_S", bound=Settings)


def read_settings(kind: type[_S], **given: object) -> _S:
    """Read settings from the environment; `given` wins over it.

    Raises SettingsConflict with one line for each fault, by the name of the variable.
    """
    try:
        return kind.model_validate(given) if given else kind()
    except ValidationError as error:
        lines = [
            f"{_variable(fault['loc'])}: {fault['msg']} (got {fault['input']!r:.100})"
            for fault in error.errors()
        ]
        raise SettingsConflict("\n".join(lines)) from None


def _variable(place: tuple[str | int, ...]) -> str:
    return "RELIGHT_" + "__".join(str(part) for part in place).upper() if place else "settings"
