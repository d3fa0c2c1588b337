"""Which messages stand in which topic, by the part that writes them: what `schemas.topics` says in a word, in types.

Read by the AsyncAPI export and by tests, which hold it to what the router lets through. A topic that is not here carries no CloudEvents: the
state log is the stage's own, and dead letters are other people's bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas import topics
from schemas.commands import Command, Outcome
from schemas.envelope import Payload
from schemas.facts import FACTS
from schemas.mailbox import (
    CancelIncidentOrder,
    HoldAnswer,
    HoldRequest,
    NodeNews,
    PartitionGap,
    PauseOrder,
    ReleaseNodeOrder,
    ResumeOrder,
    RulebookSwitch,
    Tick,
)
from schemas.records import Decision, Incident, RulebookRelease
from schemas.signals import OTHERS_MAY_TELL, SIGNALS, Eviction, NodeCondition, PreemptionNotice, ProcessExit
from schemas.topics import Component

Types = tuple[type[Payload], ...]

WATCHERS_SIGNALS: Final[Types] = (NodeCondition, PreemptionNotice, Eviction, ProcessExit)
"""What the API server alone can tell, and exits whose supervisor went with its process."""
_AGENTS_SIGNALS: Final[Types] = tuple(
    kind for kind in SIGNALS if kind is ProcessExit or kind not in WATCHERS_SIGNALS
)

WRITTEN: Final[Mapping[str, Mapping[Component, Types]]] = {
    topics.SIGNALS.name: {
        Component.NODE_AGENT: _AGENTS_SIGNALS,
        Component.WATCHER: (*FACTS, *WATCHERS_SIGNALS),
    },
    topics.EXTERNAL_SIGNALS.name: {Component.EXTERNAL: OTHERS_MAY_TELL},
    topics.INBOX.name: {
        Component.ROUTER: (*SIGNALS, *FACTS),
        Component.RECOVERY: (Tick, HoldRequest, HoldAnswer, NodeNews, PartitionGap),
        Component.ACTUATORS: (Outcome,),
        Component.CLI: (PauseOrder, ResumeOrder, ReleaseNodeOrder, CancelIncidentOrder, RulebookSwitch),
    },
    topics.RULEBOOKS.name: {Component.CLI: (RulebookRelease,)},
    topics.COMMANDS.name: {Component.RECOVERY: (Command,)},
    topics.DECISIONS.name: {Component.RECOVERY: (Decision,)},
    topics.INCIDENTS.name: {Component.RECOVERY: (Incident,)},
}


def types_in(topic: str) -> Types:
    """Every type a reader of the topic meets, each once; empty where its messages are no CloudEvents."""
    return tuple(dict.fromkeys(kind for kinds in WRITTEN.get(topic, {}).values() for kind in kinds))
