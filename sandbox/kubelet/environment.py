"""Variables, command and arguments of a container, as its manifest says: values, references and $(EXPANSION)."""

import base64
import re
from collections.abc import Mapping
from typing import Final, Protocol

from runtime.kubernetes import Object
from sandbox.errors import Unsupported
from sandbox.kubelet.fields import field_value, resource_value

REFERENCE: Final = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


class Lookup(Protocol):
    """Reads what a manifest refers to in its own namespace."""

    def __call__(self, kind: str, namespace: str, name: str, *, optional: bool) -> dict[str, bytes] | None:
        """Data of a `configmaps` or `secrets` object; None when it is not there and optional."""


def data_of(found: Object) -> dict[str, bytes]:
    """What a ConfigMap or a Secret holds."""
    if found.get("kind") == "Secret":
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
    text = {key: value.encode() for key, value in (found.get("data") or {}).items()}
    return text | {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}


def variables(
    pod: Object,
    container: Object,
    *,
    base: Mapping[str, str],
    addresses: Mapping[str, str],
    look_up: Lookup,
) -> dict[str, str]:
    """All variables: `base` (the image's and the node's), then `envFrom`, then `env`; later ones win."""
    found = dict(base)
    namespace = pod["metadata"]["namespace"]
    for source in container.get("envFrom") or []:
        found.update(_all_of(source, namespace, look_up))
    for entry in container.get("env") or []:
        if "valueFrom" in entry:
            value = _referred(pod, container, entry["valueFrom"], addresses, look_up)
        else:
            value = expanded(entry.get("value") or "", found)
        if value is not None:
            found[entry["name"]] = value
    return found


def argv(container: Object, env: Mapping[str, str]) -> list[str]:
    """Program and arguments. There is no image whose entry point could be run: the command must be there."""
    command = container.get("command")
    if not command:
        raise Unsupported(f"container {container['name']} has no command, and there are no images here")
    return [expanded(word, env) for word in [*command, *(container.get("args") or [])]]


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Put variables in place of ``$(NAME)``; ``$$`` is a dollar sign, an unknown name stays as it is."""

    def put(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else env.get(name, match[0])

    return REFERENCE.sub(put, text)


def _all_of(source: Object, namespace: str, look_up: Lookup) -> dict[str, str]:
    kind, reference = (
        ("configmaps", source["configMapRef"])
        if "configMapRef" in source
        else ("secrets", source["secretRef"])
    )
    data = look_up(kind, namespace, reference["name"], optional=bool(reference.get("optional"))) or {}
    prefix = source.get("prefix") or ""
    return {f"{prefix}{key}": value.decode() for key, value in data.items()}


def _referred(
    pod: Object, container: Object, source: Object, addresses: Mapping[str, str], look_up: Lookup
) -> str | None:
    if "fieldRef" in source:
        return field_value(pod, source["fieldRef"]["fieldPath"], addresses)
    if "resourceFieldRef" in source:
        return resource_value(pod, source["resourceFieldRef"], container["name"])
    for kind, key in (("configmaps", "configMapKeyRef"), ("secrets", "secretKeyRef")):
        if key in source:
            reference = source[key]
            optional = bool(reference.get("optional"))
            data = look_up(kind, pod["metadata"]["namespace"], reference["name"], optional=optional) or {}
            if reference["key"] in data:
                return data[reference["key"]].decode()
            if optional:
                return None
            raise Unsupported(f"{reference['name']} has no key {reference['key']}")
    raise Unsupported(f"valueFrom {sorted(source)}")
