"""The reference: a bare Faust agent that decodes each event and sends it on, without waiting. `python -m benchmarks.bare_agent`.

It does what any first draft of a stage does: no order of confirmations, no state, no dead letters.
"""

from __future__ import annotations

import json
import os
from typing import Any

import faust

app = faust.App(
    os.environ["BARE_GROUP"],
    broker=f"kafka://{os.environ['RELIGHT_KAFKA__BOOTSTRAP']}",
    topic_allow_declare=False,
    topic_disable_leader=True,
    table_standby_replicas=0,
    web_enabled=False,
    consumer_auto_offset_reset="earliest",
    broker_commit_interval=0.2,
    stream_wait_empty=False,
    datadir="/nonexistent",
    store="memory://",
)
# Raw by name: the types alone leave Faust's JSON decoder on, and it dies of keys that are no JSON.
source = app.topic(
    os.environ["BARE_FROM"], key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
)
target = app.topic(
    os.environ["BARE_TO"], key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
)


@app.agent(source)
async def send_on(stream: Any) -> None:  # noqa: ANN401 - Faust's stream
    """Decode, send on."""
    async for event in stream.events():
        json.loads(event.value)
        await target.send(key=event.key, value=event.value)


if __name__ == "__main__":
    faust.Worker(app, loglevel="ERROR", redirect_stdouts=False).execute_from_commandline()
