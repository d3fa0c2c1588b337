"""What a manifest says about variables, commands and its own fields, read as Kubernetes reads it."""

from typing import Any

import pytest

from runtime.kubernetes import Object
from sandbox.errors import Unsupported
from sandbox.kubelet.environment import argv, data_of, expanded, variables
from sandbox.kubelet.fields import field_value, quantity, resource_value

ADDRESSES = {"status.podIP": "127.70.3.2", "status.hostIP": "127.70.3.1"}


def pod(**main: Any) -> Object:
    return {
        "metadata": {
            "name": "rank-0",
            "namespace": "training",
            "uid": "u-1",
            "labels": {"app": "trainer"},
            "annotations": {"relight.dev/epoch": "3", "note": 'two\nlines "quoted"'},
        },
        "spec": {"nodeName": "node-7", "containers": [{"name": "main", **main}]},
    }


def read(wanted: Object, data: dict[str, dict[str, bytes]] | None = None) -> dict[str, str]:
    def look_up(kind: str, namespace: str, name: str, *, optional: bool) -> dict[str, bytes] | None:
        assert namespace == "training"
        found = (data or {}).get(f"{kind}/{name}")
        if found is None and not optional:
            raise Unsupported(f"no {kind} {name}")
        return found

    base = {"PATH": "/bin", "HOSTNAME": "rank-0"}
    of = pod(**wanted)
    return variables(of, of["spec"]["containers"][0], base=base, addresses=ADDRESSES, look_up=look_up)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "rank-0"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app']", "trainer"),
        ("metadata.annotations['relight.dev/epoch']", "3"),
        ("metadata.annotations['absent']", ""),
        ("metadata.annotations", 'note="two\\nlines \\"quoted\\""\nrelight.dev/epoch="3"'),
        ("spec.nodeName", "node-7"),
        ("status.podIP", "127.70.3.2"),
    ],
)
def test_a_field_reference_has_the_value_kubernetes_gives_it(path: str, value: str) -> None:
    assert field_value(pod(), path, ADDRESSES) == value


def test_a_field_that_is_not_known_is_not_guessed() -> None:
    with pytest.raises(Unsupported, match=r"spec\.hostname"):
        field_value(pod(), "spec.hostname", ADDRESSES)


@pytest.mark.parametrize(
    ("text", "divisor", "value"),
    [("1500m", "1", "2"), ("1500m", "1m", "1500"), ("2Gi", "1Mi", "2048"), ("2Gi", "0", "2147483648")],
)
def test_a_resource_is_told_in_units_of_its_divisor_rounded_up(text: str, divisor: str, value: str) -> None:
    of = pod(resources={"limits": {"cpu": text}})

    assert resource_value(of, {"resource": "limits.cpu", "divisor": divisor}, "main") == value


def test_a_quantity_that_is_none_is_refused() -> None:
    with pytest.raises(Unsupported, match="much"):
        quantity("much")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$(RANK) of $(SIZE)", "0 of 8"),
        ("$$(RANK)", "$(RANK)"),
        ("$(UNKNOWN) $RANK ${RANK}", "$(UNKNOWN) $RANK ${RANK}"),
    ],
)
def test_only_known_names_in_parentheses_are_expanded(text: str, value: str) -> None:
    assert expanded(text, {"RANK": "0", "SIZE": "8"}) == value


def test_later_variables_win_and_see_earlier_ones() -> None:
    entries = [{"name": "RANK", "value": "0"}, {"name": "SELF", "value": "$(HOSTNAME)/$(RANK)"}]
    many = [{"prefix": "CM_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}]
    data = {"configmaps/settings": {"a": b"1"}, "secrets/keys": {"RANK": b"9", "KEY": b"k"}}

    found = read({"env": entries, "envFrom": many}, data)

    assert found == {
        "PATH": "/bin", "HOSTNAME": "rank-0", "CM_a": "1", "KEY": "k", "RANK": "0", "SELF": "rank-0/0",
    }  # fmt: skip


@pytest.mark.parametrize("optional", [True, False])
def test_a_key_that_is_not_there_is_left_out_only_when_it_is_optional(optional: bool) -> None:
    reference = {"name": "settings", "key": "absent", "optional": optional}
    wanted = {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": reference}}]}

    if optional:
        assert "A" not in read(wanted, {"configmaps/settings": {"a": b"1"}})
    else:
        with pytest.raises(Unsupported, match="absent"):
            read(wanted, {"configmaps/settings": {"a": b"1"}})


def test_secrets_and_binary_data_are_decoded() -> None:
    assert data_of({"kind": "Secret", "data": {"key": "aGk="}}) == {"key": b"hi"}
    assert data_of({"kind": "ConfigMap", "data": {"a": "b"}, "binaryData": {"c": "AAE="}}) == {
        "a": b"b",
        "c": b"\x00\x01",
    }


def test_a_container_without_a_command_is_refused_and_never_guessed() -> None:
    with pytest.raises(Unsupported, match="no command"):
        argv({"name": "main", "image": "pytorch", "args": ["train.py"]}, {})
    assert argv({"name": "main", "command": ["run"], "args": ["$(A)"]}, {"A": "x"}) == ["run", "x"]
