"""Kafka's own jars, fetched once a machine into the user's cache folder. ``python -m sandbox.kafka_jars`` prints where.

Guarantees: a folder with the final name is complete (it is filled under another name and renamed last); two
that fetch at once fetch once (a file lock); a fetch that was killed leaves nothing that counts, and the next
one clears it away. Maven is asked to verify checksums. The version stands here and nowhere else; it is part
of the folder's name, so that versions live side by side.

Maven is the way because that is where Kafka publishes its jars one by one, with what each needs.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.errors import PartMissing

KAFKA_VERSION = "4.1.0"
SCALA_VERSION = "2.13"
SLF4J_VERSION = "1.7.36"  # the slf4j-api that this Kafka asks for; the plain binding writes its log to a file
DEPENDENCY_PLUGIN_VERSION = "3.8.1"
FETCH_SECONDS = 600

POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dev.relight</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_{SCALA_VERSION}</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>{SLF4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def cache_folder() -> Path:
    """Where real parts are kept between runs: ``$XDG_CACHE_HOME/relight``, by default ``~/.cache/relight``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path is to be ignored.
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "relight"


def jars_folder() -> Path:
    """Where the jars of this version are, or will be."""
    return cache_folder() / f"kafka-{KAFKA_VERSION}-scala-{SCALA_VERSION}-slf4j-{SLF4J_VERSION}"


def missing() -> str | None:
    """What a broker lacks on this machine and how to get it, or None when it can start."""
    if shutil.which("java") is None:
        return "no `java` on the PATH (17 or newer)"
    if not jars_folder().is_dir():
        return f"Kafka's jars are not in {jars_folder()}: run `make real`"
    return None


def fetch() -> Path:
    """Make sure that the jars are in the cache and return their folder.

    Raises:
        PartMissing: Maven is not there, failed, or took longer than `FETCH_SECONDS`.
    """
    folder = jars_folder()
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(folder):
        if not folder.is_dir():
            _fetch_into(folder)
    return folder


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # ends with the process, however that ends
        yield


def _fetch_into(folder: Path) -> None:
    prefix = f".{folder.name}.part-"
    for leftover in folder.parent.glob(f"{prefix}*"):  # of a fetch that was killed: we hold the lock
        shutil.rmtree(leftover)
    part = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        (part / "pom.xml").write_text(POM, encoding="utf-8")
        _run_maven(part)
        (part / "jars").rename(folder)
    finally:
        shutil.rmtree(part)


def _run_maven(part: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise PartMissing("no `mvn` on the PATH: Kafka's jars are fetched with Maven (3.6 or newer)")
    command = [
        maven, "--batch-mode", "--quiet", "--strict-checksums", "--file", str(part / "pom.xml"),
        f"org.apache.maven.plugins:maven-dependency-plugin:{DEPENDENCY_PLUGIN_VERSION}:copy-dependencies",
        "-DincludeScope=runtime", f"-DoutputDirectory={part / 'jars'}",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise PartMissing(f"Maven did not fetch Kafka {KAFKA_VERSION} within {FETCH_SECONDS} s") from error
    if done.returncode != 0:
        raise PartMissing(f"Maven failed to fetch Kafka {KAFKA_VERSION}:\n{done.stdout}{done.stderr}")


def main() -> int:
    """Fetch, and say where the jars are."""
    try:
        folder = fetch()
    except PartMissing as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Kafka {KAFKA_VERSION}: {folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
