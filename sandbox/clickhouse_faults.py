"""What the store of the sandbox can be told to suffer: lines that are cut, answers that are late, statements that are refused.

    store = ClickHouse(folder).start()
    store.suffer(Fault(Kind.CUT_AFTER, statements="INSERT"))     # the next insert runs, and nobody is told
    store.suffer(Fault(Kind.REFUSE, times=3))                    # then three statements are answered 503
    store.suffer(WRONG_PASSWORD)                                 # then no login is taken until `recover`
    store.recover()                                              # all of it is over
    store.suffered()                                             # how often one struck

A fault strikes the statements it names, `times` times (0: until `recover`); of several that fit, the oldest strikes. Over HTTP, on loopback as
all of the front: POST, DELETE and GET of ``/sandbox/faults``, a fault as a JSON object of its fields.
"""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final

PATH: Final = "/sandbox/faults"


class Kind(StrEnum):
    """What happens to a statement."""

    CUT_BEFORE = "cut-before"
    """The connection ends and the statement was not run."""
    CUT_AFTER = "cut-after"
    """The statement was run, and the connection ends without an answer."""
    DELAY = "delay"
    """The statement is run `seconds` later, also when nobody waits for it any more."""
    REFUSE = "refuse"
    """It is not run, and answered with `status`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, as often as it strikes.

    Args:
        kind: what happens.
        statements: first word of those it strikes, such as INSERT; empty: all.
        times: how often; 0: until `recover`.
        seconds: of a delay.
        status: HTTP status of a refusal. 503 without a code is what a balancer says.
        code: ClickHouse's number of the error; 0: the answer is not ClickHouse's own.
        message: the error's text.
    """

    kind: Kind
    statements: str = ""
    times: int = 1
    seconds: float = 0.0
    status: int = 503
    code: int = 0
    message: str = "refused as told"

    def to_json(self) -> bytes:
        """As `from_json` reads it."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Fault:
        """Raises ValueError, TypeError for what is no fault."""
        fields: dict[str, Any] = json.loads(text)
        fault = cls(**{**fields, "kind": Kind(fields["kind"])})
        if fault.times < 0 or fault.seconds < 0:
            raise ValueError("times and seconds are not negative")
        return fault


TOO_MUCH_MEMORY: Final = Fault(
    Kind.REFUSE, status=500, code=241, message="Memory limit (total) exceeded. (MEMORY_LIMIT_EXCEEDED)"
)
"""What a server in trouble says of a statement it could run later."""
WRONG_PASSWORD: Final = Fault(
    Kind.REFUSE, times=0, status=403, code=516,
    message="Authentication failed: password is incorrect, or there is no user. (AUTHENTICATION_FAILED)",
)  # fmt: skip
"""Somebody changed the password; true until `recover`."""


class Faults:
    """Those that stand; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._standing: list[Fault] = []
        self._struck = 0

    def add(self, fault: Fault) -> None:
        """From now on."""
        with self._lock:
            self._standing.append(fault)

    def clear(self) -> None:
        """No more; what was struck stays counted."""
        with self._lock:
            self._standing.clear()

    def strike(self, first_word: str) -> Fault | None:
        """The fault that strikes a statement now, counted; None for most."""
        with self._lock:
            for place, fault in enumerate(self._standing):
                if fault.statements and fault.statements.upper() != first_word.upper():
                    continue
                self._struck += 1
                if fault.times == 1:
                    del self._standing[place]
                elif fault.times > 1:
                    self._standing[place] = replace(fault, times=fault.times - 1)
                return fault
        return None

    def to_json(self) -> bytes:
        """Which stand, and how often one struck."""
        with self._lock:
            standing = [asdict(fault) for fault in self._standing]
            return json.dumps({"standing": standing, "struck": self._struck}).encode()
