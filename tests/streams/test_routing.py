"""The router sends what it should where it should, and nothing else anywhere but to the dead letters."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from runtime.settings import TopicSettings
from schemas.catalogue import PAYLOADS
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.envelope import Event, Origin, Payload, TimeQuality, Trust, decode, encode, make_event
from schemas.facts import (
    FACTS,
    IssueState,
    NodeGone,
    NodeSeen,
    PodBound,
    PodEnded,
    RunEnded,
    RunSeen,
    WorkloadKind,
)
from schemas.ids import mailbox_key
from schemas.mailbox import MAILBOX, ReleaseNodeOrder, Tick
from schemas.signals import (
    SIGNALS,
    Checkpoint,
    CheckpointTier,
    ChipFault,
    ChipRef,
    Eviction,
    EvictionReason,
    FaultState,
    HangEvidence,
    Heartbeat,
    Milestone,
    MilestoneName,
    NodeCondition,
    NodeRef,
    Placement,
    PreCheckItem,
    PreemptionNotice,
    ProcessExit,
    ProcessState,
    ProcessStateName,
    Progress,
    RepairResult,
    SignalGap,
)
from streams.dead_letters import DeadLetters, Reason
from streams.route import mailboxes
from streams.routing import Routing
from streams.settings import RouterSettings, StreamSettings
from tests.streams.bench import headers_of
from tests.streams.fakes import START, FakeMessage

NODE = NodeRef(uid="u-1", name="node-1")
PLACED = Placement(run="r-1", pod_uid="p-1")
CHIP = ChipRef(id="chip")
RUN_BOX, NODE_BOX = "run/r-1", "node/u-1"

CHIP_FAULT = ChipFault(
    node=NODE, placement=PLACED, chip=CHIP, namespace="xid", code="79", state=FaultState.ONCE
)
EXIT = ProcessExit(placement=PLACED, start=1, exit_code=1, node=NODE)
CONDITION = NodeCondition(node=NODE, placement=PLACED, condition="not-ready", state=FaultState.ASSERTED)
RUN_SEEN = RunSeen(
    run="r-1",
    workload=WorkloadKind.JOB,
    namespace="ns",
    name="job",
    object_uid="o",
    epoch=1,
    size=2,
    supervised=True,
)

ROUTES: list[tuple[Payload, list[str]]] = [
    (CHIP_FAULT, [RUN_BOX, NODE_BOX]),
    (CHIP_FAULT.model_copy(update={"placement": None}), [NODE_BOX]),
    (EXIT, [RUN_BOX, NODE_BOX]),
    (EXIT.model_copy(update={"node": None}), [RUN_BOX]),
    (CONDITION, [NODE_BOX]),
    (Heartbeat(node=NODE, placement=PLACED, boot_id="b", started_at=START), [NODE_BOX]),
    (SignalGap(node=NODE, lost_class="fault", reason="full"), [NODE_BOX]),
    (RepairResult(node=NODE, unit="u", incident="i", attempt=0, result="healed"), [NODE_BOX]),
    (Progress(placement=PLACED, node=NODE, step=3), [RUN_BOX]),
    (ProcessState(placement=PLACED, epoch=1, attempt=0, state=ProcessStateName.RUNNING), [RUN_BOX]),
    (HangEvidence(placement=PLACED, state="stalled", method="m", last_progress=START), [RUN_BOX]),
    (PreCheckItem(node=NODE, placement=PLACED, item="dns", result="passed", duration_seconds=1), [RUN_BOX]),
    (
        Checkpoint(placement=PLACED, edge="begin", step=1, tier=CheckpointTier.LOCAL, path="/c"),
        [RUN_BOX],
    ),
    (Milestone(placement=PLACED, name=MilestoneName.FIRST_STEP), [RUN_BOX]),
    (Eviction(node=NODE, placement=PLACED, reason=EvictionReason.KUBELET), [RUN_BOX]),
    (PreemptionNotice(placement=PLACED, node=NODE, deadline=START, by="cloud"), [RUN_BOX]),
    (PreemptionNotice(node=NODE, deadline=START, by="cloud"), [NODE_BOX]),
    (PreemptionNotice(deadline=START, by="cloud"), []),
    (RUN_SEEN, [RUN_BOX]),
    (RunEnded(run="r-1", object_uid="o", how="failed"), [RUN_BOX]),
    (IssueState(run="r-1", epoch=1, state="complete"), [RUN_BOX]),
    (PodBound(node=NODE, placement=PLACED), [RUN_BOX, NODE_BOX]),
    (PodEnded(node=NODE, placement=PLACED, how="failed"), [RUN_BOX, NODE_BOX]),
    (NodeSeen(node=NODE, ready=True), [NODE_BOX]),
    (NodeGone(node=NODE), [NODE_BOX]),
    (Tick(cell="c", due=START), []),
]


@pytest.mark.parametrize(("payload", "boxes"), ROUTES, ids=lambda value: getattr(value, "kind", ""))
def test_the_route(payload: Payload, boxes: list[str]) -> None:
    assert list(mailboxes(payload)) == boxes


def test_every_signal_and_fact_has_its_route_in_the_table_above() -> None:
    assert {type(payload) for payload, _ in ROUTES} >= {*SIGNALS, *FACTS}


# ---------------------------------------------------------------- one message


def routing(**changes: object) -> Routing:
    settings = StreamSettings(**changes)  # type: ignore[arg-type]
    return Routing(settings, DeadLetters("router", settings.deadletters, settings.topic))


def incoming(
    data: Payload,
    *,
    topic: str = "signals.v1",
    time: datetime = START,
    origin: Origin | None = None,
    source: str = "/agent",
    offset: int = 7,
    arrival: datetime = START,
    cluster: str = "c",
    trust: Trust = Trust.INTERNAL,
) -> FakeMessage:
    event = make_event(
        data,
        id="e",
        source=source,
        subject="whatever",
        time=time,
        cluster=cluster,
        origin=origin,
        trust=trust,
    )
    return FakeMessage(offset, encode(event), b"k", topic, 2, arrival.timestamp())


def events(message: FakeMessage, router: Routing | None = None) -> list[Event]:
    sends, reason = (router or routing()).route(message)
    assert reason is None
    return [decode(send.value) for send in sends]


def refused(message: FakeMessage, router: Routing | None = None) -> Reason | None:
    """Reason of the dead letter, None when the message was sent on."""
    sends, reason = (router or routing()).route(message)
    if reason is not None:
        (letter,) = sends
        assert letter.topic.endswith("deadletters.v1")
        assert letter.value == message.value
        assert headers_of(letter)["reason"] == reason.value
    return reason


def test_a_signal_is_rekeyed_by_the_subject_whatever_it_says_itself() -> None:
    sends, _ = routing().route(incoming(CHIP_FAULT))

    assert [send.key for send in sends] == [mailbox_key("c", RUN_BOX), mailbox_key("c", NODE_BOX)]
    assert [decode(send.value).subject for send in sends] == [RUN_BOX, NODE_BOX]
    assert {send.topic for send in sends} == {"inbox.v1"}


def test_nothing_but_the_stamps_is_changed() -> None:
    before = make_event(CHIP_FAULT, id="e", source="/agent", subject="whatever", time=START, cluster="c")
    (run, node) = events(incoming(CHIP_FAULT))

    assert run.data == node.data == CHIP_FAULT
    assert (run.id, run.source, run.time, run.timequality) == (
        before.id,
        before.source,
        START,
        before.timequality,
    )


def test_a_spools_origin_is_passed_through_to_every_mailbox() -> None:
    spool = Origin("agent:u-1:s", 0, 12, 0)

    assert {event.origin for event in events(incoming(CHIP_FAULT, origin=spool))} == {str(spool)}


@pytest.mark.parametrize("stage", ["router", "router-external", "recovery", "actuators"])
def test_an_origin_that_only_a_stage_may_carry_is_replaced(stage: str) -> None:
    forged = Origin(stage, 0, 10**12, 0)

    assert {event.origin for event in events(incoming(CHIP_FAULT, origin=forged))} == {"router/2/7/0"}


def test_a_signal_without_an_origin_gets_the_routers() -> None:
    assert events(incoming(CONDITION))[0].origin == "router/2/7/0"


# ---------------------------------------------------------------- who may say what


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.TYPE)
def test_agents_and_watcher_may_tell_what_they_saw_and_give_no_orders(payload: type[Payload]) -> None:
    kinds: dict[type[Payload], Payload] = {type(example): example for example, boxes in ROUTES if boxes}
    kinds |= {
        Command: command(),
        Outcome: Outcome(
            command="c", incident="i", attempt=0, step=StepName.NOTIFY, result=OutcomeResult.DONE
        ),
        ReleaseNodeOrder: ReleaseNodeOrder(by="me", reason="because"),
        Tick: Tick(cell="c", due=START),
    }
    if payload not in kinds:
        assert payload not in {*SIGNALS, *FACTS}
        return
    expected = None if payload in {*SIGNALS, *FACTS} else Reason.NOT_ACCEPTED

    assert refused(incoming(kinds[payload])) is expected


def command() -> Command:
    return Command(
        command="c",
        incident="i",
        attempt=0,
        step=StepName.ISOLATE_NODE,
        index=0,
        subject=NODE_BOX,
        deadline=START,
        not_after=START,
        reason="because",
        rulebook="none",
        trigger="t",
    )


def outside(data: Payload, **more: object) -> FakeMessage:
    return incoming(data, topic="external-signals.v1", **more)  # type: ignore[arg-type]


def test_trust_is_the_topics_and_not_the_messages() -> None:
    assert {event.trust for event in events(outside(CHIP_FAULT, trust=Trust.INTERNAL))} == {Trust.EXTERNAL}
    assert {event.trust for event in events(incoming(CHIP_FAULT, trust=Trust.EXTERNAL))} == {Trust.INTERNAL}


def test_an_origin_from_outside_is_never_believed() -> None:
    assert (
        events(outside(CONDITION, origin=Origin("agent:u-1:s", 0, 5, 0)))[0].origin == "router-external/2/7/0"
    )


@pytest.mark.parametrize(
    "data",
    [RUN_SEEN, EXIT, NodeSeen(node=NODE, ready=False), Heartbeat(node=NODE, boot_id="b", started_at=START)],
)
def test_outsiders_may_give_evidence_and_state_no_facts(data: Payload) -> None:
    assert refused(outside(data)) is Reason.NOT_ACCEPTED
    assert refused(outside(CHIP_FAULT)) is None


@pytest.mark.parametrize("kind", [*FACTS, *MAILBOX, Command, Outcome])
def test_no_setting_lets_orders_in_from_outside(kind: type[Payload]) -> None:
    every_type = RouterSettings(external_types=frozenset(payload.TYPE for payload in PAYLOADS))
    if kind in FACTS:
        return  # a site may choose to believe somebody's facts
    data = {Command: command(), Tick: Tick(cell="c", due=START)}.get(kind)
    if data is not None:
        assert refused(outside(data), routing(router=every_type)) is Reason.NOT_ACCEPTED


def test_an_empty_allow_list_closes_the_external_topic() -> None:
    closed = RouterSettings(external_types=frozenset())

    assert refused(outside(CHIP_FAULT), routing(router=closed)) is Reason.NOT_ACCEPTED


def test_a_source_that_speaks_too_fast_is_capped_and_others_are_heard() -> None:
    router = routing(router=RouterSettings(external_per_source=1, external_burst=3, external_total=1000))
    loud = [refused(outside(CONDITION, source="/loud"), router) for _ in range(5)]

    assert loud == [None, None, None, Reason.RATE_CAPPED, Reason.RATE_CAPPED]
    assert refused(outside(CONDITION, source="/quiet"), router) is None
    later = START + timedelta(seconds=1)
    assert refused(outside(CONDITION, source="/loud", time=later, arrival=later), router) is None


def test_our_own_are_never_capped() -> None:
    router = routing(router=RouterSettings(external_per_source=1, external_burst=1, external_total=1))

    assert {refused(incoming(CONDITION), router) for _ in range(50)} == {None}


def test_a_signal_that_names_nobody_has_no_mailbox() -> None:
    assert refused(incoming(PreemptionNotice(deadline=START, by="cloud"))) is Reason.NO_SUBJECT


def test_another_clusters_events_are_refused_where_one_cluster_is_served() -> None:
    assert refused(incoming(CONDITION, cluster="other"), routing(cluster="mine")) is Reason.FOREIGN_CLUSTER
    assert refused(incoming(CONDITION, cluster="mine"), routing(cluster="mine")) is None
    assert refused(incoming(CONDITION, cluster="other")) is None


# ---------------------------------------------------------------- time

AHEAD, OLDEST, NONSENSE = timedelta(minutes=5), timedelta(hours=24), timedelta(hours=24)
TICK = timedelta(microseconds=1)


@pytest.mark.parametrize("off", [timedelta(0), AHEAD, -OLDEST])
def test_a_plausible_time_is_left_alone(off: timedelta) -> None:
    (event,) = events(incoming(CONDITION, time=START + off))

    assert (event.time, event.timequality) == (START + off, TimeQuality.UNKNOWN)


@pytest.mark.parametrize("off", [AHEAD + TICK, NONSENSE, -OLDEST - TICK, timedelta(days=-3000)])
def test_an_implausible_time_is_replaced_by_the_arrival_and_flagged(off: timedelta) -> None:
    (event,) = events(incoming(CONDITION, time=START + off))

    assert (event.time, event.timequality) == (START, TimeQuality.CLAMPED)


@pytest.mark.parametrize(
    "time", [START + NONSENSE + TICK, datetime(2099, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
)
def test_a_time_of_another_century_is_no_event(time: datetime) -> None:
    assert refused(incoming(CONDITION, time=time)) is Reason.NONSENSE_TIME


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_the_ends_of_the_calendar_do_not_raise(time: str) -> None:
    raw = json.loads(incoming(CONDITION).value or b"") | {"time": time}
    sends, _ = routing().route(FakeMessage(0, json.dumps(raw).encode(), b"k", "signals.v1"))

    assert len(sends) == 1


@pytest.mark.parametrize("time", [START - timedelta(days=3000), START + timedelta(days=3000)])
def test_a_replay_is_taken_at_its_own_word(time: datetime) -> None:
    replay = routing(clock="event", topics=TopicSettings(prefix="replay."))

    (event,) = events(incoming(CONDITION, topic="replay.signals.v1", time=time), replay)

    assert (event.time, event.timequality) == (time, TimeQuality.UNKNOWN)


# ---------------------------------------------------------------- what is no event


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _: None, Reason.EMPTY),
        (lambda _: b"\x80", Reason.UNREADABLE),
        (lambda raw: raw[:-2], Reason.UNREADABLE),
        (lambda raw: raw.replace(b".v1", b".v2"), Reason.UNKNOWN_TYPE),
        (lambda raw: raw + b" " * 1_000_000, Reason.OVERSIZED),
    ],
)
def test_bytes_that_are_no_event_keep_their_bytes(
    make: Callable[[bytes], bytes | None], reason: Reason
) -> None:
    raw = make(incoming(CONDITION).value or b"")
    sends, said = routing().route(FakeMessage(3, raw, b"k", "signals.v1", 1))

    assert said is reason
    (letter,) = sends
    assert letter.value == (raw or b"")
    told = headers_of(letter)
    assert (told["topic"], told["partition"], told["offset"], told["stage"]) == (
        "signals.v1",
        "1",
        "3",
        "router",
    )
    assert told["time"] == START.isoformat()
