"""A child process that cannot outlive the process which started it, however that one ends.

The kernel sends SIGKILL to the child when its parent is gone (PR_SET_PDEATHSIG), so a broker does not survive
a test run that was killed. Two traps are closed here. The kernel's "parent" is the *thread* that started the
child, and threads of a pool end early: one thread of ours, which lives as long as the process, starts them
all. And the parent may be gone before the child has asked: the child looks again afterwards. The request is
made by a small program that then becomes the child (`sandbox.tying`), not in a ``preexec_fn``, which may deadlock with threads.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final

SMALL_PROGRAM: Final = Path(__file__).resolve().with_name("tying.py")

_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tied-process")


def start(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own (Ctrl-C reaches the caller only); it dies with the calling process.

    The process id is the command's own: signals sent to it reach it. When this returns the command is running and
    tied. None for `env` hands on the caller's.

    Raises:
        OSError: the command could not be run, as from `subprocess.Popen`.
    """

    def begin() -> subprocess.Popen[bytes]:
        failure, told = os.pipe()
        # -I and -S: the small program needs the standard library only and starts in some 20 ms.
        tied = [
            sys.executable,
            "-I",
            "-S",
            str(SMALL_PROGRAM),
            str(os.getpid()),
            str(told),
            *command,
        ]
        try:
            child = subprocess.Popen(
                tied,
                env=env,
                cwd=cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=(told,),
            )
        except BaseException:
            os.close(failure)
            raise
        finally:
            os.close(told)
        with open(failure, "rb") as pipe:  # noqa: PTH123 - a descriptor has no path
            reason = pipe.read()  # ends when the command has taken over, which closes the other end
        if reason:
            child.wait()
            raise OSError(int(reason), os.strerror(int(reason)), command[0])
        return child

    return _starter.submit(begin).result()
