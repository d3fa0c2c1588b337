"""Where nothing can be mounted, a container is told the real places of its volumes instead.

Wherever a mount path, or something below it, stands in its arguments, its variables or its working directory, the volume's own folder is put
in its place; the deepest mount first, and only whole names: ``/data`` is not in ``/data-old`` nor in ``/home/data``. A path the program has
from elsewhere (built in, or read from a file) is the machine's own.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from sandbox.kubelet.command import Command, Mount


def with_real_paths(command: Command) -> Command:
    """The command as it runs without mounts."""
    put = substitution(command.mounts)
    return replace(
        command,
        argv=[put(word) for word in command.argv],
        env={name: put(value) for name, value in command.env.items()},
        cwd=put(command.cwd),
        mounts=(),
    )


def substitution(mounts: Sequence[Mount]) -> Callable[[str], str]:
    """Puts folders in the place of mount paths, once: what was put in is not looked at again."""
    folders = {mount.target.rstrip("/"): mount.source for mount in mounts}
    if not folders:
        return lambda text: text
    deepest_first = sorted(folders, key=len, reverse=True)
    # Before it, nothing a longer path could end with, and no `}` or `)` of an expansion; behind it, nothing that makes the name longer.
    found = re.compile(rf"(?<![\w./)}}~-])(?:{'|'.join(map(re.escape, deepest_first))})(?![\w.-])")
    return lambda text: found.sub(lambda match: folders[match[0]], text)
