"""Maven, asked for jars: checksums verified, nothing printed unless it fails."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from sandbox.errors import PartMissing

DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
FETCH_SECONDS: Final = 600


def ask(what: str, goal: str, *arguments: str, project: Path | None = None) -> None:
    """Run a goal of the dependency plugin, in a project if one is given.

    Raises:
        PartMissing: Maven is not there, failed, or took longer than `FETCH_SECONDS`; the message says for what.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise PartMissing(f"no `mvn` on the PATH: {what} is fetched with Maven (3.6 or newer)")
    command = [maven, "--batch-mode", "--quiet", "--strict-checksums"]
    if project is not None:
        command += ["--file", str(project)]
    command += [f"{DEPENDENCY_PLUGIN}:{goal}", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise PartMissing(f"Maven did not fetch {what} within {FETCH_SECONDS} s") from error
    if done.returncode != 0:
        raise PartMissing(f"Maven failed to fetch {what}:\n{done.stdout}{done.stderr}")
