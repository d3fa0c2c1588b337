"""Versions rise whatever happens, what happened is kept for a while, and who does not read is cut off."""

from __future__ import annotations

import pytest

from sandbox.cluster_standin import store as stores
from sandbox.cluster_standin.refusals import Refusal
from sandbox.cluster_standin.resources import CONFIG_MAPS, LEASES
from sandbox.cluster_standin.store import Store


def an_object(name: str = "c", **more: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "team", **more}}


def test_a_process_that_is_started_again_begins_above_every_version_of_the_one_before() -> None:
    first = Store(now=lambda: 1000.0)
    for number in range(50):
        first.put(CONFIG_MAPS, an_object(f"c{number}"))

    second = Store(now=lambda: 1001.0)

    assert second.version > first.version
    with pytest.raises(Refusal) as refused:
        second.watch(CONFIG_MAPS, "", first.version)
    assert refused.value.code == 410


def test_a_watch_begins_with_what_happened_since_and_with_nothing_else() -> None:
    store = Store()
    store.put(CONFIG_MAPS, an_object("before"))
    since = store.version
    store.put(CONFIG_MAPS, an_object("after"))
    store.put(LEASES, an_object("another kind"))
    store.put(CONFIG_MAPS, {"metadata": {"name": "elsewhere", "namespace": "other"}})

    watcher = store.watch(CONFIG_MAPS, "team", since)
    store.remove(CONFIG_MAPS, an_object("before"))

    told = [(change.last["metadata"]["name"], change.new is None) for change in watcher.changes]
    assert told == [("after", False), ("before", True)]
    versions = [change.version for change in watcher.changes]
    assert versions == sorted(set(versions))
    assert [int(change.last["metadata"]["resourceVersion"]) for change in watcher.changes] == versions


def test_a_watch_from_before_what_is_kept_or_from_a_version_that_never_was_is_refused() -> None:
    store = Store(kept=3)
    first = store.version
    for number in range(5):
        store.put(CONFIG_MAPS, an_object(f"c{number}"))

    for since in (first, first + 1, store.version + 1):
        with pytest.raises(Refusal) as refused:
            store.watch(CONFIG_MAPS, "", since)
        assert (refused.value.code, refused.value.reason) == (410, "Expired")
    assert len(store.watch(CONFIG_MAPS, "", first + 2).changes) == 3


def test_a_watch_that_nobody_reads_is_cut_and_not_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_BEHIND", 3)
    store = Store()
    watcher = store.watch(CONFIG_MAPS, "", store.version)
    for number in range(5):
        store.put(CONFIG_MAPS, an_object(f"c{number}"))

    assert watcher.is_lost
    assert len(watcher.changes) == 3


def test_the_rest_of_a_list_is_of_its_version_and_goes_when_many_others_are_asked_for() -> None:
    store = Store()
    item = store.put(CONFIG_MAPS, an_object())
    token = store.keep_rest([item], store.version)
    version = store.version
    store.put(CONFIG_MAPS, an_object(labels="newer"))

    assert store.take_rest(token) == ([item], version)
    for _ in range(stores.KEPT_PAGES):
        store.keep_rest([], store.version)
    with pytest.raises(Refusal) as refused:
        store.take_rest(token)
    assert refused.value.code == 410


def test_what_is_stored_is_written_as_text_once_and_anew_when_it_changed() -> None:
    store = Store()
    item = store.put(CONFIG_MAPS, an_object())

    assert store.text(CONFIG_MAPS, item) is store.text(CONFIG_MAPS, item)
    newer = store.put(CONFIG_MAPS, an_object(labels="x"))
    assert b'"labels":"x"' in store.text(CONFIG_MAPS, newer)
    assert b"labels" not in store.text(CONFIG_MAPS, item)
