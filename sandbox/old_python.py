"""Old interpreters for what runs in other people's images, fetched once a machine into the user's cache folder.

``python -m sandbox.old_python`` prints where they are. 3.8, the oldest Python that the supervisor is made for, is not published in
this way; one older and one newer are, and what works the same on both of them works on the one between.

Guarantees: a folder with the final name is complete and its interpreter has said its version (it is filled under another name and renamed
last); two that fetch at once fetch once; a fetch that was killed leaves nothing that counts. Maven is asked to verify checksums.
The versions stand here and nowhere else; each is part of its folder's name.

Maven is the way because that is where JavaCPP publishes CPython as it was built from python.org's sources, an old Linux's C library being
all that it needs.
"""

import platform
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sandbox import maven
from sandbox.errors import PartMissing
from sandbox.part_cache import cache_folder, provide

BUILDS: Final[Mapping[str, str]] = {"3.7.9": "1.5.4", "3.9.6": "1.5.6"}
"""Version of CPython, and of the build that holds it."""
MACHINES: Final[Mapping[str, str]] = {"x86_64": "linux-x86_64", "aarch64": "linux-arm64"}
NEEDED: Final = ("bin/python3", "lib/python3.", "libpython3.", "libffi.so")
NOT_NEEDED: Final = ("/test/", "/site-packages/", "/config-3.", "/ensurepip/", "/idlelib/", "/lib2to3/")
START_SECONDS: Final = 60


def interpreter(version: str) -> Path:
    """Where the interpreter of one of `BUILDS` is, or will be."""
    return _folder(version) / "bin" / "python3"


def missing(version: str) -> str | None:
    """What an old interpreter lacks on this machine and how to get it, or None when it is there."""
    if not _folder(version).is_dir():
        return f"CPython {version} is not in {_folder(version)}: run `make real`"
    return None


def fetch(version: str) -> Path:
    """Make sure that the interpreter is in the cache, and return it.

    Raises:
        PartMissing: Maven is not there or failed, or the interpreter does not start on this machine.
    """
    provide(_folder(version), lambda folder: _fetch_into(folder, version))
    return interpreter(version)


def _folder(version: str) -> Path:
    return cache_folder() / f"cpython-{version}-{BUILDS[version]}"


def _fetch_into(folder: Path, version: str) -> None:
    machine = MACHINES.get(platform.machine())
    if machine is None:
        raise PartMissing(
            f"CPython {version} is published for {', '.join(MACHINES)}, not {platform.machine()}"
        )
    with tempfile.TemporaryDirectory(prefix="relight-maven-") as work:
        maven.ask(
            f"CPython {version}",
            "copy",
            f"-Dartifact=org.bytedeco:cpython:{version}-{BUILDS[version]}:jar:{machine}",
            f"-DoutputDirectory={work}",
        )
        for jar in Path(work).glob("*.jar"):
            _unpack(jar, f"org/bytedeco/cpython/{machine}/", folder)
    _check_that_it_runs(folder / "bin" / "python3", version)


def _unpack(jar: Path, root: str, folder: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.infolist():
            name = entry.filename.removeprefix(root)
            wanted = name.startswith(NEEDED) and not any(part in name for part in NOT_NEEDED)
            if name == entry.filename or entry.is_dir() or not wanted:
                continue
            to = folder / name
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(archive.read(entry))
            if name.startswith("bin/"):
                to.chmod(0o755)  # archives of Java keep no modes


def _check_that_it_runs(program: Path, version: str) -> None:
    command = [str(program), "-I", "-S", "-c", "import platform; print(platform.python_version())"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PartMissing(f"CPython {version} does not start on this machine: {error}") from error
    if done.stdout.strip() != version:
        raise PartMissing(
            f"CPython {version} does not run on this machine (code {done.returncode}):\n{done.stdout}{done.stderr}"
        )


def main() -> int:
    """Fetch, and say where the interpreters are."""
    try:
        for version in BUILDS:
            if missing(version) is not None:
                sys.stderr.write(f"fetching CPython {version} ...\n")
            sys.stdout.write(f"CPython {version}: {fetch(version)}\n")
    except PartMissing as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
