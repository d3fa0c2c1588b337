"""The program that stands over a container without an enclosure: runs its command, hears of its end, leaves nothing of it behind.

Run by `sandbox.kubelet.process` as ``python -I -S plain.py SPEC``, for users who may not make namespaces; standard library only. SPEC is a JSON
file with `argv`, `env`, `cwd`, `user` and `group`. Descriptor 0 is a pipe on which one line is reported: the command's process id once it
runs, or an `error`. Exit code: the command's own, 128 + n for signal n, as container runtimes say it.

Everything the command starts stays below this program, since the kernel gives it their orphans (PR_SET_CHILD_SUBREAPER): so who speaks for
the container is known by its ancestors, and when the command has ended, or the kubelet has (PR_SET_PDEATHSIG), all of it is killed. Only
a SIGKILL to this program itself leaves more than the command, which dies with it, to end by itself.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from typing import Any, Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
AGAIN_SECONDS: Final = 0.005

_libc = ctypes.CDLL(None, use_errno=True)


def main(spec_file: str) -> int:
    """Run the command to its end; return the exit code."""
    with open(spec_file, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 10 ms of each container's start
        spec = json.load(file)
    report = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGTERM, lambda *_: _end_with_kubelet())
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(
        PR_SET_PDEATHSIG, signal.SIGTERM
    )  # not SIGKILL, as it was started with: what is below has to be ended
    failure, told = os.pipe()
    child = os.fork()
    if child == 0:
        _become(spec, told)
    os.close(told)
    with open(failure, "rb") as pipe:  # noqa: PTH123 - a descriptor has no path
        reason = pipe.read().decode("utf-8", "replace")  # ends when the command has taken over
    line: dict[str, Any] = {"error": reason} if reason else {"pid": child}
    os.write(report, json.dumps(line).encode("utf-8") + b"\n")
    os.close(report)
    _wait_for(child)
    _end_all_but(child)
    _, status = os.waitpid(
        child, 0
    )  # until now its number was not given to another: signals went to it or to nobody
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become(spec: dict[str, Any], told: int) -> None:
    """Become the command. Does not return; `told` is where the reason goes when it cannot."""
    try:
        parent = os.getppid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        os.chdir(spec["cwd"])
        if spec["group"] is not None:
            os.setgid(spec["group"])
        if spec["user"] is not None:
            os.setuid(spec["user"])
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # last: the kernel forgets it with a change of user
        if os.getppid() != parent:  # it was gone before we asked to die with it
            os._exit(1)
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606 - becoming the command is the point; no shell
    except OSError as error:
        os.write(told, f"{spec['argv'][0]}: {error}".encode())
    os._exit(1)


def _wait_for(child: int) -> None:
    """Until the command has ended; orphans that end before it are laid to rest."""
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        if ended is None or ended.si_pid == child:
            return
        os.waitpid(ended.si_pid, 0)


def _end_all_but(spared: int) -> None:
    """Kill whatever is below us until nothing is. What one kill orphans becomes our child and is met in the next round."""
    while others := _below_us() - {spared}:
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in others:
            with contextlib.suppress(ChildProcessError):  # not our own yet
                os.waitpid(pid, os.WNOHANG)
        time.sleep(AGAIN_SECONDS)


def _end_with_kubelet() -> None:
    _end_all_but(0)
    os._exit(128 + signal.SIGTERM)


def _below_us() -> set[int]:
    """Processes with us among their ancestors, those included that have ended and are not laid to rest."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - as above
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", encoding="latin-1") as stat:  # noqa: PTH123 - as above
                parents[int(entry)] = int(stat.read().rpartition(")")[2].split()[1])
    below: set[int] = set()
    found = {os.getpid()}
    while found:
        found = {pid for pid, parent in parents.items() if parent in found}
        below |= found
    return below


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
