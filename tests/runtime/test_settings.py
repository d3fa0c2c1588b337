"""Settings come from the environment, fit each other, and say what is wrong by the variable's own name."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import BaseModel

from runtime.errors import SettingsConflict
from runtime.settings import Group, KafkaSettings, Settings, read_settings
from streams.settings import StreamSettings


def groups(model: type[BaseModel]) -> list[type[BaseModel]]:
    found = [model]
    for field in model.model_fields.values():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Group):
            found += groups(kind)
    return found


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5), ("5s", 5), ("500ms", 0.5), ("10m", 600), ("24h", 86_400), ("7d", 604_800), ("1.5s", 1.5)],
)
def test_durations_are_read_with_their_units(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
) -> None:
    monkeypatch.setenv("RELIGHT_CONSUMER__STOP_GRACE", text)

    assert read_settings(Settings).consumer.stop_grace == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "soon", "5 furlongs", "-5s", "0s", "5s5", "1e3"])
def test_what_is_no_duration_is_refused_by_the_variables_name(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("RELIGHT_CONSUMER__STOP_GRACE", text)

    with pytest.raises(SettingsConflict, match="RELIGHT_CONSUMER__STOP_GRACE"):
        read_settings(Settings)


def test_a_misspelt_setting_of_a_group_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_KAFKA__BOOTSTRAPS", "broker:9092")

    with pytest.raises(SettingsConflict, match="RELIGHT_KAFKA__BOOTSTRAPS"):
        read_settings(Settings)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"RELIGHT_CLOCK": "event"}, "topics.prefix"),
        ({"RELIGHT_CONSUMER__SESSION_TIMEOUT": "30s"}, "request_timeout"),
        ({"RELIGHT_CONSUMER__REVOKE_GRACE": "30s"}, "rebalance_timeout"),
        ({"RELIGHT_KAFKA__REPLICATION_FACTOR": "1"}, "min_insync_replicas"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], says: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(SettingsConflict, match=says):
        read_settings(StreamSettings)


def test_the_event_clock_is_for_topics_with_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_CLOCK", "event")
    monkeypatch.setenv("RELIGHT_TOPICS__PREFIX", "replay.")
    settings = read_settings(StreamSettings)

    assert settings.topic("inbox.v1") == "replay.inbox.v1"
    assert settings.identity("recovery") == "replay.relight-recovery"


@pytest.mark.parametrize("model", groups(StreamSettings), ids=lambda model: model.__name__)
def test_every_setting_says_what_it_means(model: type[BaseModel]) -> None:
    silent = [
        name
        for name, field in model.model_fields.items()
        if not field.description
        and not (isinstance(field.annotation, type) and issubclass(field.annotation, Group))
    ]

    assert silent == []


class _OwnDefault(Settings):
    kafka: KafkaSettings = KafkaSettings(bootstrap="own:9092", replication_factor=5)


def test_one_variable_of_a_group_leaves_the_defaults_a_process_has_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RELIGHT_KAFKA__BOOTSTRAP", "elsewhere:9092")
    settings = read_settings(_OwnDefault)
    assert settings.kafka.bootstrap == "elsewhere:9092"
    assert settings.kafka.replication_factor == 5
