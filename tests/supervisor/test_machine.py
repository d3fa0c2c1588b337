"""Laws of the supervisor's machine, over any sequence of events."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor import machine
from supervisor.machine import (
    Action,
    Asked,
    Checked,
    ChildExit,
    Extend,
    GroupGone,
    Order,
    State,
    Terminate,
    Tick,
)

ORDERS = st.builds(
    Order,
    epoch=st.integers(0, 2),
    attempt=st.integers(0, 2),
    state=st.sampled_from(["stop", "run", "release"]),
    until=st.floats(0, 500),
    otherwise=st.sampled_from(["rerun", "exit"]),
    grace=st.floats(0, 30),
    reset=st.booleans(),
)
EVENTS = st.lists(
    st.tuples(
        st.one_of(
            ORDERS,
            st.builds(ChildExit, st.integers(-15, 3)),
            st.just(GroupGone()),
            st.builds(Extend, st.floats(0, 5000)),
            st.builds(Checked, st.booleans()),
            st.builds(Asked, st.floats(0, 500)),
            st.just(Terminate()),
            st.just(Tick()),
        ),
        st.floats(0, 60),
    ),
    max_size=30,
)


class World:
    """The machine with a model of the child: an event that cannot happen does not."""

    def __init__(self, *, high_availability: bool = True, check: bool = False, wait: bool = False) -> None:
        self.now = 0.0
        self.leader = self.group = False
        self.ended: int | None = None
        self.codes: list[int] = []
        self.starts: list[int] = []
        self.refused = 0
        self.state = State(high_availability=high_availability)
        self.state, actions = machine.begin(self.state, 0.0, check=check, wait=wait)
        self.do(actions)

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            if action.do == "start":
                assert not self.leader, "two children"
                assert not self.group, "a second child beside what is left of the first"
                assert self.ended is None, "a start after the end"
                self.leader = self.group = True
                self.starts.append(action.value)
            self.refused += action.do == "refuse"
            if action.do == "exit":
                self.ended = action.value

    def tell(self, event: machine.Event) -> None:
        if isinstance(event, ChildExit):
            if not self.leader:
                return
            self.leader = False
            self.codes.append(event.code)
        if isinstance(event, GroupGone):
            if self.leader or not self.group:
                return
            self.group = False
        self.state, actions = machine.decide(self.state, event, self.now)
        self.do(actions)


def lived(events: list[tuple[machine.Event, float]], **beginning: bool) -> World:
    world = World(**beginning)
    for event, later in events:
        world.now += later
        if world.ended is None:
            world.tell(event)
    return world


BEGINNINGS = st.sampled_from([{}, {"check": True}, {"wait": True}, {"high_availability": False}])


@given(EVENTS, BEGINNINGS)
def test_two_children_never_live_at_once(
    events: list[tuple[machine.Event, float]], beginning: dict[str, bool]
) -> None:
    lived(events, **beginning)  # the world asserts it at every start


@given(EVENTS, BEGINNINGS)
def test_silence_leads_to_an_end_or_a_running_command(
    events: list[tuple[machine.Event, float]], beginning: dict[str, bool]
) -> None:
    world = lived(events, **beginning)
    for _ in range(20000):
        at = machine.next_time(world.state)
        if world.ended is not None or at is None:
            break
        world.now = max(world.now, at)
        world.tell(Tick())
    assert world.ended is not None or world.state.phase == machine.RUNNING


@given(EVENTS, BEGINNINGS)
def test_the_code_at_the_end_is_the_commands_own(
    events: list[tuple[machine.Event, float]], beginning: dict[str, bool]
) -> None:
    world = lived(events, **beginning)
    if world.ended is not None and not world.leader and world.codes:
        assert world.ended == world.codes[-1]


@given(EVENTS, BEGINNINGS)
def test_success_is_said_only_of_a_command_that_succeeded(
    events: list[tuple[machine.Event, float]], beginning: dict[str, bool]
) -> None:
    world = lived(events, **beginning)
    if world.ended == 0:
        assert world.codes
        assert world.codes[-1] == 0


@given(EVENTS, ORDERS)
def test_an_older_order_changes_nothing(events: list[tuple[machine.Event, float]], order: Order) -> None:
    world = lived(events)
    if world.ended is not None or world.state.last is None or order.rank() >= world.state.last:
        return
    state, actions = machine.decide(world.state, order, world.now)
    assert state == world.state
    assert [action.do for action in actions] == ["refuse"]


@given(EVENTS, ORDERS)
def test_the_same_order_twice_does_nothing_twice(
    events: list[tuple[machine.Event, float]], order: Order
) -> None:
    world = lived(events)
    if world.ended is not None:
        return
    once, _ = machine.decide(world.state, order, world.now)
    twice, actions = machine.decide(once, order, world.now)
    assert {action.do for action in actions} <= {"answer", "refuse"}
    assert replace(twice, order=None, deadline=0) == replace(once, order=None, deadline=0)


@given(st.lists(st.floats(0, 1e6), max_size=10))
def test_no_word_holds_an_exit_longer_than_fifteen_minutes(untils: list[float]) -> None:
    world = lived([(ChildExit(1), 0.0), *((Extend(until), 1.0) for until in untils)])
    at = machine.next_time(world.state)
    assert at is not None
    assert at <= machine.LONGEST_HOLD


def test_without_ha_the_exit_is_at_once() -> None:
    assert lived([(ChildExit(7), 1.0)], high_availability=False).ended == 7


def test_what_was_told_to_end_before_its_first_start_did_not_succeed() -> None:
    for beginning in ({"check": True}, {"wait": True}):
        assert lived([(Terminate(), 1.0)], **beginning).ended == -15
    stopped: list[tuple[machine.Event, float]] = [(Order(1, 1, "stop", until=99), 1.0), (Terminate(), 1.0)]
    assert lived(stopped, wait=True).ended == -15


def test_a_check_that_never_ends_lets_the_command_start_at_its_deadline() -> None:
    world = World(check=True)
    assert machine.next_time(world.state) == world.state.check_wait
    world.now = world.state.check_wait
    world.tell(Tick())

    assert world.starts == [0]


def test_the_agents_word_during_the_check_holds_the_start_that_follows() -> None:
    world = lived([(Extend(60.0), 1.0), (Checked(passed=True), 1.0)], check=True)
    assert (world.state.phase, machine.next_time(world.state)) == (machine.WAITING, 60.0)
    world.tell(Order(1, 1, "run"))

    assert world.starts == [0]


def test_a_failed_check_starts_nothing_even_if_the_agent_asked_to_wait() -> None:
    world = lived([(Extend(60.0), 1.0), (Checked(passed=False), 1.0)], check=True)

    assert (world.state.phase, world.starts) == (machine.HELD, [])


def test_a_wait_ends_at_most_fifteen_minutes_after_it_began_whatever_is_said() -> None:
    world = lived([(Extend(1e6), 1.0), (Extend(1e6), 100.0)], wait=True)

    assert machine.next_time(world.state) == machine.LONGEST_HOLD


def test_a_reset_goes_with_its_run_through_a_stop_that_is_not_complete() -> None:
    stop, run = Order(1, 1, "stop", until=99), Order(1, 1, "run", reset=True)
    world = lived([(stop, 1.0), (run, 1.0), (ChildExit(-15), 1.0), (GroupGone(), 0.0)])

    assert world.starts == [0, 1]


def test_a_reset_told_to_a_running_command_does_not_hit_a_later_start() -> None:
    stop = Order(1, 2, "stop", until=9, otherwise="rerun")
    world = lived(
        [
            (Order(1, 1, "run", reset=True), 1.0),
            (stop, 1.0),
            (ChildExit(-15), 1.0),
            (GroupGone(), 0.0),
            (Tick(), 99.0),
        ]
    )

    assert world.starts == [0, 0]


def test_no_order_moves_a_supervisor_without_ha_or_after_a_release() -> None:
    for events in ([], [(Order(1, 1, "release"), 1.0)]):
        world = lived([*events, (Order(1, 2, "stop", until=99), 1.0)], high_availability=bool(events))
        assert (world.state.phase, world.refused) == (machine.RUNNING, 1)


def test_a_stop_that_even_kill_does_not_finish_ends_the_container() -> None:
    world = lived([(Order(1, 1, "stop", until=60), 0.0)])
    ticks = 0
    while world.ended is None:
        at = machine.next_time(world.state)
        assert at is not None
        world.now = max(world.now, at)
        world.tell(Tick())
        ticks += 1

    assert (world.ended, world.now) == (-9, 60 + world.state.verdict_wait)
    assert ticks < 200


def test_a_start_the_agent_was_asked_about_waits_for_its_word_and_no_longer_than_was_said() -> None:
    world = lived([(Asked(3.0), 0.0), (Checked(passed=True), 1.0)], check=True)
    assert (world.state.phase, machine.next_time(world.state), world.starts) == (machine.WAITING, 3.0, [])
    world.now = 3.0
    world.tell(Tick())

    assert world.starts == [0]


def test_the_agents_word_that_nothing_is_to_be_waited_for_lets_it_start_at_once() -> None:
    during = lived([(Asked(3.0), 0.0), (Extend(0.5), 0.6), (Checked(passed=True), 0.1)], check=True)
    after = lived(
        [(Asked(3.0), 0.0), (Checked(passed=True), 0.1), (Extend(0.2), 0.2), (Tick(), 0.0)], check=True
    )

    assert during.starts == after.starts == [0]


def test_the_agents_word_that_a_pod_is_a_replacement_holds_it_until_an_order_or_the_time_that_was_said() -> (
    None
):
    events: list[tuple[machine.Event, float]] = [
        (Asked(3.0), 0.0),
        (Checked(passed=True), 0.1),
        (Extend(120.0), 0.2),
    ]
    world = lived([*events, (Tick(), 100.0)], check=True)
    assert (world.state.phase, world.starts) == (machine.WAITING, [])
    world.tell(Order(1, 1, "stop", until=500.0))
    assert (world.state.phase, world.starts) == (machine.STOPPED, [])
    world.tell(Order(1, 1, "run"))
    assert world.starts == [0]

    assert lived([*events, (Tick(), 120.0)], check=True).starts == [0]


def test_an_order_is_the_answer_and_a_late_word_that_nothing_is_known_ends_no_hold_of_a_failed_check() -> (
    None
):
    ran = lived([(Asked(3.0), 0.0), (Order(1, 1, "run"), 0.1), (Checked(passed=True), 0.1)], check=True)
    assert ran.starts == [0]
    failed = lived(
        [(Asked(3.0), 0.0), (Checked(passed=False), 0.1), (Extend(0.1), 0.1), (Tick(), 1.0)], check=True
    )

    assert (failed.state.phase, failed.ended) == (machine.HELD, None)
