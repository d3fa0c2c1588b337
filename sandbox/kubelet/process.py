"""One container as a local process in an enclosure of its own: start, signal, wait.

Guarantees: when `start` returns the command itself runs, and signals sent to `pid` reach it; the whole container is gone when its
first process is, and when the process that started it is (see `sandbox.kubelet.enclosure`).
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from sandbox import tied_process
from sandbox.errors import StartFailed
from sandbox.kubelet import identity

ENCLOSURE: Final = Path(__file__).resolve().with_name("enclosure.py")


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the machine, and where the container sees it."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """What runs in a container, and what it sees."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    hostname: str = "localhost"
    mounts: Sequence[Mount] = ()
    user: int | None = None
    group: int | None = None


def missing() -> str | None:
    """Why containers cannot be run on this machine, or None. Tries it: kernels and sandboxes differ in what they permit.

    A user namespace of one's own does not replace root: the kernel lays no overlay over a root that has other mounts in it.
    """
    if os.geteuid() != 0:
        return "containers need root: namespaces and mounts of their own"
    with tempfile.TemporaryDirectory(prefix="relight-kubelet-") as folder:
        try:
            process = ContainerProcess(Command(["true"]), Path(folder), Path(folder) / "log")
        except StartFailed as error:
            return f"containers need namespaces and overlay mounts of their own: {error}"
        return None if process.wait() == 0 else "a container that runs `true` fails"


class ContainerProcess:
    """A running container. Making one starts it.

    Args:
        command: what to run.
        folder: of this container's run alone; made when absent.
        log_file: where its output goes, appended.
        owner: what `identity.pod_of` says about its processes; nothing is kept without.

    Raises:
        StartFailed: the command could not be run; the message says why.
    """

    def __init__(
        self, command: Command, folder: Path, log_file: Path, owner: identity.Owner | None = None
    ) -> None:
        scratch = folder / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        spec = {**asdict(command), "scratch": str(scratch), "shared": [tempfile.gettempdir()]}
        spec_file = folder / "spec.json"
        spec_file.touch(mode=0o600)  # the environment may hold secrets
        spec_file.write_text(json.dumps(spec), encoding="utf-8")
        self._process, report = _start(spec_file, log_file)
        told = json.loads(report or '{"error": "the enclosure ended without a word"}')
        if "error" in told:
            self._process.wait()
            raise StartFailed(told["error"])
        self.pid: int = told["pid"]
        self._owner = None if owner is None else identity.note(owner, told["namespace"])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the container's first process, as a container runtime does. Does nothing when it has ended."""
        if self._process.poll() is None:  # while its parent lives its number cannot be given to another
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for the end; return the exit code, 128 + n when signal n ended it."""
        code = self._process.wait()
        if self._owner is not None:
            self._owner.unlink(missing_ok=True)
        return code if code >= 0 else 128 - code


def _start(spec_file: Path, log_file: Path) -> tuple[subprocess.Popen[bytes], bytes]:
    listening, report = os.pipe()
    try:
        with log_file.open("ab") as log:
            process = tied_process.start(
                [sys.executable, "-I", "-S", str(ENCLOSURE), str(spec_file)],
                stdin=report,
                stdout=log,
                stderr=log,
            )
    except OSError as error:
        os.close(listening)
        raise StartFailed(f"the enclosure did not start: {error}") from error
    finally:
        os.close(report)
    with open(listening, "rb") as pipe:  # noqa: PTH123 - a descriptor has no path
        return process, pipe.readline()
