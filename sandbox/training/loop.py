"""One rank from start to end: find the others, go on from the newest checkpoint all can read, step, save, say how it goes.

Ends with 0 at the last step, 143 at SIGTERM at once, 1 at SIGUSR1 (as if its code had raised something), and otherwise as `errors` says.
Nothing is tidied up at the end: whatever moment it is ended at, what stands on the disk is right (see `checkpoints`).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from sandbox.training import rendezvous
from sandbox.training.checkpoints import Checkpoints, Saved
from sandbox.training.errors import AskedToFail, TrainingError
from sandbox.training.exchange import Exchange
from sandbox.training.faults import Asked
from sandbox.training.model import Shard, State
from sandbox.training.pace import Pace
from sandbox.training.settings import Settings
from supervisor.relight_progress import tell

TERMINATED = 128 + signal.SIGTERM


class Rank:
    """One start of one rank."""

    def __init__(self, settings: Settings) -> None:
        me = settings.me
        self._settings = settings
        self._shard = Shard(settings.seed, me.rank)
        self._asked = Asked(settings.faults, me.rank)
        self._checkpoints = Checkpoints(
            settings.checkpoints, rank=me.rank, world=me.world, epoch=me.epoch, keep=settings.keep
        )

    def train(self) -> None:
        """To the last step.

        Raises:
            TrainingError: it cannot go on.
        """
        self._held = [device.open("rb") for device in self._settings.devices]  # as a driver's library does
        self._checkpoints.fence.begin()
        self._exchange = self._meet()
        tell("milestone", "communication_ready")
        state, pace = self._resume()
        resumed = state.step
        while state.step < self._settings.steps:
            began = time.monotonic()
            state = self._step(state)
            self._tell_step(state.step, time.monotonic() - began)
            if state.step == resumed + 1:
                tell("milestone", "first_step")
            if pace.step(time.monotonic() - began):
                tell("milestone", "stable")
            if state.step % self._settings.save_every == 0 or state.step == self._settings.steps:
                self._save(state, pace)
        say(self._settings, "finished", step=state.step, digest=state.digest)
        self._exchange.close()

    def _meet(self) -> Exchange:
        settings, me = self._settings, self._settings.me
        limits = {"patience": settings.patience, "silence": settings.silence}
        if me.rank == 0:
            return Exchange(me.rank, rendezvous.gather(settings.place, me, **limits), settings.silence)
        return Exchange(me.rank, [rendezvous.join(settings.place, me, **limits)], settings.silence)

    def _resume(self) -> tuple[State, Pace]:
        """Rank 0 chooses, all follow: ranks that looked by themselves could choose differently."""
        chosen = self._checkpoints.newest() if self._settings.me.rank == 0 else None
        named = self._exchange.together(chosen.folder.name.encode() if chosen else b"", lambda said: said[0])
        saved = self._checkpoints.named(named.decode()) if named else None
        state = self._state_of(saved)
        say(self._settings, "started", step=state.step)
        tell("milestone", "checkpoint_loaded")
        if saved is not None:
            _tell_checkpoint(saved.step, "restored", saved.folder)
        return state, Pace(saved.step_seconds if saved else None, self._settings.stable_within)

    def _state_of(self, saved: Saved | None) -> State:
        return State.new() if saved is None else State.from_bytes(self._checkpoints.read_part(saved))

    def _step(self, state: State) -> State:
        self._asked.hang(state.step)
        code = self._asked.exit_code(state.step)
        if code is not None:
            raise AskedToFail(code, f"asked to fail at step {state.step}")
        gradient = self._shard.gradient(state)
        if not self._asked.to_hurry():
            time.sleep(self._settings.step_seconds)
        return state.after(self._exchange.mean(gradient))

    def _tell_step(self, step: int, seconds: float) -> None:
        """With its duration, so that relight judges the pace itself; a job that shall never be stable keeps it to itself."""
        if self._settings.stable_within > 0:
            tell("step", step, step_seconds=round(seconds, 6))
        else:
            tell("step", step)

    def _save(self, state: State, pace: Pace) -> None:
        digest = self._checkpoints.write_part(state.step, state.to_bytes())

        def publish(digests: list[bytes]) -> bytes:
            self._checkpoints.publish(state.step, [said.decode() for said in digests], pace.baseline())
            return b"published"

        self._exchange.together(digest.encode(), publish)
        _tell_checkpoint(state.step, "end", self._checkpoints.folder_of(state.step))


def _tell_checkpoint(step: int, edge: str, folder: Path) -> None:
    """Never the `begin` of a save: these jobs save every second, and a supervisor keeps one word every two seconds (docs/supervisor.md)."""
    tell("checkpoint", step, edge=edge, tier="remote", path=str(folder))


def say(settings: Settings, what: str, **more: object) -> None:
    """One line of JSON on standard output and in the file of starts."""
    line = json.dumps(
        {
            "event": what,
            "rank": settings.me.rank,
            "epoch": settings.me.epoch,
            "schedule_count": settings.schedule_count,
            "start_count": settings.start_count,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "at": time.time(),
            **more,
        }
    )
    print(line, flush=True)  # noqa: T201 - a container's log is what it prints
    if settings.starts is None:
        return
    with settings.starts.open("a", encoding="utf-8") as file:
        file.write(line + "\n")  # one short write: lines of ranks do not mix


def run(settings: Settings) -> int:
    """The exit code of one start."""
    signal.signal(signal.SIGTERM, _end_now)
    signal.signal(signal.SIGUSR1, _fail)
    try:
        Rank(settings).train()
    except TrainingError as error:
        say(settings, "failed", error=str(error), code=error.code)
        return error.code
    return 0


def _fail(_signum: int, _frame: object) -> None:
    raise TrainingError("SIGUSR1: asked to fail as a fault of its own code would")


def _end_now(_signum: int, _frame: object) -> None:
    sys.stdout.flush()
    os._exit(TERMINATED)
