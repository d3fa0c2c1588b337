"""notify: people are told, by a Kubernetes Event on the run's object or on the node, in the words of the decision.

It changes nothing and fails nobody: where the object has gone, or there is none (a partition), the sentence stands in the log and is counted.
"""

from __future__ import annotations

from typing import Final

from actuators.jobs.run_objects import RunArguments, RunGone, look_up
from actuators.nodes.node_objects import find_node
from actuators.reply import Refused, Reply, done
from actuators.step import Step, arguments_of
from actuators.world import Words, World
from runtime import logs, paths
from runtime.kubernetes import Object
from schemas.commands import Command, OutcomeResult
from schemas.ids import NODE, RUN, subject_kind, subject_name

NO_OBJECT: Final = "no_object"
"""Cause of a notice that found no object to stand on."""
REASON: Final = "RelightNotice"

_log = logs.get(__name__)


class NoticeArguments(RunArguments):
    """As `recovery.journal` sends them."""

    about: str = ""
    """What it is about, in a word: a rule, a code, `no_spare`."""


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same: the key makes it one Event."""
    given = arguments_of(NoticeArguments, command)
    about = _object_of(command, given, world)
    if about is None:
        _log.warning("notice", subject=command.subject, about=given.about, text=command.reason)
        return Reply(OutcomeResult.DONE, cause=NO_OBJECT)
    text = f"{command.reason} [{given.about}]" if given.about else command.reason
    world.voice.say(Words(about, REASON, text, key=command.command, warning=True))
    return done(effects=(f"Event {REASON}",))


def _object_of(command: Command, given: NoticeArguments, world: World) -> Object | None:
    kind, name = subject_kind(command.subject), subject_name(command.subject)
    try:
        if kind == RUN:
            return look_up(command, given, world).job
        if kind == NODE and given.name:
            return find_node(given.name, name, world)
    except (RunGone, Refused):
        return None
    if kind != NODE:
        return None
    node = next((one for one in world.api.list(paths.nodes()) if one["metadata"]["uid"] == name), None)
    return None if node is None else {"apiVersion": "v1", "kind": "Node", **node}


STEP = Step(begin=act, look=act)
