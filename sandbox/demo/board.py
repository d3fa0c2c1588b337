"""One frame of the live view: the act, the nodes and what runs on them, the course of the recovery, the last lines. Remembers lines only."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from rich.console import ConsoleOptions, Group, RenderableType, RenderResult
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from runtime.kubernetes import Object
from sandbox.demo import course
from sandbox.demo.acts import Act
from sandbox.demo.course import Course, StepTaken
from sandbox.demo.happening import Happening, Kind, is_isolated
from sandbox.demo.phases import Phase
from sandbox.demo.watching import Glance
from schemas.cluster import EPOCH, RANK_LABEL
from schemas.signals import Progress

LINES_KEPT: Final = 60
TOGETHER: Final = "\N{NO-BREAK SPACE}"
BAR: Final = 56
"""Characters of the bar of phases."""
COLOURS: Final = {
    Kind.STAGE: "bold magenta", Kind.SIGNAL: "yellow", Kind.DECISION: "bold cyan", Kind.STEP: "blue",
    Kind.POD: "dim", Kind.NODE: "bold red", Kind.PHASE: "green", Kind.RECOVERY: "bold green",
}  # fmt: skip
PHASES: Final = {
    "detection": "yellow", "termination": "red", "requeue": "magenta", "warm_up": "blue",
    "communication": "cyan", "checkpoint": "bright_blue", "stabilisation": "green",
}  # fmt: skip


class Board:
    """What the view shows beside the latest glance."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._lines: deque[Happening] = deque(maxlen=LINES_KEPT)
        self._headline = Text("starting")

    def tell(self, happening: Happening) -> None:
        """A line more."""
        self._lines.append(happening)

    def act(self, number: int, of: int, act: Act) -> None:
        """Another headline."""
        self._headline = Text.assemble(
            (f"Act {number} of {of}  {act.title}", "bold"), "\n", (act.watch, "dim")
        )

    def frame(self, glance: Glance) -> Layout:
        """The picture now."""
        frame = Layout()
        frame.split_column(Layout(name="act", size=4), Layout(name="world", size=17), Layout(name="lines"))
        frame["act"].update(Panel(self._headline, title="relight demo", title_align="left"))
        frame["world"].split_row(Layout(name="nodes", ratio=1), Layout(name="course", ratio=1))
        frame["nodes"].update(
            Panel(nodes(glance), title="nodes and pods (API, topics, files)", title_align="left")
        )
        told = course.latest(glance.events, self._ranks, glance.at, glance.arrived)
        frame["course"].update(Panel(course_of(told), title="the recovery (topics)", title_align="left"))
        frame["lines"].update(Panel(_Tail(self._lines), title="what happens", title_align="left"))
        return frame


class _Tail:
    """As many of the last lines as there is room for."""

    def __init__(self, lines: Sequence[Happening]) -> None:
        self._lines = list(lines)

    def __rich_console__(self, console: object, options: ConsoleOptions) -> RenderResult:
        del console
        for happening in self._lines[-(options.height or LINES_KEPT) :]:
            yield Text.assemble(
                (f"{happening.at:%H:%M:%S} ", "dim"),
                (f"{happening.kind.value:<9}", COLOURS[happening.kind]),
                happening.text,
                no_wrap=True,
                overflow="ellipsis",
            )


def nodes(glance: Glance) -> Table:
    """A line a node: its state, and the rank on it with its counters and its step."""
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), header_style="dim")
    for name in ("node", "state", "rank", "pod", "issue", "start", "step"):
        table.add_column(name, no_wrap=True)
    steps = _steps(glance)
    for node in glance.nodes:
        name = node["metadata"]["name"]
        here = [pod for pod in glance.pods if pod["spec"].get("nodeName") == name]
        table.add_row(name, _state(node), *_pod(here[-1], glance, steps) if here else (_free(node),))
    return table


def _state(node: Object) -> Text:
    if is_isolated(node):
        return Text("isolated", "bold red")
    ready = any(
        one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions") or []
    )
    return Text("Ready", "green") if ready else Text("NotReady", "bold red")


def _free(node: Object) -> Text:
    return Text() if is_isolated(node) else Text("spare", "dim")


def _pod(pod: Object, glance: Glance, steps: dict[str, int]) -> tuple[Text, ...]:
    metadata = pod["metadata"]
    rank = str((metadata.get("labels") or {}).get(RANK_LABEL, ""))
    epoch = str((metadata.get("annotations") or {}).get(EPOCH, "1"))
    starts = [
        start.start_count
        for start in glance.starts
        if str(start.rank) == rank and start.schedule_count == epoch
    ]
    phase = "ending" if metadata.get("deletionTimestamp") else str(pod.get("status", {}).get("phase", ""))
    return (
        Text(rank),
        Text(phase, "green" if phase == "Running" else "yellow"),
        Text(epoch),
        Text(starts[-1] if starts else ""),
        Text(str(steps.get(metadata["uid"], "")), "bold"),
    )


def _steps(glance: Glance) -> dict[str, int]:
    """The last step each pod told."""
    return {
        event.data.placement.pod_uid: event.data.step
        for event in glance.events
        if isinstance(event.data, Progress) and event.data.step is not None and event.data.placement.pod_uid
    }


def course_of(told: Course | None) -> RenderableType:
    """Evidence, decision, steps, phases."""
    if told is None:
        return Text("the job trains; nothing is wrong", "dim")
    parts: list[RenderableType] = [Text.assemble(("seen     ", "dim"), (told.evidence, "yellow"))]
    if told.decision is not None:
        decision = told.decision
        parts.append(
            Text.assemble(
                ("decided  ", "dim"),
                (decision.verdict, "bold cyan"),
                f" by rule {decision.rule}, row {decision.row}",
            )
        )
        parts.append(Text.assemble(("because  ", "dim"), decision.reason))
    parts += [_step(step) for step in told.steps]
    parts.append(
        Text.assemble(("now      ", "dim"), (told.state, "bold green" if told.over else "bold yellow"))
    )
    parts += [Text(), _bar(told.phases), _legend(told.phases)]
    return Group(*parts)


def _step(step: StepTaken) -> Text:
    if step.ended is None:
        return Text.assemble(("step     ", "dim"), (f"… {step.name}", "yellow"))
    took = (step.ended - step.began).total_seconds()
    good = step.result == "done"
    return Text.assemble(
        ("step     ", "dim"),
        (f"{'✓' if good else '✗'} {step.name}", "green" if good else "red"),
        (f"  {took:.1f} s", "dim"),
    )


def _bar(phases: Sequence[Phase]) -> Text:
    """Phases drawn to scale."""
    total = sum(phase.seconds for phase in phases) or 1.0
    bar = Text()
    for phase in phases:
        bar.append("█" * max(1, round(BAR * phase.seconds / total)), PHASES[phase.name])
    return bar


def _legend(phases: Sequence[Phase]) -> Text:
    legend = Text()
    for phase in phases:
        told = f" {phase.name.replace('_', ' ')} {phase.seconds:.1f}{'' if phase.over else '…'}".replace(
            " ", TOGETHER
        )
        legend.append("■", PHASES[phase.name])
        legend.append(f"{told}  ", "" if phase.over else "bold")
    legend.append(f"= {sum(phase.seconds for phase in phases):.1f} s", "bold")
    return legend
