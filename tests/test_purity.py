"""The core is pure: what decides has no clock, no I/O, no randomness.

Import contracts forbid modules; this looks at what is *called*, since ``datetime.now()`` or ``open()`` need no
import that a contract could name. rules reads files (that is what a loader is for), so reading is forbidden in
recovery only.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

CLOCKS = {"utcnow", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns"}
CLOCK_OWNERS = {"datetime", "date"}
DICE = {
    "uuid1",
    "uuid4",
    "urandom",
    "getrandbits",
    "randint",
    "randrange",
    "shuffle",
    "token_hex",
    "token_bytes",
}
HIDDEN_INPUT = {"environ", "getenv", "getpid", "gethostname", "stdin"}
FILES = {"read_text", "read_bytes", "write_text", "write_bytes", "iterdir"}
IMPURE_MODULES = {"random", "secrets", "socket", "subprocess", "threading", "time", "uuid"}

ATTRIBUTES_IN_RULES = frozenset(CLOCKS | DICE | HIDDEN_INPUT)
ATTRIBUTES_IN_RECOVERY = ATTRIBUTES_IN_RULES | FILES

# `hash` of a string differs from process to process: what is decided by it is decided by dice.
BUILTINS_IN_RULES = frozenset({"__import__", "breakpoint", "hash", "input", "print"})
# A compiler may evaluate what it built and tell objects apart by `id`; what decides has no need of either.
BUILTINS_IN_RECOVERY = BUILTINS_IN_RULES | {"eval", "exec", "id", "open"}


def impurities(source: str, attributes: frozenset[str], builtins: frozenset[str]) -> Iterator[str]:
    """Each place that reaches outside, as ``line: what``."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(
                attr="now" | "today" as attr, value=ast.Name(id=owner) | ast.Attribute(attr=owner)
            ):
                if owner in CLOCK_OWNERS:  # a parameter may well be called `now`
                    yield f"{node.lineno}: {owner}.{attr}"
            case ast.Attribute(attr=attr) if attr in attributes:
                yield f"{node.lineno}: .{attr}"
            case ast.Call(func=ast.Name(id=called)) if called in builtins:
                yield f"{node.lineno}: {called}()"
            case ast.Import(names=names):
                yield from (
                    f"{node.lineno}: import {one.name}" for one in names if _root(one.name) in IMPURE_MODULES
                )
            case ast.ImportFrom(module=str(module), names=names):
                if _root(module) in IMPURE_MODULES:
                    yield f"{node.lineno}: from {module}"
                yield from (f"{node.lineno}: import {one.name}" for one in names if one.name in attributes)
            case _:
                pass


def _root(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def _modules(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("path", _modules("recovery"), ids=lambda path: str(path.relative_to(ROOT)))
def test_recovery_reaches_nothing_outside_its_arguments(path: Path) -> None:
    assert (
        list(impurities(path.read_text(encoding="utf-8"), ATTRIBUTES_IN_RECOVERY, BUILTINS_IN_RECOVERY)) == []
    )


@pytest.mark.parametrize("path", _modules("rules"), ids=lambda path: str(path.relative_to(ROOT)))
def test_rules_has_no_clock_and_no_dice(path: Path) -> None:
    assert list(impurities(path.read_text(encoding="utf-8"), ATTRIBUTES_IN_RULES, BUILTINS_IN_RULES)) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import random as dice",
        "from time import monotonic",
        "from uuid import uuid4",
        "import os\nos.environ['HOME']",
        "from os import environ",
        "from datetime import datetime, UTC\ndatetime.now(UTC)",
        "import datetime\ndatetime.datetime.utcnow()",
        "from datetime import date\ndate.today()",
        "from datetime import datetime\nfield(default_factory=datetime.now)",
        "open('/etc/passwd')",
        "from pathlib import Path\nPath('x').read_text()",
        "hash('key') % 4",
        "eval('1')",
        "sorted(cells, key=lambda cell: id(cell))",
        "print('hello')",
    ],
)
def test_an_impure_module_would_be_seen(source: str) -> None:
    assert list(impurities(source, ATTRIBUTES_IN_RECOVERY, BUILTINS_IN_RECOVERY)) != []


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import UTC, datetime, timedelta\ndatetime.fromtimestamp(0, UTC) + timedelta(hours=24)",
        "import hashlib\nhashlib.sha256(b'x').hexdigest()",
        "def decide(now: object) -> object:\n    return now",
        "message.time",
        "turn.now",
    ],
)
def test_a_pure_module_is_left_alone(source: str) -> None:
    assert list(impurities(source, ATTRIBUTES_IN_RECOVERY, BUILTINS_IN_RECOVERY)) == []
