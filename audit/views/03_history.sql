-- Who is a lemon, why was a node isolated, what was lost, and the whole chain behind one incident.

CREATE OR REPLACE VIEW {db}.rpo AS
WITH lost AS
(
    SELECT
        b.cluster AS cluster,
        b.incident AS incident,
        b.attempt AS attempt,
        b.run AS run,
        maxIf(p.step, p.kind = 'progress' AND p.event_time <= b.began) AS step_at_fault,
        argMinIf(p.step, p.event_time, p.kind = 'checkpoint' AND p.edge = 'restored' AND p.event_time >= b.decided) AS step_restored
    FROM {db}.boundaries AS b
    INNER JOIN {db}.signals_once AS p ON p.cluster = b.cluster AND p.run = b.run
    WHERE p.kind IN ('progress', 'checkpoint') AND p.step >= 0
    GROUP BY cluster, incident, attempt, run
)
SELECT
    lost.cluster AS cluster,
    lost.incident AS incident,
    lost.run AS run,
    lost.attempt AS attempt,
    lost.step_at_fault AS step_at_fault,
    lost.step_restored AS step_restored,
    greatest(lost.step_at_fault - lost.step_restored, 0) AS rpo_steps,
    saved.begun AS captured_at,
    if(saved.begun = 0, NULL, (toUnixTimestamp64Micro(i.fault_time) - toUnixTimestamp64Micro(saved.begun)) / 1e6) AS rpo_seconds
FROM lost
INNER JOIN {db}.incidents AS i ON i.cluster = lost.cluster AND i.incident = lost.incident
LEFT JOIN
(
    SELECT cluster, run, step, min(event_time) AS begun
    FROM {db}.signals_once
    WHERE kind = 'checkpoint' AND edge = 'begin'
    GROUP BY cluster, run, step
) AS saved ON saved.cluster = lost.cluster AND saved.run = lost.run AND saved.step = lost.step_restored;

CREATE OR REPLACE VIEW {db}.lemons AS
SELECT
    cluster,
    node,
    node_uid,
    chip,
    code,
    count() AS faults,
    uniqExact(run) AS runs,
    min(event_time) AS first_seen,
    max(event_time) AS last_seen
FROM {db}.signals_once
WHERE kind = 'chip_fault' AND state IN ('asserted', 'once')
GROUP BY cluster, node, node_uid, chip, code
ORDER BY faults DESC;

CREATE OR REPLACE VIEW {db}.isolation_history AS
SELECT
    m.cluster AS cluster,
    m.arrived AS at,
    m.kind AS what,
    m.node AS node,
    m.node_uid AS node_uid,
    m.run AS run,
    m.incident AS incident,
    m.attempt AS attempt,
    m.code AS code,
    m.chip AS chip,
    m.answer AS answer,
    m.cause AS cause,
    m.ordered_by AS ordered_by,
    m.reason AS reason
FROM (SELECT * FROM {db}.mailbox FINAL ORDER BY arrived LIMIT 1 BY event_id) AS m
WHERE m.kind IN ('hold_request', 'hold_answer', 'release_node');

CREATE OR REPLACE VIEW {db}.asset_history AS
SELECT cluster, at, asset, node, kind, code, what, incident
FROM
(
    SELECT cluster, event_time AS at, chip AS asset, node, kind, code, concat(state, if(detail = '', '', ': '), detail) AS what, '' AS incident
    FROM {db}.signals_once
    WHERE kind = 'chip_fault'
    UNION ALL
    SELECT cluster, event_time, node_uid, node, kind, code, concat(state, if(detail = '', '', ': '), detail), ''
    FROM {db}.signals_once
    WHERE kind IN ('node_condition', 'repair_result')
    UNION ALL
    SELECT cluster, toDateTime64(at, 6, 'UTC'), node_uid, node, what, code, concat(reason, answer), incident
    FROM {db}.isolation_history
);

CREATE OR REPLACE VIEW {db}.cause_chain AS
SELECT cluster, incident, at, ordinal, link, attempt, what, detail, event_id, rulebook
FROM
(
    SELECT
        i.cluster AS cluster,
        i.incident AS incident,
        toDateTime64(s.event_time, 6, 'UTC') AS at,
        1 AS ordinal,
        'evidence' AS link,
        -1 AS attempt,
        concat(s.kind, ' ', s.code, if(s.node = '', '', concat(' on ', s.node)), if(s.chip = '', '', concat(' chip ', s.chip))) AS what,
        s.detail AS detail,
        s.event_id AS event_id,
        '' AS rulebook
    FROM {db}.decisions_once AS i
    INNER JOIN {db}.signals_once AS s ON s.cluster = i.cluster AND s.event_id = i.trigger
    WHERE i.incident != ''
    UNION ALL
    SELECT cluster, incident, toDateTime64(arrived, 6, 'UTC'), 2, 'decision', toInt32(attempt),
        concat(verdict, ' by ', rule, ' (row ', ladder_row, ')'), reason, event_id, rulebook
    FROM {db}.decisions_once
    WHERE incident != ''
    UNION ALL
    SELECT cluster, incident, toDateTime64(arrived, 6, 'UTC'), 3, 'command', toInt32(attempt), concat(action, ' ', step), reason, event_id, rulebook
    FROM {db}.commands_once
    WHERE action != 'look'
    UNION ALL
    SELECT cluster, incident, toDateTime64(arrived, 6, 'UTC'), 4, 'write', toInt32(attempt), arrayJoin(effects), step, event_id, ''
    FROM {db}.outcomes_once
    UNION ALL
    SELECT cluster, incident, toDateTime64(arrived, 6, 'UTC'), 5, 'outcome', toInt32(attempt),
        concat(step, ' ', result, if(cause = '', '', concat(': ', cause))), detail, event_id, ''
    FROM {db}.outcomes_once
    WHERE result != 'pending'
    UNION ALL
    SELECT b.cluster, b.incident, m.reached_at, 6, 'milestone', toInt32(b.attempt), m.milestone, concat('rank ', toString(m.rank)), '', ''
    FROM {db}.boundaries AS b
    INNER JOIN {db}.milestones AS m ON m.cluster = b.cluster AND m.run = b.run
    WHERE m.reached_at >= b.decided AND m.reached_at <= coalesce(b.next_decided, b.closed + INTERVAL 1 HOUR, toDateTime64('2199-01-01 00:00:00', 6, 'UTC'))
    UNION ALL
    SELECT cluster, incident, updated_at, 7, 'state', toInt32(attempts), concat(state, if(result = '', '', concat(': ', result))), result_cause, '', rulebook
    FROM {db}.incidents
)
ORDER BY cluster, incident, at, ordinal;
