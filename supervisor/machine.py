"""What the supervisor does next, as one pure function.

Guarantees: at most one child, never a second while a process of the first lives; silence alone always leads to an end; an order below
the last one obeyed has no effect; the code the container ends with is the command's own. Times are seconds of one monotonic clock, given in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List, Tuple, Union

CHECKING, WAITING, RUNNING, STOPPING, STOPPED, HELD, ENDING, DONE = (
    "checking", "waiting", "running", "stopping", "stopped", "held", "ending", "done",
)  # fmt: skip
STOP, RUN, RELEASE = "stop", "run", "release"
RERUN, EXIT = "rerun", "exit"
TERM, KILL = 15, 9
LONGEST_HOLD = 900.0  # seconds: the agent's word extends a hold to this, no further
LONGEST_ORDER = 4 * 3600.0  # seconds: no stop lasts longer than this without being renewed
KILL_AGAIN = 1.0  # seconds between two KILLs to what does not die


@dataclass(frozen=True)
class Order:
    """What the agent wants; `until` is already on the machine's clock."""

    epoch: int
    attempt: int
    state: str
    until: float = 0.0
    otherwise: str = EXIT
    grace: float = 30.0
    reset: bool = False  # a run that counts starts from 1 again

    def rank(self) -> tuple[int, int, int]:
        """Within one attempt stop comes before run, and release is last: a late stop cannot undo a run."""
        return (self.epoch, self.attempt, (STOP, RUN, RELEASE).index(self.state))


@dataclass(frozen=True)
class Checked:
    """The pre-check ended."""

    passed: bool


@dataclass(frozen=True)
class ChildExit:
    """The command ended: its code, or minus the signal."""

    code: int


@dataclass(frozen=True)
class GroupGone:
    """No process of the group and no descendant lives."""


@dataclass(frozen=True)
class Extend:
    """The agent's word that an answer will come."""

    until: float


@dataclass(frozen=True)
class Asked:
    """The agent was asked whether a pod that has started nothing yet may start; it answers with an `Extend`, by then or never."""

    until: float


@dataclass(frozen=True)
class Terminate:
    """The kubelet ends the container."""

    signum: int = TERM


@dataclass(frozen=True)
class Tick:
    """Time passed."""


Event = Union[Order, Checked, ChildExit, GroupGone, Extend, Asked, Terminate, Tick]


@dataclass(frozen=True)
class Action:
    """An effect: start | signal | exit | answer | refuse.

    `value` is a signal, a code, or for a start 1 when it counts from 1 again; `text` says why.
    """

    do: str
    value: int = 0
    text: str = ""


Step = Tuple["State", List[Action]]


@dataclass(frozen=True)
class State:
    """Everything a decision leans on."""

    phase: str = RUNNING
    high_availability: bool = True
    verdict_wait: float = 120.0
    check_wait: float = 180.0
    pod_grace: float = 25.0
    last: tuple[int, int, int] | None = None
    order: Order | None = None
    code: int | None = None
    alive: bool = False  # a process of the child may live
    deadline: float = 0.0
    kill_at: float = 0.0
    held_since: float = 0.0
    wait_until: float = 0.0  # the agent's word during the pre-check: do not start before this
    unanswered: bool = False  # the agent was asked about the first start: its next word replaces `wait_until`
    want_run: bool = False
    reset: bool = False  # the start that is wanted counts from 1 again


def begin(state: State, now: float, *, check: bool, wait: bool) -> Step:
    """The first step: check, wait for the agent's word (this pod's epoch has started before), or start."""
    if state.high_availability and check:
        return replace(state, phase=CHECKING, deadline=now + state.check_wait), []
    if state.high_availability and wait:
        return _wait(state, now + state.verdict_wait, now)
    return _start(state)


def decide(state: State, event: Event, now: float) -> Step:  # noqa: PLR0911 - one guard a case
    """The next state and what to do."""
    if state.phase == DONE:
        return state, []
    if isinstance(event, Order):
        return _order(state, event, now)
    if isinstance(event, Checked):
        return _checked(state, event.passed, now)
    if isinstance(event, ChildExit):
        return _child_exit(state, event.code, now)
    if isinstance(event, GroupGone):
        return _group_gone(state, now)
    if isinstance(event, Extend):
        return _extend(state, event.until)
    if isinstance(event, Asked):
        return _asked(state, event.until)
    if isinstance(event, Terminate):
        return _terminate(state, event.signum, now)
    return _tick(state, now)


def next_time(state: State) -> float | None:
    """When time alone changes something; none while the command runs."""
    if state.phase in (CHECKING, WAITING, STOPPED, HELD):
        return state.deadline
    if state.phase in (STOPPING, ENDING):
        return min(state.kill_at, state.deadline)
    return None


def _start(state: State, *, reset: bool = False) -> Step:
    running = replace(
        state, phase=RUNNING, alive=True, code=None, want_run=False, reset=False, unanswered=False
    )
    return running, [Action("start", int(reset))]


def _end(state: State, code: int | None) -> Step:
    # Without a code the command never ended by itself: never a 0, which would say that it succeeded.
    return replace(state, phase=DONE), [Action("exit", -KILL if code is None else code)]


def _wait(state: State, until: float, now: float) -> Step:
    longest = now + LONGEST_HOLD
    return replace(state, phase=WAITING, held_since=now, deadline=min(until, longest)), []


def _checked(state: State, passed: bool, now: float) -> Step:  # noqa: FBT001 - the event's own word
    if state.phase != CHECKING:
        return state, []
    if not passed:
        return _hold(state, 1, now)
    if state.wait_until > now:
        return _wait(state, state.wait_until, now)
    return _start(state)


def _hold(state: State, code: int, now: float) -> Step:
    held = replace(
        state, phase=HELD, code=code, held_since=now, deadline=now + min(state.verdict_wait, LONGEST_HOLD)
    )
    return held, [Action("answer")]


def _child_exit(state: State, code: int, now: float) -> Step:
    if state.phase == RUNNING:
        if code == 0 or not state.high_availability:
            return _end(state, code)
        held, actions = _hold(state, code, now)
        # What the container's end would have done to the rest of the group.
        return held, [Action("signal", KILL), *actions]
    # Ending: what is left of the group may be saving; it has its grace too.
    return replace(state, code=code), []


def _group_gone(state: State, now: float) -> Step:
    state = replace(state, alive=False)
    if state.phase == ENDING:
        return _end(state, state.code)
    if state.phase != STOPPING:
        return state, []
    if state.want_run:
        return _start(state, reset=state.reset)
    if not state.high_availability:
        return _end(state, state.code)
    stopped = replace(state, phase=STOPPED)
    if state.order is not None and now >= state.order.until:
        later, actions = _tick(stopped, now)
        return later, [Action("answer"), *actions]
    return replace(stopped, deadline=state.order.until if state.order else now), [Action("answer")]


def _asked(state: State, until: float) -> Step:
    if state.phase != CHECKING:
        return state, []
    return replace(state, wait_until=max(state.wait_until, until), unanswered=True), []


def _extend(state: State, until: float) -> Step:
    if state.phase == CHECKING:
        until = until if state.unanswered else max(state.wait_until, until)
        return replace(state, wait_until=until, unanswered=False), []
    if state.phase == WAITING and state.unanswered:
        return replace(state, deadline=min(until, state.held_since + LONGEST_HOLD), unanswered=False), []
    if state.phase not in (HELD, WAITING):
        return state, []
    return replace(state, deadline=min(max(state.deadline, until), state.held_since + LONGEST_HOLD)), []


def _terminate(state: State, signum: int, now: float) -> Step:
    if state.phase in (CHECKING, WAITING):
        return _end(state, -signum)
    if state.phase in (HELD, STOPPED):
        return _end(state, -signum if state.code is None else state.code)
    if state.phase == ENDING:
        return state, [Action("signal", signum)]
    kill_at = now + state.pod_grace
    return replace(state, phase=ENDING, kill_at=kill_at, deadline=kill_at + 5), [Action("signal", signum)]


def _order(state: State, order: Order, now: float) -> Step:  # noqa: PLR0911 - one guard a case
    if state.last is not None and order.rank() < state.last:
        return state, [Action("refuse", text="older than the last order obeyed")]
    if not state.high_availability:
        said = "answer" if order.state == RELEASE else "refuse"
        return state, [Action(said, text="relight has nothing to say here")]
    if order.state == STOP and order.until <= now:
        return state, [Action("refuse", text="its until has passed")]
    if state.phase == ENDING:
        return state, [Action("refuse", text="the container is ending")]
    order = replace(order, until=min(order.until, now + LONGEST_ORDER))
    repeated = state.last == order.rank()
    state = replace(state, last=order.rank(), order=order if order.state == STOP else state.order)
    if repeated and (order.state == RUN or state.phase not in (WAITING, CHECKING)):
        return _renewed(state, order), [Action("answer")]
    if order.state == STOP:
        return _stop(state, order, now)
    if order.state == RELEASE:
        return _release(state)
    return _run(replace(state, reset=order.reset), now)


def _renewed(state: State, order: Order) -> State:
    """The same order again: a stop's `until` moves, nothing else does."""
    if order.state != STOP:
        return state
    if state.phase == STOPPED:
        return replace(state, deadline=order.until)
    if state.phase == STOPPING and not state.want_run:
        return replace(state, deadline=order.until + state.verdict_wait)
    return state


def _stop(state: State, order: Order, now: float) -> Step:
    if state.alive:
        ordered = replace(state, phase=STOPPING, want_run=False, kill_at=now + order.grace)
        ordered = replace(ordered, deadline=order.until + state.verdict_wait)
        return ordered, [Action("signal", TERM), Action("answer")]
    return replace(state, phase=STOPPED, deadline=order.until), [Action("answer")]


def _run(state: State, now: float) -> Step:
    if state.phase in (RUNNING, CHECKING):
        return replace(state, wait_until=0.0, unanswered=False, reset=False), [Action("answer")]
    if state.alive:
        deadline = max(state.deadline, now + state.verdict_wait)
        kill_at = state.kill_at if state.phase == STOPPING else now
        return replace(state, phase=STOPPING, want_run=True, kill_at=kill_at, deadline=deadline), [
            Action("answer")
        ]
    started, actions = _start(state, reset=state.reset)
    return started, [*actions, Action("answer")]


def _release(state: State) -> Step:
    state = replace(state, high_availability=False, want_run=False)
    if state.phase in (HELD, STOPPED) and state.code is not None:
        return _end(state, state.code)
    if state.phase in (CHECKING, WAITING, STOPPED):
        return _start(state)
    return state, [Action("answer")]


def _tick(state: State, now: float) -> Step:  # noqa: PLR0911 - one guard a case
    if state.phase == CHECKING and now >= state.deadline:
        return _checked(state, True, now)  # noqa: FBT003 - a check that hangs must not stop a job
    if state.phase == WAITING and now >= state.deadline:
        return _start(state)
    if state.phase == HELD and now >= state.deadline:
        return _end(state, state.code)
    if state.phase == STOPPED and now >= state.deadline:
        if state.code is None or (state.order is not None and state.order.otherwise == RERUN):
            return _start(state)
        return _end(state, state.code)
    if state.phase in (STOPPING, ENDING):
        if now >= state.deadline:
            return _end(state, -KILL if state.code is None else state.code)
        if now >= state.kill_at:
            return replace(state, kill_at=now + KILL_AGAIN), [Action("signal", KILL)]
    return state, []
