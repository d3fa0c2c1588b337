"""One container as a local process, in an enclosure of its own or plain: start, signal, wait.

Guarantees: when it is made the command itself runs, and signals sent to `pid` reach it; the whole container is gone when its
first process is, and when the process that started it is (see `sandbox.kubelet.enclosure` and `sandbox.kubelet.plain`).

What a plain one lacks: it sees the machine's processes and files, may write where this user may (also to read-only volumes), has the machine's
host name and, not being process 1, hears a SIGTERM that it does not handle.
"""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Final

from producers.supervisors.peers import process_mark
from sandbox import tied_process
from sandbox.errors import StartFailed
from sandbox.kubelet import identity
from sandbox.kubelet.command import Command
from sandbox.kubelet.real_paths import with_real_paths


class Way(StrEnum):
    """How a container is run."""

    ENCLOSED = "enclosed"
    """With its own root, mounts and process namespace: by root, where the kernel permits it."""
    PLAIN = "plain"
    """As processes of this user: sees the machine as it is, volumes where they really are (`sandbox.kubelet.real_paths`)."""


PROGRAMS: Final = {
    way: Path(__file__).resolve().with_name(name)
    for way, name in ((Way.ENCLOSED, "enclosure.py"), (Way.PLAIN, "plain.py"))
}


@functools.cache
def best_way() -> Way:
    """Enclosed where this machine lets this user, else plain."""
    return Way.ENCLOSED if missing() is None else Way.PLAIN


def missing() -> str | None:
    """Why enclosed containers cannot be run here, or None. Tries it: kernels and sandboxes differ in what they permit.

    A user namespace of one's own does not replace root: the kernel lays no overlay over a root that has other mounts in it.
    """
    if os.geteuid() != 0:
        return "enclosed containers need root: namespaces and mounts of their own"
    with tempfile.TemporaryDirectory(prefix="relight-kubelet-") as folder:
        try:
            process = ContainerProcess(Command(["true"]), Path(folder), Path(folder) / "log")
        except StartFailed as error:
            return f"enclosed containers need namespaces and overlay mounts of their own: {error}"
        return None if process.wait() == 0 else "a container that runs `true` fails"


class ContainerProcess:
    """A running container. Making one starts it.

    Args:
        command: what to run.
        folder: of this container's run alone; made when absent.
        log_file: where its output goes, appended.
        owner: what `identity.pod_of` says about its processes; nothing is kept without.
        way: enclosed or plain.

    Raises:
        StartFailed: the command could not be run; the message says why.
    """

    def __init__(
        self,
        command: Command,
        folder: Path,
        log_file: Path,
        owner: identity.Owner | None = None,
        way: Way = Way.ENCLOSED,
    ) -> None:
        if way is Way.PLAIN:
            _check_plain(command)
            command = with_real_paths(command)
        scratch = folder / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        spec = {**asdict(command), "scratch": str(scratch), "shared": [tempfile.gettempdir()]}
        spec_file = folder / "spec.json"
        spec_file.touch(mode=0o600)  # the environment may hold secrets
        spec_file.write_text(json.dumps(spec), encoding="utf-8")
        self._process, report = _start(PROGRAMS[way], spec_file, log_file)
        told = json.loads(report or '{"error": "what runs the container ended without a word"}')
        if "error" in told:
            self._process.wait()
            raise StartFailed(told["error"])
        self.pid: int = told["pid"]
        # By what its processes have in common: a namespace, or the program above them all, which adopts their orphans.
        mark = str(told["namespace"]) if way is Way.ENCLOSED else process_mark(self._process.pid)
        self._owner = None if owner is None or mark is None else identity.note(owner, mark)

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


def _check_plain(command: Command) -> None:
    lacking = [mount.source for mount in command.mounts if not Path(mount.source).exists()]
    if lacking:
        raise StartFailed(f"{lacking[0]}: there is no such volume")
    for wanted, own in ((command.user, os.geteuid()), (command.group, os.getegid())):
        if os.geteuid() != 0 and wanted not in (None, own):
            raise StartFailed(f"to run as {wanted} needs root; this kubelet runs as {own}")


def _start(program: Path, spec_file: Path, log_file: Path) -> tuple[subprocess.Popen[bytes], bytes]:
    listening, report = os.pipe()
    try:
        with log_file.open("ab") as log:
            process = tied_process.start(
                [sys.executable, "-I", "-S", str(program), str(spec_file)],
                stdin=report,
                stdout=log,
                stderr=log,
            )
    except OSError as error:
        os.close(listening)
        raise StartFailed(f"{program.name} did not start: {error}") from error
    finally:
        os.close(report)
    with open(listening, "rb") as pipe:  # noqa: PTH123 - a descriptor has no path
        return process, pipe.readline()
