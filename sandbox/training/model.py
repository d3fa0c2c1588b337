"""What is trained: linear regression by gradient descent with momentum, in 64-bit floats, its data made from a seed.

Guarantees: the state after step n depends on seed, world size and n alone. Everything a step needs is in `State`: an optimizer with a memory
and a sampler with a position, so that a resume which forgets either ends elsewhere.
"""

from __future__ import annotations

import hashlib
import math
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass

FEATURES = 8
SAMPLES = 64  # of each rank
BATCH = 16  # samples a step looks at
RATE = 0.05
MOMENTUM = 0.9

_HEAD = struct.Struct("<QI")


@dataclass(frozen=True)
class State:
    """What a checkpoint holds."""

    step: int
    weights: tuple[float, ...]
    velocity: tuple[float, ...]

    @classmethod
    def new(cls) -> State:
        """Before the first step."""
        return cls(0, (0.0,) * FEATURES, (0.0,) * FEATURES)

    def to_bytes(self) -> bytes:
        """Exact: floats are kept bit by bit."""
        return _HEAD.pack(self.step, len(self.weights)) + to_bytes((*self.weights, *self.velocity))

    @classmethod
    def from_bytes(cls, raw: bytes) -> State:
        """The state `to_bytes` wrote.

        Raises:
            ValueError: these bytes are none.
        """
        if len(raw) < _HEAD.size:
            raise ValueError(f"{len(raw)} bytes are no state")
        step, size = _HEAD.unpack_from(raw)
        numbers = from_bytes(raw[_HEAD.size :])
        if len(numbers) != 2 * size:
            raise ValueError(f"a state of {size} weights has {2 * size} numbers, not {len(numbers)}")
        return cls(step, numbers[:size], numbers[size:])

    @property
    def digest(self) -> str:
        """Equal digests, equal bits."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def after(self, gradient: Sequence[float]) -> State:
        """One step on."""
        velocity = tuple(MOMENTUM * v - RATE * g for v, g in zip(self.velocity, gradient, strict=True))
        weights = tuple(w + v for w, v in zip(self.weights, velocity, strict=True))
        return State(self.step + 1, weights, velocity)


class Shard:
    """The samples of one rank."""

    def __init__(self, seed: int, rank: int) -> None:
        truth = random.Random(seed)  # noqa: S311 - data, no secret
        wanted = [truth.uniform(-1, 1) for _ in range(FEATURES)]
        # A rank's own stream; `random` promises the same numbers for the same seed in every release.
        own = random.Random(seed * 1_000_003 + rank + 1)  # noqa: S311 - data, no secret
        self._inputs = [[own.uniform(-1, 1) for _ in range(FEATURES)] for _ in range(SAMPLES)]
        self._targets = [_dot(wanted, row) + own.uniform(-0.1, 0.1) for row in self._inputs]

    def gradient(self, state: State) -> list[float]:
        """Mean gradient of the squared error over the batch that belongs to this step."""
        summed = [0.0] * FEATURES
        for offset in range(BATCH):
            chosen = (state.step * BATCH + offset) % SAMPLES
            row = self._inputs[chosen]
            error = _dot(state.weights, row) - self._targets[chosen]
            for index, value in enumerate(row):
                summed[index] += 2 * error * value
        return [value / BATCH for value in summed]


def mean(gradients: Sequence[Sequence[float]]) -> list[float]:
    """Of all ranks, summed in the order given: floats do not add up the same in another."""
    return [math.fsum(column) / len(gradients) for column in zip(*gradients, strict=True)]


def alone(steps: int, *, ranks: int, seed: int = 1) -> State:
    """What so many ranks end with, computed without processes, wires and files: what every run must end with."""
    shards = [Shard(seed, rank) for rank in range(ranks)]
    state = State.new()
    for _ in range(steps):
        state = state.after(mean([shard.gradient(state) for shard in shards]))
    return state


def to_bytes(numbers: Sequence[float]) -> bytes:
    """Little-endian doubles."""
    return struct.pack(f"<{len(numbers)}d", *numbers)


def from_bytes(raw: bytes) -> tuple[float, ...]:
    """What `to_bytes` wrote.

    Raises:
        ValueError: not a whole number of doubles.
    """
    if len(raw) % 8:
        raise ValueError(f"{len(raw)} bytes are no doubles")
    return struct.unpack(f"<{len(raw) // 8}d", raw)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))
