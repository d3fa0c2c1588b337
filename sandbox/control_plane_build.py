"""The Kubernetes control plane's programs, built once a machine into the user's cache folder.

``python -m sandbox.control_plane_build`` builds them where they are not there yet and prints where they are: `etcd`,
`kube-apiserver`, `kube-controller-manager`, `kube-scheduler`. It takes some six minutes of two cores, so it is never done inside
a test.

Guarantees: a folder with the final name is complete (it is filled under another name and renamed last); two that build at once
build once (a file lock); a build that was killed leaves nothing that counts, and the next one clears it away, while Go's own
cache keeps what was compiled. The versions stand here and nowhere else; they are part of the folder's name.

Go modules are the way because that is where Kubernetes and etcd publish all of their sources, with checksums that Go verifies.
A dependency's `replace` lines do not hold for whoever requires it, and Kubernetes needs its own (it names its parts as folders
beside it), so they are read from its go.mod and written into ours with the version under which those parts are published.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from sandbox.errors import PartMissing
from sandbox.part_cache import cache_folder, provide

KUBERNETES_VERSION: Final = "v1.36.3"
STAGING_VERSION: Final = "v0" + KUBERNETES_VERSION.removeprefix(
    "v1"
)  # how k8s.io/api and its like are numbered
ETCD_VERSION: Final = "v3.6.16"

KUBERNETES: Final = "k8s.io/kubernetes"
ETCD: Final = "go.etcd.io/etcd/server/v3"
KUBERNETES_PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
PROGRAMS: Final = ("etcd", *KUBERNETES_PROGRAMS)

STEP_SECONDS: Final = 1800  # one program from nothing on one slow core
STAGED: Final = re.compile(r"^\s*(?:replace\s+)?(\S+)\s+=>\s+\./staging/src/\S+\s*$", re.MULTILINE)
GO_LINE: Final = re.compile(r"^go (\S+)$", re.MULTILINE)
STAMP: Final = "k8s.io/component-base/version"


def programs_folder() -> Path:
    """Where the programs of these versions are, or will be."""
    return cache_folder() / f"kubernetes-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}"


def program(name: str) -> Path:
    """Where one of `PROGRAMS` is, or will be."""
    return programs_folder() / name


def missing() -> str | None:
    """What a control plane lacks on this machine and how to get it, or None when it can start."""
    if not programs_folder().is_dir():
        return f"the Kubernetes control plane is not in {programs_folder()}: run `make real`"
    return None


def build() -> Path:
    """Make sure that the programs are in the cache and return their folder.

    Raises:
        PartMissing: Go is not there, failed, or took longer than `STEP_SECONDS` for one step.
    """
    return provide(programs_folder(), _build_into)


def staging_modules(go_mod: str) -> list[str]:
    """Return the modules that Kubernetes' go.mod takes from folders beside it."""
    return STAGED.findall(go_mod)


def _build_into(folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise PartMissing(
            "no `go` on the PATH: the Kubernetes control plane is built with Go (1.26 or newer)"
        )
    work = folder / ".build"
    _build_etcd(go, work / "etcd", folder)
    _build_kubernetes(go, work / "kubernetes", folder)
    shutil.rmtree(work)


def _build_etcd(go: str, module: Path, folder: Path) -> None:
    go_mod = _downloaded_go_mod(go, module, ETCD, ETCD_VERSION)
    _write_module(module, go_mod, requires={ETCD: ETCD_VERSION}, packages=[ETCD])
    _run(go, module, "finding what etcd needs", "mod", "tidy", "-e")
    _compile(go, module, ETCD, folder / "etcd", "-s -w")


def _build_kubernetes(go: str, module: Path, folder: Path) -> None:
    go_mod = _downloaded_go_mod(go, module, KUBERNETES, KUBERNETES_VERSION)
    packages = {name: f"{KUBERNETES}/cmd/{name}" for name in KUBERNETES_PROGRAMS}
    _write_module(
        module,
        go_mod,
        requires={KUBERNETES: KUBERNETES_VERSION},
        packages=packages.values(),
        replaces=[f"{name} => {name} {STAGING_VERSION}" for name in staging_modules(go_mod)],
    )
    _run(go, module, "finding what Kubernetes needs", "mod", "tidy", "-e")
    for name, package in packages.items():
        _compile(go, module, package, folder / name, f"-s -w {_stamps()}")


def _downloaded_go_mod(go: str, module: Path, name: str, version: str) -> str:
    module.mkdir(parents=True)
    said = _run(go, module, f"downloading {name} {version}", "mod", "download", "-json", f"{name}@{version}")
    return Path(json.loads(said)["GoMod"]).read_text(encoding="utf-8")


def _write_module(
    module: Path,
    go_mod: str,
    *,
    requires: Mapping[str, str],
    packages: Iterable[str],
    replaces: Sequence[str] = (),
) -> None:
    language = GO_LINE.search(go_mod)
    lines = ["module relight.dev/control-plane", ""]
    if language is not None:
        lines += [f"go {language.group(1)}", ""]
    lines += [f"require {name} {version}" for name, version in requires.items()]
    lines += [f"replace {line}" for line in replaces]
    (module / "go.mod").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # `go mod tidy` keeps what a source imports. Programs cannot be imported: -e lets that pass.
    imports = "".join(f'import _ "{package}"\n' for package in packages)
    (module / "programs.go").write_text(f"//go:build programs\n\npackage programs\n\n{imports}", "utf-8")


def _compile(go: str, module: Path, package: str, to: Path, linker_flags: str) -> None:
    _run(go, module, f"compiling {to.name}", "build", "-ldflags", linker_flags, "-o", str(to), package)


def _stamps() -> str:
    """What the programs say of themselves: a build from modules knows no version otherwise, and clients compare it."""
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    stamps = {
        "gitVersion": KUBERNETES_VERSION,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    return " ".join(f"-X {STAMP}.{name}={value}" for name, value in stamps.items())


def _run(go: str, module: Path, what: str, *arguments: str) -> str:
    sys.stderr.write(f"{what} ...")
    sys.stderr.flush()
    began = time.monotonic()
    try:
        done = subprocess.run(
            [go, *arguments],
            cwd=module,
            env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PartMissing(f"{what}: Go was not done within {STEP_SECONDS} s") from error
    sys.stderr.write(f" {time.monotonic() - began:.0f} s\n")
    if done.returncode != 0:
        raise PartMissing(f"{what}: Go failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> int:
    """Build, and say where the programs are."""
    try:
        folder = build()
    except PartMissing as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Kubernetes {KUBERNETES_VERSION}, etcd {ETCD_VERSION}: {folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
