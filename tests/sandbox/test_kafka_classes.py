"""The archive of Kafka's classes: one for each Java, used by every broker that starts."""

import os
import stat
from pathlib import Path

import pytest

from sandbox import kafka_jars
from sandbox.kafka_server import KafkaBroker
from tests.real import parts


def install_java(home: Path, classes: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that is first on the PATH; `classes` is what its own classes are, if it shows them."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(stat.S_IRWXU)
    if classes is not None:
        (home / "lib").mkdir()
        (home / "lib" / "modules").write_text(classes, encoding="utf-8")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def test_each_java_has_an_archive_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_java(tmp_path / "one", "seventeen", monkeypatch)
    first, again = kafka_jars.class_archive(), kafka_jars.class_archive()
    install_java(tmp_path / "other", "twenty-one", monkeypatch)
    other = kafka_jars.class_archive()

    assert first == again
    assert None not in {first, other}
    assert first != other


def test_a_java_that_does_not_show_its_classes_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path / "wrapper", None, monkeypatch)

    assert kafka_jars.class_archive() is None


def test_a_broker_has_the_archive_in_its_memory(kafka: KafkaBroker) -> None:
    archive = kafka_jars.class_archive()
    parts.need("The archive of Kafka's classes", _missing(archive))

    maps = Path(f"/proc/{kafka.pid}/maps").read_text(encoding="utf-8")

    assert str(archive) in maps


def _missing(archive: Path | None) -> str | None:
    return None if archive is not None and archive.is_file() else f"{archive} is not there: run `make real`"
