"""The command and all that came of it: started in its own session, its orphans adopted, ended as a whole."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Sequence

PR_SET_CHILD_SUBREAPER = 36
MEMORY_EVENTS = (  # of cgroups v2 and v1, as a container sees its own
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
)
FORWARDED = tuple(
    getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT")
)  # fmt: skip


def adopt_orphans() -> bool:
    """Orphans of the command become our children, as PID 1 has them anyway; false when the kernel does not do it."""
    if os.getpid() == 1:
        return True
    try:
        import ctypes  # noqa: PLC0415 - small builds of Python lack it

        return bool(ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def descendants() -> set[int]:
    """Living processes below us, by the parents in /proc; zombies are dead."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = (
                Path("/proc", entry, "stat")
                .read_text(encoding="utf-8", errors="replace")
                .rpartition(")")[2]
                .split()
            )
        except OSError:
            continue
        if fields[0] not in ("Z", "X"):
            parents[int(entry)] = int(fields[1])
    below: set[int] = set()
    found = {os.getpid()}
    while found:
        found = {pid for pid, parent in parents.items() if parent in found} - below
        below |= found
    return below


def oom_kills(given: Path | None = None) -> int | None:
    """How often the kernel ended a process of this container for want of memory; none when it cannot be read."""
    for path in MEMORY_EVENTS if given is None else (given,):
        try:
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        except (OSError, ValueError, IndexError):
            continue
    return None


class Child:
    """The command of one start; `group` is its process group."""

    def __init__(self, *, adopts: bool) -> None:
        self._adopts = adopts
        self.pid: int | None = None
        self.group: int | None = None

    def start(self, command: Sequence[str], environment: dict[str, str]) -> int | None:
        """None when it runs, else the code a shell would give: 127 not found, 126 not executable.

        Signals we catch have their default again in it, since no handler outlives an exec.
        """
        self.group = None
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command is what this is for
                list(command),
                env=environment,
                start_new_session=True,
            )
        except FileNotFoundError:
            return 127
        except (OSError, ValueError, subprocess.SubprocessError):
            return 126
        self.pid = self.group = process.pid
        process.returncode = 0  # reaped here with all others, not by subprocess
        return None

    def forward(self, signum: int) -> None:
        """To the command alone, as it would get it without us: the others of its group may not expect it."""
        if self.pid is not None:
            _kill(self.pid, signum)

    def signal(self, signum: int) -> None:
        """To the group; TERM and KILL also to what left it."""
        if self.group is not None:
            _kill(-self.group, signum)
        if signum in (signal.SIGTERM, signal.SIGKILL):
            for pid in descendants():
                if _group_of(pid) != self.group:
                    _kill(pid, signum)

    def reap(self) -> int | None:
        """Reap whoever ended; the command's code (minus a signal) if it is among them."""
        code: int | None = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return code
            if pid == 0:
                return code
            if pid == self.pid:
                self.pid = None
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def gone(self) -> bool:
        """No process of it lives: the kernel knows no child of ours any more, adopted ones included."""
        if self.pid is not None:
            return False
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            if not self._adopts and (descendants() or self._group_lives()):
                return False  # not ours to reap, and alive: what left group and parent both cannot be seen
            self.group = None
            return True
        return False

    def _group_lives(self) -> bool:
        if self.group is None:
            return False
        try:
            os.killpg(self.group, 0)
        except OSError:
            return False
        return True


def end_like(code: int) -> None:
    """End as the command did: with its code, or by its signal (PID 1 cannot, and says 128 + n)."""
    if code < 0:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if -code not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-code, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
            os.kill(os.getpid(), -code)
        except (OSError, ValueError):
            pass
    os._exit(code if code >= 0 else 128 - code)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _kill(target: int, signum: int) -> None:
    try:
        os.kill(target, signum)
    except OSError:
        return
