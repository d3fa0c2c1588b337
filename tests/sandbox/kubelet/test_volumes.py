"""Volumes are folders where the manifest wants them; files made from objects change as a whole."""

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from runtime.kubernetes import Object
from sandbox.errors import Unsupported
from sandbox.kubelet.volumes import Volumes


def pod(*volumes: Object, **annotations: str) -> Object:
    metadata = {"name": "rank-0", "namespace": "training", "uid": "u-1", "annotations": annotations}
    return {"metadata": metadata, "spec": {"volumes": list(volumes), "containers": []}}


def told(*names: str) -> Object:
    items = [{"path": name, "fieldRef": {"fieldPath": f"metadata.annotations['{name}']"}} for name in names]
    return {"name": "told", "downwardAPI": {"items": items}}


def make(folder: Path, data: dict[str, dict[str, bytes]] | None = None) -> Volumes:
    def look_up(kind: str, namespace: str, name: str, *, optional: bool) -> dict[str, bytes] | None:
        assert namespace == "training"
        return (data or {}).get(f"{kind}/{name}", None if optional else {})

    def token(_pod: Object, asked: Object) -> bytes:
        return f"for {asked.get('audience', 'the server')}".encode()

    return Volumes(folder / "volumes", addresses={}, look_up=look_up, token=token)


def sees(volumes: Volumes, name: str, **more: Any) -> Path:
    mount = volumes.mounts({"volumeMounts": [{"name": name, "mountPath": "/at", **more}]})[0]
    return Path(mount.source)


def test_files_are_those_of_the_annotations_and_follow_them(tmp_path: Path) -> None:
    volumes = make(tmp_path)
    volumes.prepare(pod(told("run", "epoch"), run="r1", epoch="1"))
    folder = sees(volumes, "told")
    assert ((folder / "run").read_text(), (folder / "epoch").read_text()) == ("r1", "1")

    volumes.refresh(pod(told("run", "epoch"), run="r1", epoch="2"))

    assert ((folder / "run").read_text(), (folder / "epoch").read_text()) == ("r1", "2")


def test_a_reader_never_sees_half_of_a_change(tmp_path: Path) -> None:
    volumes = make(tmp_path)
    volumes.prepare(pod(told("a", "b"), a="0", b="0"))
    folder, over = sees(volumes, "told"), threading.Event()
    seen: list[tuple[str, str]] = []

    def read() -> None:
        while not over.is_set():
            try:
                at = (folder / "..data").resolve(strict=True)  # as one who reads several files together does
                seen.append(((at / "a").read_text(), (at / "b").read_text()))
            except FileNotFoundError:
                continue  # that version went while it was being read: look again

    reader = threading.Thread(target=read)
    reader.start()
    number = 0
    # Until the reader had its turn as well; the test's own time limit is the bound.
    while number < 200 or len(set(seen)) < 2:
        number += 1
        volumes.refresh(pod(told("a", "b"), a=str(number), b=str(number)))
    over.set()
    reader.join()

    assert [pair for pair in seen if pair[0] != pair[1]] == []
    assert (folder / "a").read_text() == str(number)


def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    volumes = make(tmp_path)
    volumes.prepare(pod(told("run"), run="r1"))
    before = (sees(volumes, "told") / "..data").readlink()

    volumes.refresh(pod(told("run"), run="r1", other="changed"))

    assert (sees(volumes, "told") / "..data").readlink() == before


def test_a_projected_volume_holds_what_all_its_sources_give(tmp_path: Path) -> None:
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "ca", "items": [{"key": "ca.crt", "path": "certs/ca.crt"}]}},
        {"secret": {"name": "absent", "optional": True}},
    ]
    volumes = make(tmp_path, {"configmaps/ca": {"ca.crt": b"PEM", "more": b"-"}})

    volumes.prepare(pod({"name": "access", "projected": {"sources": sources}}))

    folder = sees(volumes, "access")
    assert (folder / "token").read_bytes() == b"for the server"
    assert (folder / "certs" / "ca.crt").read_bytes() == b"PEM"
    assert not (folder / "more").exists()


def test_an_empty_dir_is_made_once_and_goes_with_its_pod(tmp_path: Path) -> None:
    volumes, of = make(tmp_path), pod({"name": "work", "emptyDir": {}})
    volumes.prepare(of)
    (sees(volumes, "work") / "kept").touch()

    volumes.prepare(of)
    assert (sees(volumes, "work") / "kept").exists()
    volumes.remove()

    assert not sees(volumes, "work").exists()


def test_a_host_path_is_the_folder_itself_and_outlives_the_pod(tmp_path: Path) -> None:
    volumes = make(tmp_path)
    volumes.prepare(
        pod({"name": "host", "hostPath": {"path": str(tmp_path / "new"), "type": "DirectoryOrCreate"}})
    )
    (sees(volumes, "host") / "written").touch()

    volumes.remove()

    assert (tmp_path / "new" / "written").exists()


def test_a_path_of_the_node_may_lie_elsewhere_on_the_machine(tmp_path: Path) -> None:
    def nowhere(kind: str, namespace: str, name: str, *, optional: bool) -> dict[str, bytes] | None:
        raise AssertionError((kind, namespace, name, optional))

    volumes = Volumes(
        tmp_path / "volumes",
        addresses={},
        look_up=nowhere,
        token=lambda _pod, _asked: b"",
        host_paths={"/run/of-the-node": tmp_path / "elsewhere"},
    )
    volumes.prepare(
        pod({"name": "host", "hostPath": {"path": "/run/of-the-node/", "type": "DirectoryOrCreate"}})
    )

    assert sees(volumes, "host") == tmp_path / "elsewhere"
    assert not Path("/run/of-the-node").exists()


@pytest.mark.parametrize("kind", ["", "Directory", "File", "Socket"])
def test_a_host_path_that_is_not_what_it_is_said_to_be_is_refused(tmp_path: Path, kind: str) -> None:
    made = {"File": "a-folder", "Socket": "a-folder", "Directory": "a-file", "": "nothing"}[kind]
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "a-file").touch()
    volume = {"name": "host", "hostPath": {"path": str(tmp_path / made), "type": kind}}

    with pytest.raises(Unsupported, match=made):
        make(tmp_path).prepare(pod(volume))


def test_a_socket_of_the_machine_can_be_mounted(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        volumes = make(tmp_path)

        volumes.prepare(pod({"name": "s", "hostPath": {"path": str(tmp_path / "s"), "type": "Socket"}}))

        assert sees(volumes, "s") == tmp_path / "s"


def test_a_volume_of_a_storage_system_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"data.*persistentVolumeClaim"):
        make(tmp_path).prepare(pod({"name": "data", "persistentVolumeClaim": {"claimName": "big"}}))


def test_outer_mounts_come_before_inner_ones(tmp_path: Path) -> None:
    volumes = make(tmp_path)
    volumes.prepare(pod({"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}))

    mounts = volumes.mounts(
        {
            "volumeMounts": [
                {"name": "a", "mountPath": "/data/inner", "subPath": "part", "readOnly": True},
                {"name": "b", "mountPath": "/data"},
            ]
        }
    )

    assert [(mount.target, mount.read_only) for mount in mounts] == [("/data", False), ("/data/inner", True)]
    assert Path(mounts[1].source).is_dir()
