"""Print the part of requirements.lock that some packages need, hashes included; of relight itself without a name.

    python deploy/locked.py > runtime.lock
    python deploy/locked.py hatchling > build.lock

The lock names what tests need as well. What is printed is as exact: the image is installed by `pip install --require-hashes --no-deps`.
Standard library only: it runs in the image's first stage, before anything is installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENTRY = re.compile(r"^([a-z0-9._-]+)==.*?(?=^[a-z0-9._-]+==|\Z)", re.MULTILINE | re.DOTALL)
VIA = re.compile(r"^ *# via (.+)$", re.MULTILINE)


def needed(lock: str, roots: set[str]) -> list[str]:
    """Entries of the roots and of whatever they lead to, in the lock's order. Raises KeyError for a root that is not in the lock."""
    entries = {match[1]: match[0] for match in ENTRY.finditer(lock)}
    if missing := roots - entries.keys():
        raise KeyError(f"not in the lock: {', '.join(sorted(missing))}")
    users = {name: set(re.split(r", ", VIA.findall(entry)[0])) for name, entry in entries.items()}
    found, before = set(roots), set()
    while found != before:
        before = set(found)
        found |= {name for name, by in users.items() if by & found}
    return [entry for name, entry in entries.items() if name in found]


def of_relight(project: str) -> set[str]:
    """Names of what relight needs to run."""
    wanted = tomllib.loads(project)["project"]["dependencies"]
    return {
        re.split(r"[^a-zA-Z0-9._-]", one)[0].lower().replace(".", "-").replace("_", "-") for one in wanted
    }


if __name__ == "__main__":
    named = set(sys.argv[1:]) or of_relight((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    sys.stdout.writelines(needed((ROOT / "requirements.lock").read_text(encoding="utf-8"), named))
