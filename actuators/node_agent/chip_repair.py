"""Carries out repair orders of this node: one at a time a unit, each once, answered on the node and told as a signal.

Order of effects: claim in the journal; say *under way* on the node, under its version, so that an order taken off meanwhile is not begun; write
*begun* to the journal; only then the command. What became of it goes to the journal, to the spool, to the node, in this order, each until it is
there: an agent killed anywhere goes on behind what it finds. Without the API nothing is begun.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from actuators.node_agent.command import UnitLock, filled, run
from actuators.node_agent.device_holders import HoldersUnknown
from actuators.node_agent.journal import Journal
from actuators.node_agent.orders import (
    RESET,
    Ending,
    Holder,
    Key,
    Next,
    Stage,
    Unit,
    answer_on,
    codes_left,
    in_the_way,
    key_of,
    no_tokens,
    orders_of,
    refused,
    time_for,
    what_now,
)
from actuators.node_agent.settings import RepairSettings
from actuators.node_agent.units import UnitUnknown, find_unit
from runtime import logs, paths
from runtime.errors import ApiConflict, ApiError, ApiNotFound
from runtime.kubernetes import Object, PatchKind
from schemas.cluster import FIELD_MANAGER, REPAIRED, RepairAnswer, RepairOrder, unit_key
from schemas.ids import derive_id
from schemas.signals import NodeRef, RepairResult, Signal

LOOK_AGAIN: Final = 1.0
CONFLICTS: Final = 8
LONGEST_DETAIL: Final = 180
_log = logs.get(__name__)


class NodeApi(Protocol):
    """What is needed of the API."""

    def get(self, path: str) -> Object:
        """One object."""
        ...

    def patch(
        self,
        path: str,
        body: Object | Sequence[Object],
        *,
        kind: PatchKind = PatchKind.MERGE,
        manager: str = "",
    ) -> Object:
        """A conditional patch."""
        ...


class World(Protocol):
    """What a repair leans on beside the API."""

    def now(self) -> datetime:
        """The node's clock."""
        ...

    def holders(self, unit: Unit, run: str) -> list[Holder]:
        """Whose processes, and whose pods, are on the unit. Raises HoldersUnknown. May take a moment: asked in a thread."""
        ...


class OrderGone(Exception):  # noqa: N818 - says what happened
    """The order does not stand on the node any more, or another one took its place."""


class ChipRepair:
    """Hands of the node agent."""

    def __init__(
        self,
        settings: RepairSettings,
        node: NodeRef,
        api: NodeApi,
        world: World,
        folder: Path,
        tell: Callable[[Signal, str], Awaitable[None]],
    ) -> None:
        """`tell` returns once the signal is on disk."""
        self._settings = settings
        self._node = node
        self._api = api
        self._world = world
        self._folder = folder
        self._tell = tell
        self._journal = Journal(folder / "repairs.json")
        self._newest: Object | None = None
        self._changed = asyncio.Event()
        self._working: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(settings.at_once)
        self._results: Counter[str] = Counter()
        self._trouble = ""
        self._loop: asyncio.AbstractEventLoop | None = None

    def trouble(self) -> str | None:
        """What keeps repairs from being done or told."""
        return self._trouble or None

    def counted(self) -> Mapping[str, int]:
        """Answers by result."""
        return dict(self._results)

    def node_changed(self, node: Object) -> None:
        """The node's object, from any thread."""
        self._newest = node
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._changed.set)

    async def run(self) -> None:
        """Until cancelled: what is under way then is killed, and found again by the next start."""
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                self._changed.clear()
                if self._newest is not None:
                    self._take_up(self._newest)
                await self._changed.wait()
        finally:
            for task in self._working.values():
                task.cancel()
            await asyncio.gather(*self._working.values(), return_exceptions=True)

    def _take_up(self, node: Object) -> None:
        orders, wrong = orders_of(node)
        for fault in wrong:
            _log.warning("a repair order cannot be read", order=fault)
        for unit, order in orders.items():
            if unit in self._working:
                continue  # looked at again when it is over
            record = self._journal.find(key_of(order))
            if what_now(answer_on(node, order), record.stage if record else None) is Next.NOTHING:
                continue
            task = asyncio.ensure_future(self._care_for(order, node))
            self._working[unit] = task
            task.add_done_callback(lambda _, unit=unit: self._over(unit))  # type: ignore[misc] # unit is bound

    def _over(self, unit: str) -> None:
        self._working.pop(unit, None)
        self._changed.set()

    async def _care_for(self, order: RepairOrder, node: Object) -> None:
        """One order to its answer; errors are tried again, since an order nobody answers costs the whole attempt."""
        while True:
            try:
                async with self._room:
                    await self._settle(order, node)
            except OrderGone as error:
                _log.info("a repair order went", unit=order.unit, incident=order.incident, why=str(error))
                await asyncio.sleep(LOOK_AGAIN)  # until the watch has brought it too
                return
            except (ApiError, OSError) as error:
                self._trouble = f"repair of {order.unit}: {error}"[:300]
                _log.warning("a repair waits", unit=order.unit, error=str(error))
            except Exception:  # noqa: BLE001 - one order must not take the others with it
                self._trouble = f"repair of {order.unit} failed by an error of ours"
                _log.exception("a repair failed by an error of ours", unit=order.unit)
            else:
                self._trouble = ""
                return
            await asyncio.sleep(LOOK_AGAIN)

    async def _settle(self, order: RepairOrder, node: Object) -> None:
        key = key_of(order)
        record = self._journal.find(key)
        todo = what_now(answer_on(node, order), record.stage if record else None)
        if todo in (Next.REPAIR, Next.LOOK_ONLY):
            lock = UnitLock(self._file(order, "lock"))
            try:
                ending = await (self._look_only if todo is Next.LOOK_ONLY else self._repair)(order, key, lock)
            finally:
                lock.close()
            self._journal.end(key, ending, self._world.now())
        await self._answer(order, key)

    def _file(self, order: RepairOrder, what: str) -> Path:
        """A file of this unit; the number of units bounds them."""
        return self._folder / f"unit-{derive_id('unit', order.unit)[:16]}.{what}"

    # ------------------------------------------------------------ the work

    async def _repair(self, order: RepairOrder, key: Key, lock: UnitLock) -> Ending:
        ending = refused(order, self._world.now(), self._settings.command)
        if ending is not None:
            return ending
        self._journal.claim(key, self._world.now())
        if order.heal != RESET:
            await self._say_under_way(order)
            return await self._verify(order, "waited")
        try:
            unit = find_unit(self._settings, order)
            ending = await self._wait_until_free(order, unit, lock)
        except (UnitUnknown, HoldersUnknown) as error:
            return Ending("not_done", str(error))
        if ending is not None:
            return ending
        await self._say_under_way(order)
        return await self._reset(order, key, unit, lock)

    async def _wait_until_free(self, order: RepairOrder, unit: Unit, lock: UnitLock) -> Ending | None:
        """A run's own processes may still be on their way out; anybody else's are not waited for."""
        until = self._world.now() + self._settings.own_wait
        while True:
            ending = in_the_way(order, await asyncio.to_thread(self._world.holders, unit, order.run))
            if ending is None and not lock.take():
                ending = Ending("failed", "a command of an earlier order is still at work on the unit")
            if ending is None:
                return None
            if ending.result == "foreign_process" or self._world.now() >= min(until, order.until):
                return ending
            await asyncio.sleep(LOOK_AGAIN)

    async def _reset(self, order: RepairOrder, key: Key, unit: Unit, lock: UnitLock) -> Ending:
        now = self._world.now()
        ending = refused(order, now, self._settings.command) or no_tokens(
            unit,
            self._journal.resets,
            now,
            window=self._settings.window,
            per_chip=self._settings.per_chip,
            per_node=self._settings.per_node,
        )
        if ending is None:  # once more, right before: saying so took a moment
            ending = in_the_way(order, await asyncio.to_thread(self._world.holders, unit, order.run))
        if ending is not None:
            return ending
        limit = time_for(order, self._world.now(), self._settings.timeout)
        if limit is None:
            return Ending("not_done", "too late: the stop of the run's processes is about to end")
        self._journal.begin(key, unit.chips, now)
        argv = filled(self._settings.command, unit.name, unit.chips)
        end = await run(argv, limit, self._file(order, "reset"), lock)
        lock.release()
        _log.info("repair command", unit=unit.name, incident=order.incident, code=end.code)
        if end.code != 0:
            return Ending("failed", f"the repair command {end.told}")
        return await self._verify(order, "reset")

    async def _look_only(self, order: RepairOrder, key: Key, lock: UnitLock) -> Ending:
        """Killed in the middle: let a command that lives come to its end, never start another, and say what stands."""
        del key
        ends = asyncio.get_running_loop().time() + self._settings.timeout.total_seconds()
        while not lock.take():
            if asyncio.get_running_loop().time() >= ends:
                return Ending("failed", "the command an earlier start of the agent began does not end")
            await asyncio.sleep(LOOK_AGAIN)
        if not self._settings.check:
            return Ending(
                "not_done", "the agent was started anew in the middle, and no check can say what came of it"
            )
        return await self._verify(order, "found again")

    async def _verify(self, order: RepairOrder, how: str) -> Ending:
        """Ask until nothing of the order stands, or the patience is over."""
        if not self._settings.check:
            if order.heal != RESET:
                return Ending(
                    "not_done", "no check can say whether the code went; right would be RELIGHT_REPAIR__CHECK"
                )
            return Ending("healed", f"{how}; not verified, no check is configured")
        argv = filled(self._settings.check, order.unit, order.chips)
        ends = asyncio.get_running_loop().time() + self._settings.verify_for.total_seconds()
        while True:
            end = await run(argv, self._settings.check_timeout, self._file(order, "check"))
            left = codes_left(order, end.output.splitlines()) if end.code == 0 else ()
            if end.code == 0 and not left:
                return Ending("healed", how)
            if asyncio.get_running_loop().time() >= ends:
                if end.code != 0:
                    touched = order.heal == RESET
                    return Ending("failed" if touched else "not_done", f"{how}; the check {end.told}")
                return Ending("still_faulty", how, left)
            await asyncio.sleep(self._settings.verify_every.total_seconds())

    # ------------------------------------------------------------ saying so

    async def _say_under_way(self, order: RepairOrder) -> None:
        """Under the node's version, so that no order is begun that was taken off. Raises OrderGone, ApiError."""
        answer = RepairAnswer(
            unit=order.unit, incident=order.incident, attempt=order.attempt, result="under_way"
        )
        for _ in range(CONFLICTS):
            node = await self._standing(order)
            try:
                await self._write(node, answer, versioned=True)
            except ApiConflict:
                continue
            return
        raise ApiConflict(f"the node never stood still to take the answer for {order.unit}")

    async def _answer(self, order: RepairOrder, key: Key) -> None:
        record = self._journal.find(key)
        if record is None or record.stage is not Stage.DONE or record.ending is None:
            raise RuntimeError(f"order {key} has no ending to tell")
        ending = record.ending
        if not record.told:
            signal = RepairResult(
                node=self._node,
                unit=order.unit,
                incident=order.incident,
                attempt=order.attempt,
                result=ending.result,
                codes_left=ending.codes_left,
                detail=ending.detail or None,
            )
            await self._tell(signal, "/".join(map(str, key)))
            self._journal.told(key)
            self._results[ending.result] += 1
        answer = RepairAnswer(
            unit=order.unit,
            incident=order.incident,
            attempt=order.attempt,
            result=ending.result,
            codes_left=ending.codes_left[:8],
            detail=ending.detail[:LONGEST_DETAIL] or None,
        )
        await self._write(await self._standing(order), answer, versioned=False)

    async def _standing(self, order: RepairOrder) -> Object:
        """The node now, if this very order stands on it. Raises OrderGone, ApiError."""
        try:
            node = await asyncio.to_thread(self._api.get, paths.nodes(self._node.name))
        except ApiNotFound:
            raise OrderGone(f"node {self._node.name} is gone") from None
        if node["metadata"]["uid"] != self._node.uid:
            raise OrderGone(f"node {self._node.name} is another one now")
        stands = orders_of(node)[0].get(order.unit)
        if stands is None or key_of(stands) != key_of(order):
            raise OrderGone("it was taken off the node, or another one took its place")
        return node

    async def _write(self, node: Object, answer: RepairAnswer, *, versioned: bool) -> None:
        metadata: Object = {
            "uid": self._node.uid,
            "annotations": {unit_key(REPAIRED, answer.unit): answer.to_text()},
        }
        if versioned:
            metadata["resourceVersion"] = node["metadata"]["resourceVersion"]
        path, body = paths.nodes(self._node.name), {"metadata": metadata}
        self._newest = await asyncio.to_thread(self._api.patch, path, body, manager=FIELD_MANAGER)
