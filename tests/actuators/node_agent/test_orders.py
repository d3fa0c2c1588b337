"""What is done about a repair order: mostly, when a chip is not reset."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from actuators.node_agent.orders import (
    Ending,
    Holder,
    Next,
    Stage,
    Unit,
    answer_on,
    codes_left,
    in_the_way,
    no_tokens,
    orders_of,
    refused,
    time_for,
    what_now,
)
from schemas.cluster import REPAIR, REPAIRED, RepairAnswer, RepairOrder, unit_key

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNIT = Unit("ring-0", ("c-0", "c-1"), ("/dev/x0", "/dev/x1"))


def order(**more: Any) -> RepairOrder:
    given: dict[str, Any] = {
        "unit": "ring-0", "chips": ("c-0",), "codes": ("ascend:80E01801",), "incident": "i-1", "attempt": 1,
        "run": "run-1", "until": NOW + timedelta(minutes=3), **more,
    }  # fmt: skip
    return RepairOrder(**given)


def answer(result: Any = "healed", **more: Any) -> RepairAnswer:
    return RepairAnswer(**{"unit": "ring-0", "incident": "i-1", "attempt": 1, "result": result, **more})


def node(annotations: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": "n", "uid": "u", "annotations": annotations}}


@pytest.mark.parametrize(
    ("said", "stage", "now"),
    [
        (None, None, Next.REPAIR),
        (None, Stage.CLAIMED, Next.REPAIR),
        (
            "under_way",
            Stage.CLAIMED,
            Next.REPAIR,
        ),  # killed between the word and the journal: nothing was touched
        (None, Stage.BEGUN, Next.LOOK_ONLY),
        ("under_way", Stage.BEGUN, Next.LOOK_ONLY),
        ("under_way", None, Next.LOOK_ONLY),  # the journal was lost: nobody knows, so never again
        (None, Stage.DONE, Next.ANSWER_AGAIN),
        ("under_way", Stage.DONE, Next.ANSWER_AGAIN),
        ("healed", Stage.DONE, Next.NOTHING),
        ("healed", None, Next.NOTHING),
        ("failed", Stage.CLAIMED, Next.NOTHING),
        ("not_done", Stage.DONE, Next.NOTHING),
        ("not_done", None, Next.NOTHING),
    ],
)
def test_no_past_but_a_known_and_harmless_one_leads_to_a_reset(said: Any, stage: Any, now: Next) -> None:
    assert what_now(None if said is None else answer(said), stage) is now


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"until": NOW}, "too late"),
        ({"until": NOW - timedelta(days=1)}, "too late"),
        ({"unit": "-rf"}, "no name"),
        ({"unit": "a b"}, "no name"),
        ({"chips": ("c-0", "--all")}, "no name"),
        ({"chips": ("$(reboot)",)}, "no name"),
    ],
)
def test_an_order_that_is_late_or_strange_is_not_carried_out(changed: dict[str, Any], why: str) -> None:
    ending = refused(order(**changed), NOW, ["reset"])

    assert ending is not None
    assert ending.result == "not_done", "nothing was done to the chip: no reason to isolate its node"
    assert why in ending.detail


def test_without_a_command_there_is_no_reset_and_waiting_needs_none() -> None:
    ending = refused(order(), NOW, [])
    assert ending is not None
    assert ending.result == "not_done", "else a fleet without the setting isolates at each fault"
    assert refused(order(heal="wait"), NOW, []) is None
    assert refused(order(), NOW, ["reset"]) is None


def test_a_process_of_anybody_else_is_foreign_and_outweighs_our_own() -> None:
    own, other, unknown = Holder(1, "python", "run-1"), Holder(2, "python", "run-2"), Holder(3, "x", None)

    assert in_the_way(order(), []) is None
    for holders in ([other], [unknown], [own, other]):
        ending = in_the_way(order(), holders)
        assert ending is not None
        assert ending.result == "foreign_process"
    ending = in_the_way(order(), [own])
    assert ending is not None
    assert ending.result == "not_done"


def test_tokens_are_counted_a_chip_and_a_node_within_the_window() -> None:
    def tokens(*resets: tuple[int, tuple[str, ...]], per_node: int = 16) -> Ending | None:
        at = [(NOW - timedelta(minutes=minutes), chips) for minutes, chips in resets]
        return no_tokens(UNIT, at, NOW, window=timedelta(hours=6), per_chip=3, per_node=per_node)

    of_other_chip = (5, ("c-1",))  # of the same ring: a reset touches it as well
    assert tokens() is None
    assert tokens((5, ("c-0",)), (9, ("c-0",))) is None
    assert tokens((5, ("c-0",)), (9, ("c-0",)), (360, ("c-0",))) is None  # the window is over
    assert tokens((5, ("c-0",)), (9, ("c-0",)), (359, ("c-0",))) is not None
    assert tokens(of_other_chip, of_other_chip, of_other_chip) is not None
    assert tokens((5, ("c-9",)), (6, ("c-8",)), per_node=2) is not None


@pytest.mark.parametrize(
    ("standing", "left"),
    [
        ([], ()),
        (["ascend:80E01801"], ("ascend:80E01801",)),
        (["80E01801", ""], ("ascend:80E01801",)),
        (["ascend:81078603"], ()),  # another code is another fault, and the eyes see it
        ([" ascend:80E01801 "], ("ascend:80E01801",)),
    ],
)
def test_codes_of_the_order_that_stand_are_left(standing: list[str], left: tuple[str, ...]) -> None:
    assert codes_left(order(), standing) == left


def test_an_order_without_codes_wants_none_to_stand() -> None:
    assert codes_left(order(codes=()), ["b", "a"]) == ("a", "b")


def test_orders_are_read_by_their_unit_and_a_stranger_under_its_key_is_none() -> None:
    here, strange = order(), order(unit="ring-1")
    found, wrong = orders_of(
        node(
            {
                unit_key(REPAIR, "ring-0"): here.to_text(),
                unit_key(REPAIR, "ring-2"): strange.to_text(),
                unit_key(REPAIR, "ring-3"): "{",
                unit_key(REPAIR, "ring-4"): "x" * 20_000,
                "other.dev/x": "{}",
            }
        )
    )

    assert found == {"ring-0": here}
    assert len(wrong) == 3


def test_only_an_answer_to_this_very_order_counts() -> None:
    key = unit_key(REPAIRED, "ring-0")

    assert answer_on(node({key: answer().to_text()}), order()) == answer()
    assert answer_on(node({key: answer(attempt=0).to_text()}), order()) is None
    assert answer_on(node({key: answer(incident="i-0").to_text()}), order()) is None
    assert answer_on(node({key: "{"}), order()) is None
    assert answer_on(node({}), order()) is None


@pytest.mark.parametrize(
    ("over_by", "seconds"),
    [(None, 150), (600, 150), (155, 150), (60, 55), (6, 1), (5, None), (0, None), (-60, None)],
)
def test_a_reset_is_over_before_the_processes_of_its_run_may_come_back(
    over_by: int | None, seconds: int | None
) -> None:
    given = order(over_by=None if over_by is None else NOW + timedelta(seconds=over_by))

    limit = time_for(given, NOW, timedelta(seconds=150))

    assert limit == (None if seconds is None else timedelta(seconds=seconds))
