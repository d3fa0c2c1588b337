"""Laws of the supervisor's machine, over any sequence of events."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor import machine
from supervisor.machine import Action, ChildExit, Extend, GroupGone, Order, State, Terminate, Tick

ORDERS = st.builds(
    Order,
    epoch=st.integers(0, 2),
    attempt=st.integers(0, 2),
    state=st.sampled_from(["stop", "run", "release"]),
    until=st.floats(0, 500),
    otherwise=st.sampled_from(["rerun", "exit"]),
    grace=st.floats(0, 30),
)
EVENTS = st.lists(
    st.tuples(
        st.one_of(
            ORDERS,
            st.builds(ChildExit, st.integers(-15, 3)),
            st.just(GroupGone()),
            st.builds(Extend, st.floats(0, 5000)),
            st.just(Terminate()),
            st.just(Tick()),
        ),
        st.floats(0, 60),
    ),
    max_size=30,
)


class World:
    """The machine with a model of the child: an event that cannot happen does not."""

    def __init__(self, high_availability: bool) -> None:
        self.now = 0.0
        self.leader = self.group = False
        self.ended: int | None = None
        self.codes: list[int] = []
        self.state = State(high_availability=high_availability)
        self.state, actions = machine.begin(self.state, 0.0, check=False, wait=False)
        self.do(actions)

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            if action.do == "start":
                assert not self.leader, "two children"
                assert not self.group, "a second child beside what is left of the first"
                self.leader = self.group = True
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


def lived(events: list[tuple[machine.Event, float]], *, high_availability: bool = True) -> World:
    world = World(high_availability)
    for event, later in events:
        world.now += later
        if world.ended is None:
            world.tell(event)
    return world


@given(EVENTS)
def test_two_children_never_live_at_once(events: list[tuple[machine.Event, float]]) -> None:
    lived(events)  # the world asserts it at every start


@given(EVENTS)
def test_silence_after_the_command_ended_leads_to_an_end_or_a_running_command(
    events: list[tuple[machine.Event, float]],
) -> None:
    world = lived(events)
    for _ in range(20000):
        at = machine.next_time(world.state)
        if world.ended is not None or at is None:
            break
        world.now = max(world.now, at)
        world.tell(Tick())
    assert world.ended is not None or world.state.phase == machine.RUNNING


@given(EVENTS)
def test_the_code_at_the_end_is_one_the_command_ended_with(events: list[tuple[machine.Event, float]]) -> None:
    world = lived(events)
    if world.ended is not None and world.codes:
        assert world.ended == world.codes[-1] or world.ended == -9


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
