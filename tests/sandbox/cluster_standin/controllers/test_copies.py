"""The copies know what was written ourselves before anybody tells it, and the newer version of an object wins, whoever told it."""

from __future__ import annotations

from typing import Any

from runtime.informer import Difference
from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers.copies import UNSEEN_SECONDS, Copies
from sandbox.cluster_standin.controllers.writes import Kind


def item(version: int, uid: str = "u", **more: Any) -> Object:
    return {"metadata": {"namespace": "ns", "name": "a", "uid": uid, "resourceVersion": str(version)}, **more}


class Scene:
    def __init__(self) -> None:
        self.seconds = 100.0
        self.changes: list[Kind] = []
        self.copies = Copies(self.changes.append, clock=lambda: self.seconds)

    def tell(self, old: Object | None, new: Object | None) -> None:
        self.copies.told(Kind.PODS, Difference(old, new))

    def version(self) -> str | None:
        found = self.copies.find(Kind.PODS, "ns", "a")
        return None if found is None else str(found["metadata"]["resourceVersion"])


def test_what_was_written_is_known_at_once_and_what_is_older_does_not_undo_it() -> None:
    scene = Scene()
    scene.tell(None, item(1))
    scene.copies.wrote(Kind.PODS, item(5))

    scene.tell(item(1), item(3))
    assert scene.version() == "5"

    scene.tell(item(3), item(7))
    assert scene.version() == "7"


def test_an_answer_that_comes_late_does_not_bring_back_what_is_gone() -> None:
    scene = Scene()
    scene.tell(None, item(1))
    scene.tell(item(9), None)

    scene.copies.wrote(Kind.PODS, item(5))

    assert scene.version() is None
    assert scene.copies.all(Kind.PODS) == []


def test_one_made_anew_under_the_name_is_known() -> None:
    scene = Scene()
    scene.tell(None, item(1))
    scene.copies.gone(Kind.PODS, item(1))

    scene.tell(item(1), None)
    scene.tell(None, item(8, uid="another"))

    assert scene.version() == "8"


def test_a_change_that_has_no_version_yet_counts_until_the_next_one_is_told() -> None:
    scene = Scene()
    scene.tell(None, item(4))
    scene.copies.wrote(Kind.PODS, item(4, bound=True))

    scene.tell(None, item(4))  # told late
    assert scene.copies.all(Kind.PODS)[0].get("bound")

    scene.tell(item(4), item(5))
    assert scene.version() == "5"


def test_what_a_whole_list_has_not_is_gone_unless_it_was_just_written() -> None:
    scene = Scene()
    scene.copies.wrote(Kind.PODS, item(5))

    scene.copies.listed(Kind.PODS, [])
    assert scene.version() == "5"

    scene.seconds += UNSEEN_SECONDS + 0.1
    scene.copies.listed(Kind.PODS, [])
    assert scene.version() is None


def test_only_what_comes_from_outside_wakes() -> None:
    scene = Scene()
    scene.copies.wrote(Kind.PODS, item(1))
    assert scene.changes == []

    scene.tell(None, item(2))
    assert scene.changes == [Kind.PODS]
