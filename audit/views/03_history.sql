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

CREATE OR REPLACE VIEW {db}.explained AS
SELECT
    cluster,
    arrived AS at,
    subject,
    run,
    incident,
    attempt,
    trigger,
    verdict,
    rule,
    ladder_row,
    mode,
    reason,
    count,
    flags,
    arrayMap(c -> concat(
            JSONExtractString(c, 'rule'), ' (row ', JSONExtractString(c, 'row'), '): ', JSONExtractString(c, 'outcome'),
            if(JSONExtractString(c, 'detail') = '', '', concat(', ', JSONExtractString(c, 'detail')))),
        JSONExtractArrayRaw(considered)) AS looked_at,
    rulebook,
    event_id
FROM {db}.decisions_once;

CREATE OR REPLACE VIEW {db}.jobs AS
WITH seen AS
(
    SELECT
        cluster,
        run,
        argMax(name, arrived) AS name,
        argMax(namespace, arrived) AS namespace,
        argMax(size, arrived) AS size,
        argMax(supervised, arrived) AS supervised,
        argMax(annotations, arrived) AS annotations,
        max(epoch) AS epoch,
        min(arrived) AS first_seen,
        max(arrived) AS last_seen
    FROM {db}.facts FINAL
    WHERE kind = 'run_seen'
    GROUP BY cluster, run
), ended AS
(
    SELECT cluster, run, argMax(state, arrived) AS how, max(arrived) AS at
    FROM {db}.facts FINAL
    WHERE kind = 'run_ended'
    GROUP BY cluster, run
), counted AS
(
    SELECT
        cluster,
        run,
        argMax(job_retries_used, arrived) AS job_retries_used,
        argMax(job_retry_num, arrived) AS job_retry_num,
        argMax(pod_retries_used, arrived) AS pod_retries_used,
        argMax(pod_retry_num, arrived) AS pod_retry_num,
        argMax(unconditional_chain, arrived) AS unconditional_chain,
        argMax(hang_chain, arrived) AS hang_chain,
        max(schedule_count) AS schedule_count,
        uniqExactIf(incident, incident != '') AS incidents,
        argMaxIf(incident, arrived, incident != '') AS last_incident
    FROM {db}.decisions_once
    WHERE run != ''
    GROUP BY cluster, run
)
SELECT
    seen.cluster AS cluster,
    seen.run AS run,
    seen.name AS name,
    seen.namespace AS namespace,
    greatest(seen.epoch, counted.schedule_count) AS epoch,
    seen.size AS size,
    seen.supervised AS supervised,
    seen.annotations AS annotations,
    counted.job_retries_used AS job_retries_used,
    counted.job_retry_num AS job_retry_num,
    counted.pod_retries_used AS pod_retries_used,
    counted.pod_retry_num AS pod_retry_num,
    counted.unconditional_chain AS unconditional_chain,
    counted.hang_chain AS hang_chain,
    counted.incidents AS incidents,
    counted.last_incident AS last_incident,
    seen.first_seen AS first_seen,
    seen.last_seen AS last_seen,
    ended.how AS ended
FROM seen
LEFT JOIN ended ON ended.cluster = seen.cluster AND ended.run = seen.run
LEFT JOIN counted ON counted.cluster = seen.cluster AND counted.run = seen.run;

CREATE OR REPLACE VIEW {db}.node_standing AS
WITH seen AS
(
    SELECT
        cluster,
        node_uid,
        argMax(node, arrived) AS node,
        argMax(ready, arrived) AS ready,
        argMax(cordoned, arrived) AS cordoned,
        argMax(our_taint, arrived) AS our_taint,
        max(arrived) AS last_seen
    FROM {db}.facts FINAL
    WHERE kind = 'node_seen'
    GROUP BY cluster, node_uid
), faulty AS
(
    SELECT cluster, node_uid, countIf(event_time > now64() - INTERVAL 24 HOUR) AS faults_24h
    FROM {db}.signals_once
    WHERE kind IN ('chip_fault', 'node_condition') AND state IN ('asserted', 'once')
    GROUP BY cluster, node_uid
), held AS
(
    SELECT
        cluster,
        node_uid,
        argMaxIf(code, at, what = 'hold_request') AS code,
        argMaxIf(incident, at, what = 'hold_request') AS incident,
        maxIf(at, what = 'hold_request') AS asked_at,
        argMaxIf(answer, at, what = 'hold_answer') AS answer,
        argMaxIf(cause, at, what = 'hold_answer') AS cause,
        maxIf(at, what = 'release_node') AS released_at
    FROM {db}.isolation_history
    GROUP BY cluster, node_uid
)
SELECT
    seen.cluster AS cluster,
    seen.node AS node,
    seen.node_uid AS node_uid,
    if(held.asked_at > held.released_at AND held.answer != 'refused', held.code, '') AS held_for,
    if(held_for = '', NULL, held.asked_at) AS since,
    held.answer AS answer,
    seen.ready AS ready,
    seen.cordoned AS cordoned,
    seen.our_taint AS our_taint,
    faulty.faults_24h AS faults_24h,
    held.incident AS incident,
    multiIf(
        held_for = '', '',
        held.answer = 'blocked', concat('not isolated: ', held.cause, '; raise the limit or release by hand'),
        NOT seen.our_taint, 'asked for, the taint is not seen yet',
        'diagnose, repair, benchmark, then `relight release`') AS next_step
FROM seen
LEFT JOIN faulty ON faulty.cluster = seen.cluster AND faulty.node_uid = seen.node_uid
LEFT JOIN held ON held.cluster = seen.cluster AND held.node_uid = seen.node_uid;
