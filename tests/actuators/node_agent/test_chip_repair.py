"""Repair with real commands on a simulated chip: each order once, whatever is killed, refused or silent on the way."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from actuators.node_agent import chip_repair
from actuators.node_agent.chip_repair import ChipRepair
from actuators.node_agent.device_holders import HoldersUnknown, device_holders
from actuators.node_agent.orders import Holder, Unit
from actuators.node_agent.settings import RepairSettings
from runtime.errors import ApiAway, ApiConflict
from runtime.kubernetes import PatchKind
from sandbox import tied_process
from schemas.cluster import REPAIR, REPAIRED, RepairAnswer, RepairOrder, unit_key
from schemas.signals import NodeRef, RepairResult, Signal

NODE = NodeRef(uid="node-uid", name="node-1")
CODE = "ascend:80E01801"
TOOL = Path(__file__).with_name("simulated_chip.py")


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chip_repair, "LOOK_AGAIN", 0.02)


class Api:
    """One node, as the API server keeps it."""

    def __init__(self) -> None:
        self.node: dict[str, Any] = {
            "metadata": {"name": "node-1", "uid": "node-uid", "resourceVersion": "1", "annotations": {}}
        }
        self.away = False
        self.before_patch: Callable[[], None] = lambda: None
        self.heard: Callable[[dict[str, Any]], None] = lambda _: None
        self.answers: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/api/v1/nodes/node-1"
        if self.away:
            raise ApiAway("away")
        return json.loads(json.dumps(self.node))  # type: ignore[no-any-return]

    def patch(
        self,
        path: str,
        body: dict[str, Any] | Sequence[dict[str, Any]],
        *,
        kind: PatchKind = PatchKind.MERGE,
        manager: str = "",
    ) -> dict[str, Any]:
        assert manager == "relight"
        assert kind is PatchKind.MERGE
        assert isinstance(body, dict)
        before, self.before_patch = self.before_patch, lambda: None
        before()
        if self.away:
            raise ApiAway("away")
        metadata = body["metadata"]
        if metadata["uid"] != self.node["metadata"]["uid"]:
            raise ApiConflict("other uid")
        if metadata.get("resourceVersion", self.version) != self.version:
            raise ApiConflict("other version")
        self.change(metadata["annotations"])
        self.answers += [json.loads(text)["result"] for text in metadata["annotations"].values()]
        return self.get(path)

    @property
    def version(self) -> str:
        return str(self.node["metadata"]["resourceVersion"])

    def change(self, annotations: dict[str, str | None]) -> None:
        kept = {**self.node["metadata"]["annotations"], **annotations}
        self.node["metadata"]["annotations"] = {name: text for name, text in kept.items() if text is not None}
        self.node["metadata"]["resourceVersion"] = str(int(self.version) + 1)
        self.heard(json.loads(json.dumps(self.node)))

    def order(self, order: RepairOrder) -> None:
        self.change({unit_key(REPAIR, order.unit): order.to_text()})

    def answer(self, unit: str = "chip-0") -> RepairAnswer | None:
        text = self.node["metadata"]["annotations"].get(unit_key(REPAIRED, unit))
        return None if text is None else RepairAnswer.from_text(text)


class World:
    def __init__(self) -> None:
        self.on_unit: list[Holder] = []
        self.unknown = False
        self.asked = 0
        self.then: Callable[[], None] = lambda: None

    def now(self) -> datetime:
        return datetime.now(UTC)

    def holders(self, unit: Unit, run: str) -> list[Holder]:
        assert unit.devices
        assert run == "run-1"
        self.asked += 1
        self.then()
        if self.unknown:
            raise HoldersUnknown("cannot see")
        return list(self.on_unit)


class Scene:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.chip = folder / "chip.json"
        self.set_chip()
        units = folder / "units.json"
        units.write_text(json.dumps({"chip-0": {"chips": ["c-0"], "devices": [str(self.chip)]}}))
        tool = (sys.executable, str(TOOL), str(self.chip))
        given: dict[str, Any] = {
            "command": (*tool, "reset", "{unit}"),
            "check": (*tool, "codes", "{unit}"),
            "units": units,
            "verify_for": "300ms",
            "verify_every": "20ms",
            "own_wait": "100ms",
            "timeout": "20s",
            **settings,
        }
        self.settings = RepairSettings(**given)
        self.api = Api()
        self.world = World()
        self.signals: list[RepairResult] = []

    def set_chip(self, **more: Any) -> None:
        self.chip.write_text(
            json.dumps({"chip-0": {"codes": [CODE], "on_reset": "heal", "resets": 0, **more}})
        )

    def resets(self) -> int:
        return int(json.loads(self.chip.read_bytes())["chip-0"]["resets"])

    async def tell(self, signal: Signal, place: str) -> None:
        assert place.startswith("chip-0/")
        assert isinstance(signal, RepairResult)
        self.signals.append(signal)

    def hands(self) -> ChipRepair:
        made = ChipRepair(self.settings, NODE, self.api, self.world, self.folder / "repair", self.tell)
        self.api.heard = made.node_changed
        made.node_changed(self.api.get("/api/v1/nodes/node-1"))
        return made

    async def answered(self, attempt: int = 1) -> RepairAnswer:
        while True:
            answer = self.api.answer()
            if answer is not None and answer.result != "under_way" and answer.attempt == attempt:
                return answer
            await asyncio.sleep(0.01)


def order(**more: Any) -> RepairOrder:
    given: dict[str, Any] = {
        "unit": "chip-0", "chips": ("c-0",), "codes": (CODE,), "incident": "i-1", "attempt": 1, "run": "run-1",
        "until": datetime.now(UTC) + timedelta(minutes=3), **more,
    }  # fmt: skip
    return RepairOrder(**given)


def play(act: Coroutine[Any, Any, None], hands: ChipRepair) -> None:
    async def whole() -> None:
        working = asyncio.ensure_future(hands.run())
        try:
            async with asyncio.timeout(30):
                await act
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    asyncio.run(whole())


def outcome(scene: Scene, **given: Any) -> RepairAnswer:
    """One order to its answer."""
    found: list[RepairAnswer] = []

    async def act() -> None:
        scene.api.order(order(**given))
        found.append(await scene.answered())

    play(act(), scene.hands())
    return found[0]


def test_a_chip_is_reset_once_verified_answered_and_told(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    answer = outcome(scene)

    assert (answer.result, answer.incident, answer.attempt) == ("healed", "i-1", 1)
    assert scene.api.answers[:2] == ["under_way", "healed"]
    assert [(one.result, one.unit) for one in scene.signals] == [("healed", "chip-0")]
    assert scene.resets() == 1


def test_a_code_that_stands_afterwards_is_left_and_named(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.set_chip(on_reset="leave")

    answer = outcome(scene)

    assert (answer.result, answer.codes_left) == ("still_faulty", (CODE,))
    assert scene.resets() == 1


def test_a_command_that_fails_is_no_healing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.set_chip(on_reset="refuse")

    answer = outcome(scene)

    assert answer.result == "failed"
    assert "ended with 1 the device does not answer" in (answer.detail or "")


def test_a_command_that_does_not_end_is_killed_and_failed(tmp_path: Path) -> None:
    scene = Scene(tmp_path, timeout="300ms")
    scene.set_chip(on_reset="slow", seconds=50)

    assert outcome(scene).result == "failed"


def test_a_check_that_cannot_say_is_no_healing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, check=("false", "{unit}"))

    assert outcome(scene).result == "failed"


def test_a_chip_somebody_else_uses_is_not_reset(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.world.on_unit = [Holder(7, "python", "run-2")]

    assert outcome(scene).result == "foreign_process"
    assert scene.resets() == 0
    assert "under_way" not in scene.api.answers


def test_a_foreign_process_that_comes_at_the_last_moment_is_seen(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    def comes() -> None:
        if scene.world.asked == 2:
            scene.world.on_unit = [Holder(7, "python", None)]

    scene.world.then = comes

    assert outcome(scene).result == "foreign_process"
    assert scene.resets() == 0


def test_processes_of_the_run_on_their_way_out_are_waited_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path, own_wait="5s")
    scene.world.on_unit = [Holder(7, "python", "run-1")]

    def goes() -> None:
        if scene.world.asked == 4:
            scene.world.on_unit = []

    scene.world.then = goes

    assert outcome(scene).result == "healed"


def test_a_unit_the_run_never_leaves_is_not_reset(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.world.on_unit = [Holder(7, "python", "run-1")]

    assert outcome(scene).result == "not_done"
    assert scene.resets() == 0


def test_where_nobody_can_say_who_is_on_the_unit_nothing_is_reset(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.world.unknown = True

    assert outcome(scene).result == "not_done"
    assert scene.resets() == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"until": datetime(2026, 1, 1, tzinfo=UTC)},
        {"chips": ("c-0", "c-7")},  # not of this unit
        {"chips": ("--all",)},
    ],
)
def test_late_and_strange_orders_touch_nothing(tmp_path: Path, changed: dict[str, Any]) -> None:
    scene = Scene(tmp_path)

    assert outcome(scene, **changed).result == "not_done"
    assert scene.resets() == 0


def test_a_unit_nobody_knows_the_devices_of_is_not_reset(tmp_path: Path) -> None:
    scene = Scene(tmp_path, units=None)

    assert outcome(scene).result == "not_done"
    assert scene.resets() == 0


def test_an_agent_that_was_away_past_the_orders_time_says_so_and_tells_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    answer = outcome(scene, until=scene.world.now() - timedelta(seconds=1))

    assert (answer.result, scene.resets()) == ("not_done", 0)
    assert "too late" in (answer.detail or "")
    assert [one.result for one in scene.signals] == ["not_done"]


def test_a_node_without_a_repair_command_does_nothing_and_says_so(tmp_path: Path) -> None:
    scene = Scene(tmp_path, command=())

    answer = outcome(scene)

    assert (answer.result, scene.resets()) == ("not_done", 0)
    assert "RELIGHT_REPAIR__COMMAND" in (answer.detail or "")


@pytest.mark.parametrize("check", [(), ("false", "{unit}")])
def test_what_heals_by_waiting_and_cannot_be_looked_at_is_no_failed_repair(
    tmp_path: Path, check: tuple[str, ...]
) -> None:
    scene = Scene(tmp_path, check=check)

    assert outcome(scene, heal="wait").result == "not_done"
    assert scene.resets() == 0


def test_a_fourth_reset_within_the_window_has_no_token(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    results: list[str] = []

    async def act() -> None:
        for attempt in range(1, 5):
            scene.api.order(order(attempt=attempt))
            results.append((await scene.answered(attempt)).result)

    play(act(), scene.hands())

    assert results == ["healed", "healed", "healed", "no_tokens"]
    assert scene.resets() == 3


def test_a_reset_that_could_outlast_the_stop_of_the_processes_is_not_begun(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    answer = outcome(scene, over_by=scene.world.now() + timedelta(seconds=4))

    assert (answer.result, scene.resets()) == ("not_done", 0)
    assert "about to end" in (answer.detail or "")


@pytest.mark.parametrize(("codes", "result"), [([CODE], "still_faulty"), ([], "healed")])
def test_what_heals_by_waiting_is_only_looked_at(tmp_path: Path, codes: list[str], result: str) -> None:
    scene = Scene(tmp_path)
    scene.set_chip(codes=codes)

    assert outcome(scene, heal="wait").result == result
    assert scene.resets() == 0


def test_an_order_taken_off_before_it_began_is_not_carried_out(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def act() -> None:
        scene.api.before_patch = lambda: scene.api.change({unit_key(REPAIR, "chip-0"): None})
        scene.api.order(order())
        await asyncio.sleep(0.4)

    play(act(), scene.hands())

    assert scene.resets() == 0
    assert scene.api.answers == []


def test_without_the_api_nothing_is_begun_and_with_it_the_order_is_done_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def act() -> None:
        scene.api.away = False
        scene.api.before_patch = lambda: setattr(scene.api, "away", True)
        scene.api.order(order())
        await asyncio.sleep(0.3)
        assert scene.resets() == 0
        scene.api.away = False
        assert (await scene.answered()).result == "healed"

    play(act(), scene.hands())

    assert scene.resets() == 1
    assert len(scene.signals) == 1


def test_another_node_under_our_name_is_not_touched(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def act() -> None:
        scene.api.order(order())
        await asyncio.sleep(0.2)

    hands = scene.hands()
    scene.api.node["metadata"]["uid"] = "another"
    play(act(), hands)

    assert scene.resets() == 0
    assert scene.api.answers == []


def test_an_answered_order_is_not_done_again_by_the_next_start(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    outcome(scene)

    async def act() -> None:
        scene.api.change({"x": "y"})
        await asyncio.sleep(0.2)

    play(act(), scene.hands())

    assert scene.resets() == 1
    assert len(scene.signals) == 1


def test_an_answer_that_was_lost_on_the_node_is_given_again_without_a_reset_or_a_signal(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    outcome(scene)
    scene.api.change({unit_key(REPAIRED, "chip-0"): None})

    async def act() -> None:
        assert (await scene.answered()).result == "healed"

    play(act(), scene.hands())

    assert scene.resets() == 1
    assert len(scene.signals) == 1


@pytest.mark.slow
def test_a_journal_that_was_lost_never_leads_to_a_second_reset(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.set_chip(on_reset="leave")
    outcome(scene)
    (tmp_path / "repair" / "repairs.json").write_text("{")
    answer = RepairAnswer(unit="chip-0", incident="i-1", attempt=1, result="under_way")
    scene.api.change({unit_key(REPAIRED, "chip-0"): answer.to_text()})

    async def act() -> None:
        assert (await scene.answered()).result == "still_faulty"

    play(act(), scene.hands())

    assert scene.resets() == 1
    assert (tmp_path / "repair" / "repairs.unreadable").exists()


def test_a_start_anew_that_nothing_can_say_the_result_of_is_no_failed_repair(tmp_path: Path) -> None:
    scene = Scene(tmp_path, check=())
    under_way = RepairAnswer(unit="chip-0", incident="i-1", attempt=1, result="under_way")

    async def act() -> None:
        scene.api.change({unit_key(REPAIRED, "chip-0"): under_way.to_text()})
        scene.api.order(order())
        answer = await scene.answered()
        assert (answer.result, "no check" in (answer.detail or "")) == ("not_done", True)

    play(act(), scene.hands())

    assert scene.resets() == 0


KILLED = """
import asyncio, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.actuators.node_agent.test_chip_repair import Scene, order
scene = Scene(Path({folder!r}))
scene.set_chip(on_reset="slow", seconds={seconds}, codes=["ascend:80E01801"])
async def main():
    hands = scene.hands()
    scene.api.order(order())
    await hands.run()
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("ends_before", [True, False])
def test_an_agent_killed_in_the_middle_of_a_reset_waits_for_it_and_never_begins_another(
    tmp_path: Path, ends_before: bool
) -> None:
    root = str(Path(__file__).resolve().parents[3])
    program = KILLED.format(root=root, folder=str(tmp_path), seconds=0.5 if ends_before else 3.0)
    agent = tied_process.start([sys.executable, "-c", program])
    chip = tmp_path / "chip.json"
    while not chip.exists() or b'"resets": 1' not in chip.read_bytes():
        time.sleep(0.01)
        assert agent.poll() is None
    agent.kill()
    agent.wait()
    if ends_before:
        while b"80E01801" in chip.read_bytes():
            time.sleep(0.01)
        time.sleep(0.3)  # its process ends
    before = json.loads(chip.read_bytes())
    scene = Scene(tmp_path)
    chip.write_text(json.dumps(before))
    begun = time.monotonic()

    answer = outcome(scene)

    assert answer.result == "healed"
    assert scene.resets() == 1
    assert ends_before or time.monotonic() - begun > 0.5
    assert len(scene.signals) == 1


def test_devices_are_seen_in_the_hands_of_other_processes_only(tmp_path: Path) -> None:
    device = tmp_path / "dev0"
    device.write_bytes(b"x" * 4096)
    nobody = device_holders([str(device)], lambda _: None, must_see_all=False)
    program = f"import time; f = open({str(device)!r}); print('open', flush=True); time.sleep(60)"
    with device.open():  # our own does not count
        holder = tied_process.start([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert holder.stdout is not None
        holder.stdout.readline()
        found = device_holders([str(device)], lambda pid: f"run-of-{pid}", must_see_all=False)
    holder.kill()
    holder.wait()
    holder.stdout.close()

    assert nobody == []
    assert [(one.pid, one.run) for one in found] == [(holder.pid, f"run-of-{holder.pid}")]


def test_a_device_that_is_only_mapped_is_held(tmp_path: Path) -> None:
    device = tmp_path / "dev0"
    device.write_bytes(b"x" * 4096)
    program = (
        f"import mmap, time; f = open({str(device)!r}, 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close();"
        "print('mapped', flush=True); time.sleep(60)"
    )
    holder = tied_process.start([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    found = device_holders([str(device)], lambda _: None, must_see_all=False)
    holder.kill()
    holder.wait()
    holder.stdout.close()

    assert [one.pid for one in found] == [holder.pid]


def test_a_device_that_is_not_there_or_a_table_that_cannot_be_read_is_no_proof(tmp_path: Path) -> None:
    with pytest.raises(HoldersUnknown):
        device_holders([str(tmp_path / "none")], lambda _: None)
    with pytest.raises(HoldersUnknown):
        device_holders([], lambda _: None)


def test_a_process_that_cannot_be_looked_into_is_no_proof_unless_trials_say_so(tmp_path: Path) -> None:
    device = tmp_path / "dev0"
    device.touch()

    class Sealed(type(tmp_path)):  # type: ignore[misc] # the concrete class of this system
        def iterdir(self) -> Any:
            if self.name == "fd":
                raise PermissionError(str(self))
            return super().iterdir()

    proc = Sealed(tmp_path / "proc")
    (proc / "77").mkdir(parents=True)

    with pytest.raises(HoldersUnknown, match="77"):
        device_holders([str(device)], lambda _: None, proc=proc)
    assert device_holders([str(device)], lambda _: None, proc=proc, must_see_all=False) == []


def test_a_command_that_names_no_unit_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="every unit alike"):
        RepairSettings(command=("reset", "--all"))
    assert RepairSettings(command=("reset", "{unit}")).command
