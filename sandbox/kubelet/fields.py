"""What a manifest may ask about its own pod: `fieldRef` and `resourceFieldRef`, for variables and downward-API files alike."""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from runtime.kubernetes import Object
from sandbox.errors import Unsupported

SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
QUANTITY: Final = re.compile(r"([0-9.]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|)")
SUFFIXES: Final[Mapping[str, Decimal]] = {
    "m": Decimal("0.001"), "": Decimal(1),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}  # fmt: skip


def field_value(pod: Object, path: str, addresses: Mapping[str, str]) -> str:
    """Value of a `fieldRef`; `addresses` holds `status.podIP` and `status.hostIP`, which the kubelet itself knows first."""
    metadata = pod["metadata"]
    subscript = SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        return str((metadata.get(subscript[1]) or {}).get(subscript[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = metadata.get(path.removeprefix("metadata.")) or {}
        return "".join(f"{key}={_quoted(value)}\n" for key, value in sorted(pairs.items())).rstrip("\n")
    if path in ("metadata.name", "metadata.namespace", "metadata.uid"):
        return str(metadata[path.removeprefix("metadata.")])
    if path in ("spec.nodeName", "spec.serviceAccountName"):
        return str(pod["spec"].get(path.removeprefix("spec."), ""))
    if path in addresses:
        return addresses[path]
    raise Unsupported(f"fieldRef {path}")


def resource_value(pod: Object, reference: Object, container: str) -> str:
    """Value of a `resourceFieldRef`, in whole units of its divisor, rounded up as the kubelet does."""
    name = reference.get("containerName") or container
    found = [each for each in _containers(pod) if each["name"] == name]
    kind, _, resource = reference["resource"].partition(".")
    amount = found[0].get("resources", {}).get(kind, {}).get(resource) if found else None
    if amount is None:
        raise Unsupported(f"resourceFieldRef {reference['resource']}: {name} does not set it")
    divisor = quantity(reference.get("divisor") or "1") or Decimal(1)
    return str(math.ceil(quantity(amount) / divisor))


def quantity(text: str | int) -> Decimal:
    """Number that a quantity such as ``1500m`` or ``2Gi`` stands for."""
    match = QUANTITY.fullmatch(str(text))
    if match is None:
        raise Unsupported(f"quantity {text!r}")
    return Decimal(match[1]) * SUFFIXES[match[2]]


def _containers(pod: Object) -> list[Object]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def _quoted(value: str) -> str:
    """As Go's %q writes it, for what is usual in annotations."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
