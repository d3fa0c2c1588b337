"""`python -m supervisor.build OUT.pyz`: one zipapp, the same bytes from the same sources."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

LEFT_OUT = ("build.py", "wrapper.py", "relight_progress.py")
MAIN = "from supervisor.entry import main\nmain()\n"


def build(out: Path) -> None:
    """Write the zipapp, whole or not at all."""
    room = Path(__file__).resolve().parent
    new = out.with_name(out.name + ".new")
    with new.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            _add(archive, "__main__.py", MAIN)
            for path in sorted(room.glob("*.py")):
                if path.name not in LEFT_OUT:
                    _add(archive, "supervisor/" + path.name, path.read_text(encoding="utf-8"))
    new.chmod(0o755)
    new.replace(out)


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, text)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
