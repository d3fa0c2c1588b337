"""The program that becomes a container: its own root, mounts, processes and host name, then the container's command.

Run by `sandbox.kubelet.process` as ``python -I -S enclosure.py SPEC``; standard library only. SPEC is a JSON file with `argv`, `env`, `cwd`,
`hostname`, `user`, `group`, `mounts` (source, target, read_only), `shared` and `scratch`. Descriptor 0 is a pipe on which one line
is reported: the command's process id and the inode of its process namespace once it runs, or an `error`. Exit code: the command's
own, 128 + n for signal n, as container runtimes say it.

What the command sees: the machine's files, with a layer of its own over them that is gone with it (so a mount point can be made
anywhere and nothing of the machine is written to), the folders of `shared` as they are, and the volumes where its manifest wants
them. It is process 1 of its own namespace: signals it does not handle do not reach it, and when it ends everything it started
ends with it. Its parent, this program, dies with the kubelet, and it dies with its parent: nothing is ever left running.
"""

import ctypes
import json
import os
import signal
import sys
from typing import Any, Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWPID: Final = 0x20000000
MS_RDONLY: Final = 1
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
PR_SET_PDEATHSIG: Final = 1

_libc = ctypes.CDLL(None, use_errno=True)


def main(spec_file: str) -> int:
    """Enclose and run; return the exit code."""
    with open(spec_file, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 10 ms of each container's start
        spec = json.load(file)
    report = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    failure, told = os.pipe()
    waiting, go = os.pipe()
    try:
        _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS), "unshare")
    except OSError as error:
        _say(report, {"error": f"no namespaces of its own: {error}"})
        return 1
    child = os.fork()
    if child == 0:
        os.close(go)
        _become(spec, waiting, told)
    os.close(told)
    os.close(waiting)
    namespace = os.stat(f"/proc/{child}/ns/pid").st_ino  # noqa: PTH116 - as above
    os.write(go, b"!")
    with open(failure, "rb") as pipe:  # noqa: PTH123 - a descriptor has no path
        reason = pipe.read().decode("utf-8", "replace")  # ends when the command has taken over
    _say(report, {"error": reason} if reason else {"pid": child, "namespace": namespace})
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _say(report: int, line: dict[str, Any]) -> None:
    os.write(report, json.dumps(line).encode("utf-8") + b"\n")
    os.close(report)


def _become(spec: dict[str, Any], waiting: int, told: int) -> None:
    """Set everything up and become the command. Does not return; `told` is where the reason goes when it cannot."""
    try:
        _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
        if os.read(waiting, 1) == b"":  # the parent was gone before we asked to die with it
            os._exit(1)
        os.setsid()
        name = spec["hostname"].encode()
        _check(_libc.sethostname(name, len(name)), "sethostname")
        sources = _enter_root(spec)
        for source, mount in zip(sources, spec["mounts"], strict=True):
            _mount_volume(source, mount)
        os.chdir(spec["cwd"])
        if spec["group"] is not None:
            os.setgid(spec["group"])
        if spec["user"] is not None:
            os.setuid(spec["user"])
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606 - becoming the command is the point; no shell
    except OSError as error:
        os.write(told, f"{spec['argv'][0]}: {error}".encode())
    os._exit(1)


def _enter_root(spec: dict[str, Any]) -> list[int]:
    """Go into a root of our own; return descriptors of the volumes' folders, whose paths are out of reach from there."""
    mounted = _mounted_below_root()
    shared = [path for path in spec["shared"] if not any(_lies_in(path, point) for point in mounted)]
    scratch = spec["scratch"]
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    # The layer is in memory: an overlay cannot have another overlay as its upper side, and in a container / is one.
    _mount("tmpfs", scratch, "tmpfs", 0)
    upper, work, root = (f"{scratch}/{name}" for name in ("upper", "work", "root"))
    for folder in (upper, work, root):
        os.mkdir(folder)  # noqa: PTH102 - as above
    _mount("overlay", root, "overlay", 0, f"lowerdir=/,upperdir={upper},workdir={work}")
    for point in [*mounted, *shared]:
        if point != "/proc":
            _mount(point, root + point, None, MS_BIND | MS_REC)
    _mount("proc", f"{root}/proc", "proc", 0)
    sources = [os.open(mount["source"], os.O_PATH | os.O_CLOEXEC) for mount in spec["mounts"]]
    os.chroot(root)
    os.chdir("/")
    return sources


def _mount_volume(source: int, mount: dict[str, Any]) -> None:
    path, target = f"/proc/self/fd/{source}", mount["target"]
    if os.path.isdir(path):  # noqa: PTH112 - as above
        os.makedirs(target, exist_ok=True)  # noqa: PTH103 - as above
    elif not os.path.exists(target):  # noqa: PTH110 - as above
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120 - as above
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    _mount(path, target, None, MS_BIND | MS_REC)
    if mount["read_only"]:
        _mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY)


def _mounted_below_root() -> list[str]:
    """Where other file systems are mounted, the outermost only: an overlay shows none of them."""
    points: set[str] = set()
    with open("/proc/self/mountinfo", encoding="utf-8") as table:  # noqa: PTH123 - as above
        for line in table:
            points.add(line.split()[4].encode("latin-1").decode("unicode_escape"))
    points.discard("/")
    outermost = [p for p in points if not any(p != other and _lies_in(p, other) for other in points)]
    return sorted(outermost)


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, options)]
    done = _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    _check(done, f"mount of {source} on {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
