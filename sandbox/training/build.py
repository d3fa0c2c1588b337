"""`python -m sandbox.training.build OUT.pyz`: the job as one file, as in a team's image; run with `python3 OUT.pyz --steps N ...`.

With it comes the one file of relight's that a training process may use (`supervisor/relight_progress.py`), and nothing else of relight.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

MAIN = """import os
import sys

from sandbox.training.loop import run
from sandbox.training.settings import read

sys.exit(run(read(sys.argv[1:], os.environ)))
"""
FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent


def build(out: Path) -> Path:
    """Write the file, whole or not at all; returns its path."""
    parts = [path for path in sorted(FOLDER.glob("*.py")) if path != Path(__file__).resolve()]
    new = out.with_name(out.name + ".new")
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", MAIN)
        archive.writestr("sandbox/__init__.py", "")
        archive.writestr("supervisor/__init__.py", "")
        for path in [*parts, ROOT / "supervisor" / "relight_progress.py"]:
            archive.write(path, path.relative_to(ROOT))
    new.replace(out)
    return out


if __name__ == "__main__":
    build(Path(sys.argv[1]))
