"""The small program of `sandbox.tied_process`: asks the kernel to die with its parent, then becomes the command it was given.

Run as ``python -I -S tying.py PARENT_PID DESCRIPTOR COMMAND...``. It imports next to nothing: every child of the sandbox starts with it,
and importing what its caller needs would take it 35 ms.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def become(parent_pid: int, told: int, command: list[str]) -> None:
    """Ask to die with `parent_pid`, then become `command`. Does not return; `told` is where an error number goes."""
    os.set_inheritable(told, False)  # noqa: FBT003 - positional only
    try:
        _die_with_parent()
        if os.getppid() != parent_pid:  # the parent was gone before we asked
            sys.exit(1)
        os.execvp(command[0], command)  # noqa: S606 - becoming the command is the point; no shell
    except OSError as error:
        os.write(told, str(error.errno).encode("ascii"))
        sys.exit(1)


def _die_with_parent() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) was refused")


if __name__ == "__main__":
    become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
