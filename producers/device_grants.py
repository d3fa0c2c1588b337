"""Which chips a pod was given, by the kubelet's own checkpoint of its device plugins, read again when it changed.

`/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint` is what the kubelet itself restores its grants from; vendors' device plugins read
it too. It needs no gRPC, answers for pods whose vendors write no annotation, and costs one `stat` a question.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from producers.own_pods import chip_of_device
from runtime import logs

LARGEST: Final = 16 * 1024 * 1024
Grants = Callable[[str], tuple[str, ...]]
"""Chips of a pod UID; empty when it has none or nobody knows."""
_log = logs.get(__name__)


def nobody_knows(_uid: str) -> tuple[str, ...]:
    """No grants are known beside the pods' annotations."""
    return ()


class KubeletCheckpoint:
    """Grants by the checkpoint file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at: tuple[int, int, int] | None = None
        self._chips: dict[str, tuple[str, ...]] = {}

    def __call__(self, uid: str) -> tuple[str, ...]:
        """Chips of a pod."""
        self._refresh()
        return self._chips.get(uid, ())

    def _refresh(self) -> None:
        try:
            status = self._path.stat()
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            if version == self._read_at:
                return
            self._read_at = version
            self._chips = read_grants(_read(self._path))
        except FileNotFoundError:
            return  # no device plugin has granted anything here yet
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning(
                "device grants not read, the last ones stay", path=str(self._path), error=str(error)[:200]
            )


def _read(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"more than {LARGEST:,} characters")
    return text


def read_grants(text: str) -> dict[str, tuple[str, ...]]:
    """Chips by pod UID. Devices stand by NUMA node (since 1.20) or in one list (before). Raises ValueError and kin."""
    entries: list[dict[str, Any]] = json.loads(text)["Data"]["PodDeviceEntries"] or []
    found: dict[str, list[str]] = {}
    for entry in entries:
        devices = entry["DeviceIDs"]
        lists = devices.values() if isinstance(devices, dict) else [devices]
        chips = found.setdefault(str(entry["PodUID"]), [])
        chips += [chip_of_device(str(device)) for some in lists for device in some]
    return {uid: tuple(dict.fromkeys(chips)) for uid, chips in found.items()}
