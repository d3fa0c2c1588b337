"""Volumes of a pod as folders of the machine, and where its containers see them.

emptyDir, hostPath, downwardAPI, configMap, secret and projected (service account tokens with it); anything else is `Unsupported` and
said in the pod's status. An emptyDir lives as long as its pod, whatever its containers do. Files made from objects are swapped as a
whole by renaming one link, as the real kubelet does: a reader sees all old or all new ones.
"""

import os
import shutil
import stat
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from runtime.kubernetes import Object
from sandbox.errors import Unsupported
from sandbox.kubelet.command import Mount
from sandbox.kubelet.environment import Lookup
from sandbox.kubelet.fields import field_value, resource_value

Files = dict[str, bytes]
TokenSource = Callable[[Object, Object], bytes]
"""A service account token for a pod, as a `serviceAccountToken` projection asks for it."""

FROM_OBJECTS: Final = ("configMap", "secret", "downwardAPI", "projected")
CURRENT: Final = "..data"


class Volumes:
    """The volumes of one pod below `folder`."""

    def __init__(
        self,
        folder: Path,
        *,
        addresses: Mapping[str, str],
        look_up: Lookup,
        token: TokenSource,
        host_paths: Mapping[str, Path] | None = None,
    ) -> None:
        """`host_paths`: where paths of the node lie on this machine; others are the machine's own."""
        self._folder = folder
        self._host_paths = dict(host_paths or {})
        self._addresses = addresses
        self._look_up = look_up
        self._token = token
        self._paths: dict[str, Path] = {}

    def prepare(self, pod: Object) -> None:
        """Make what is not there yet. Raises Unsupported, or what `look_up` raises for an object that is not there (yet)."""
        for volume in pod["spec"].get("volumes") or []:
            if volume["name"] not in self._paths:
                self._paths[volume["name"]] = self._made(pod, volume)

    def refresh(self, pod: Object) -> None:
        """Bring downward-API files up to date with the pod's labels and annotations; nothing is written when nothing changed."""
        for volume in pod["spec"].get("volumes") or []:
            if "downwardAPI" in volume and volume["name"] in self._paths:
                _publish(self._paths[volume["name"]], self._downward(pod, volume["downwardAPI"]))

    def mounts(self, container: Object) -> list[Mount]:
        """Where a container sees its volumes, outer ones first."""
        found = []
        for mount in container.get("volumeMounts") or []:
            source = self._paths[mount["name"]]
            if mount.get("subPath"):
                source /= mount["subPath"]
                if not source.exists():
                    source.mkdir(parents=True)
            found.append(Mount(str(source), mount["mountPath"], bool(mount.get("readOnly"))))
        return sorted(found, key=lambda mount: mount.target.count("/"))

    def remove(self) -> None:
        """Remove what belongs to the pod alone."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _made(self, pod: Object, volume: Object) -> Path:
        name: str = volume["name"]
        path = self._folder / name
        if "hostPath" in volume:
            return _host_path(volume["hostPath"], self._host_paths)
        if "emptyDir" in volume:
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o777)  # whoever the container runs as
            return path
        if any(kind in volume for kind in FROM_OBJECTS):
            path.mkdir(parents=True, exist_ok=True)
            _publish(path, self._files(pod, volume))
            return path
        raise Unsupported(f"volume {name}: {', '.join(sorted(volume.keys() - {'name'}))}")

    def _files(self, pod: Object, source: Object) -> Files:
        if "projected" in source:
            found: Files = {}
            for part in source["projected"].get("sources") or []:
                found |= self._files(pod, part)
            return found
        if "downwardAPI" in source:
            return self._downward(pod, source["downwardAPI"])
        if "serviceAccountToken" in source:
            asked = source["serviceAccountToken"]
            return {asked["path"]: self._token(pod, asked)}
        if "configMap" in source:
            return self._looked_up(pod, "configmaps", source["configMap"], source["configMap"].get("name"))
        if "secret" in source:
            secret = source["secret"]
            return self._looked_up(pod, "secrets", secret, secret.get("secretName") or secret.get("name"))
        raise Unsupported(f"projection {sorted(source)}")

    def _looked_up(self, pod: Object, kind: str, source: Object, name: str) -> Files:
        optional = bool(source.get("optional"))
        data = self._look_up(kind, pod["metadata"]["namespace"], name, optional=optional) or {}
        items = source.get("items")
        if not items:
            return data
        missing = [item["key"] for item in items if item["key"] not in data]
        if missing and not optional:
            raise Unsupported(f"{name} has no keys {missing}")
        return {item["path"]: data[item["key"]] for item in items if item["key"] in data}

    def _downward(self, pod: Object, source: Object) -> Files:
        found: Files = {}
        for item in source.get("items") or []:
            if "fieldRef" in item:
                value = field_value(pod, item["fieldRef"]["fieldPath"], self._addresses)
            else:
                value = resource_value(pod, item["resourceFieldRef"], "")
            found[item["path"]] = value.encode()
        return found


def _host_path(source: Object, host_paths: Mapping[str, Path]) -> Path:
    path, kind = host_paths.get(source["path"].rstrip("/"), Path(source["path"])), source.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    if kind == "FileOrCreate" and not path.exists():
        path.touch()
    if not path.exists():
        raise Unsupported(f"hostPath {path}: there is no such file or folder")
    tests = {"Directory": stat.S_ISDIR, "File": stat.S_ISREG, "Socket": stat.S_ISSOCK}
    if kind in tests and not tests[kind](path.stat().st_mode):
        raise Unsupported(f"hostPath {path}: no {kind}")
    return path


def _publish(folder: Path, files: Files) -> None:
    """Let `folder` hold exactly these files, from one moment to the next."""
    current = folder / CURRENT
    before = current.resolve() if current.is_symlink() else None
    if before is not None and _read(before) == files:
        return
    after = folder / f"..{uuid.uuid4().hex}"
    after.mkdir()
    for name, content in files.items():
        file = after / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    link = folder / "..data_tmp"
    link.symlink_to(after.name)
    link.rename(current)
    for name in {Path(name).parts[0] for name in files}:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"{CURRENT}/{name}")
    if before is not None:
        shutil.rmtree(before)


def _read(folder: Path) -> Files:
    return {
        os.path.relpath(Path(at) / name, folder): (Path(at) / name).read_bytes()
        for at, _, names in os.walk(folder)
        for name in names
    }
