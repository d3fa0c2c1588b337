"""What a step sees of the world: the API within the command's time, a clock, a fan-out, a voice. All ports; tests script them.

Guarantee: after the command's time limit no call is begun, by whichever thread of the step, so that no command runs longer than the limit
and one call's timeout (finding R29). A call that is under way then is not cut: every write is conditional, so a late one does no harm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

from actuators.lots import Lots
from actuators.reply import OutOfTime
from actuators.settings import ActingSettings
from runtime.kubernetes import Listing, Object, PatchKind
from schemas.cluster import FIELD_MANAGER

T = TypeVar("T")
R = TypeVar("R")

FIRST_LOOK: Final = 0.5
"""Seconds after which what takes its time is looked at for the first time; twice as long for each look, up to the setting. Most of it is
done within a second: a job that waits two for a look waits for nothing."""
WAIT_MARGIN: Final = 3.0
"""Seconds past the time limit in which calls under way may end."""


class Api(Protocol):
    """The part of `runtime.kubernetes.Cluster` that steps use."""

    def get(self, path: str) -> Object:
        """One object."""
        ...

    def list(self, path: str, *, labels: str = "", fields: str = "") -> Listing:
        """All objects under a path."""
        ...

    def create(self, path: str, body: Object, **query: str) -> Object:
        """Make one."""
        ...

    def patch(
        self,
        path: str,
        body: Object | Sequence[Object],
        *,
        kind: PatchKind = PatchKind.MERGE,
        manager: str = "",
    ) -> Object:
        """Patch one; conditional by what stands in its metadata."""
        ...

    def delete(
        self, path: str, *, uid: str = "", resource_version: str = "", grace: int | None = None
    ) -> Object:
        """Delete one."""
        ...


@dataclass(frozen=True, slots=True)
class Words:
    """What is said on an object, in plain words: a Kubernetes Event."""

    about: Object
    reason: str
    text: str
    key: str
    """The same key is said once."""
    warning: bool = False


class Voice(Protocol):
    """Says what happens, where `kubectl describe` shows it. Never fails a step, never holds it up."""

    def say(self, words: Words) -> None:
        """Say it some time soon, or not at all."""
        ...


class Silence:
    """Says nothing: for whoever tells it otherwise."""

    def say(self, words: Words) -> None:
        """Nothing."""


class Budget:
    """Time of one command."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        """`clock` counts seconds and never goes back."""
        self._clock = clock
        self._end = clock() + seconds

    def left(self) -> float:
        """Seconds in which calls may still begin; negative afterwards."""
        return self._end - self._clock()

    def spend(self) -> None:
        """Raises OutOfTime when no call may begin any more."""
        if self.left() <= 0:
            raise OutOfTime("out_of_time", "the command's time is used up; what is done stays done")


class TimedApi:
    """The API within one command's time; writes carry our field manager."""

    def __init__(self, api: Api, budget: Budget) -> None:
        self._api = api
        self._budget = budget

    def get(self, path: str) -> Object:
        """One object, as the server has it now. Raises the errors of `runtime.errors`, or OutOfTime."""
        self._budget.spend()
        return self._api.get(path)

    def list(self, path: str, *, labels: str = "", fields: str = "") -> list[Object]:
        """All objects under a path that the selectors admit."""
        self._budget.spend()
        return self._api.list(path, labels=labels, fields=fields).items

    def merge(self, seen: Object, path: str, change: Object) -> Object:
        """Merge `change` into the object as it was `seen`: another UID or version is an ApiConflict, nothing is written then."""
        self._budget.spend()
        metadata = seen["metadata"]
        conditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {**change, "metadata": {**change.get("metadata", {}), **conditions}}
        return self._api.patch(path, body, kind=PatchKind.MERGE, manager=FIELD_MANAGER)

    def create(self, path: str, body: Object) -> Object:
        """Make an object under its own name: one that is there already is an ApiConflict, so that twice makes one."""
        self._budget.spend()
        return self._api.create(path, body)

    def try_to_create(self, path: str, body: Object) -> None:
        """Ask whether it would be admitted, and make nothing. Raises what making it would; ApiConflict: admitted, but the name is taken."""
        self._budget.spend()
        self._api.create(path, body, dryRun="All")

    def delete(self, seen: Object, path: str, *, grace: int | None = None, unchanged: bool = False) -> None:
        """Delete the object that was `seen`, by its UID; `unchanged`: only if nobody wrote it since."""
        self._budget.spend()
        metadata = seen["metadata"]
        version = metadata["resourceVersion"] if unchanged else ""
        self._api.delete(path, uid=metadata["uid"], resource_version=version, grace=grace)


@dataclass(frozen=True)
class World:
    """What one command may use."""

    api: TimedApi
    budget: Budget
    now: Callable[[], datetime]
    executor: Executor
    voice: Voice
    settings: ActingSettings
    lots: Lots[Any] = field(default_factory=Lots)
    """What threads of one process ask for together, since alone they would only get into each other's way at the server."""
    looks: int = 0
    """How many looks of this command went before."""

    @property
    def again(self) -> float:
        """Seconds until a look at what takes its time."""
        return min(self.settings.look_again.total_seconds(), FIRST_LOOK * 2.0 ** min(self.looks, 16))

    def spread(self, act: Callable[[T], R], items: Iterable[T]) -> list[R | Exception | None]:
        """`act` on all items, many at once. An exception is its item's result; None: not done in time.

        Only so many wait in the executor that a command for four pods need not wait for one for a thousand.
        """
        rest = iter(items)
        waiting: deque[Future[R]] = deque()
        results: list[R | Exception | None] = []
        for item in islice(rest, 2 * self.settings.fan_out):
            waiting.append(self.executor.submit(act, item))
        while waiting:
            result = self._result(waiting.popleft())
            results.append(result)
            waiting.extend(self.executor.submit(act, item) for item in islice(rest, 1))
        return results

    def _result(self, future: Future[R]) -> R | Exception | None:
        try:
            return future.result(max(0.0, self.budget.left() + WAIT_MARGIN))
        except TimeoutError:
            future.cancel()
            return None
        except Exception as error:  # noqa: BLE001 - one item's trouble is its own result
            return error
