"""Kafka's own jars, fetched once a machine into the user's cache folder. ``python -m sandbox.kafka_jars`` prints where.

Guarantees: a folder with the final name is complete (it is filled under another name and renamed last); two
that fetch at once fetch once (a file lock); a fetch that was killed leaves nothing that counts, and the next
one clears it away. Maven is asked to verify checksums. The version stands here and nowhere else; it is part
of the folder's name, so that versions live side by side.

Maven is the way because that is where Kafka publishes its jars one by one, with what each needs.
"""

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from sandbox import maven
from sandbox.errors import PartMissing
from sandbox.part_cache import cache_folder, provide

KAFKA_VERSION = "4.1.0"
SCALA_VERSION = "2.13"
SLF4J_VERSION = "1.7.36"  # the slf4j-api that this Kafka asks for; the plain binding writes its log to a file

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


def jars_folder() -> Path:
    """Where the jars of this version are, or will be."""
    return cache_folder() / f"kafka-{KAFKA_VERSION}-scala-{SCALA_VERSION}-slf4j-{SLF4J_VERSION}"


def class_archive() -> Path | None:
    """Where Java's archive of these jars' classes is, or will be (see `sandbox.kafka_classes`); None where it is not seen which Java this is."""
    program = shutil.which("java")
    if program is None:
        return None
    classes = (
        Path(program).resolve().parents[1] / "lib" / "modules"
    )  # Java's own; an archive fits one of them
    if not classes.is_file():
        return None
    about = classes.stat()
    java = hashlib.sha256(f"{classes} {about.st_size} {about.st_mtime_ns}".encode()).hexdigest()[:12]
    return cache_folder() / f"{jars_folder().name}-classes-{java}" / "classes.jsa"


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
        PartMissing: Maven is not there, failed, or took too long.
    """
    return provide(jars_folder(), _fetch_into)


def _fetch_into(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="relight-maven-") as work:
        project = Path(work) / "pom.xml"
        project.write_text(POM, encoding="utf-8")
        maven.ask(
            f"Kafka {KAFKA_VERSION}",
            "copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={folder}",
            project=project,
        )


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
