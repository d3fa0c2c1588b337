-- Who is a lemon, why was a node isolated, what was lost, and the whole chain behind one incident.

-- The step at the fault is the last one told before it, not the highest ever: a run that was set back counts from where it was. What an attempt
-- restored is what the process said it loaded after the decision, and the state it holds is as old as the begin of its save (recovery 8).
-- Other systems may tell of checkpoints too: their word stands where the run's own processes told nothing, and `told_by` says which it was.
CREATE OR REPLACE VIEW {db}.rpo AS
WITH reached AS
(
    -- Time and step, time and source as one number each: numbers are compared twice as fast as pairs.
    SELECT f.cluster AS cluster, f.incident AS incident, argMax(m.step, bitShiftLeft(toInt128(toUnixTimestamp64Micro(m.last_at)), 64) + m.step) AS step
    FROM (SELECT cluster, run, step, last_at FROM {db}.run_marks WHERE name = 'step') AS m
    ASOF INNER JOIN {db}.incident_spans AS f ON m.cluster = f.cluster AND m.run = f.run AND m.last_at <= f.fault_time
    GROUP BY cluster, incident
), restored AS
(
    SELECT
        s.cluster AS cluster,
        s.incident AS incident,
        s.attempt AS attempt,
        any(s.run) AS run,
        any(s.fault_time) AS fault_time,
        argMin(m.step, bitShiftLeft(toInt128(m.outside), 64) + toUnixTimestamp64Micro(m.first_at)) AS step,
        min(m.outside) AS outside
    FROM (SELECT cluster, run, step, first_at, outside FROM {db}.checkpoint_marks WHERE edge = 'restored') AS m
    ASOF INNER JOIN {db}.attempt_spans AS s ON m.cluster = s.cluster AND m.run = s.run AND m.first_at >= s.decided
    WHERE m.first_at <= s.until
    GROUP BY cluster, incident, attempt
), saved AS
(
    SELECT cluster, run, step, groupArrayIf(first_at, NOT outside) AS own, groupArrayIf(first_at, outside) AS others
    FROM {db}.checkpoint_marks
    WHERE edge = 'begin'
    GROUP BY cluster, run, step
)
SELECT
    restored.cluster AS cluster,
    restored.incident AS incident,
    restored.run AS run,
    restored.attempt AS attempt,
    reached.step AS step_at_fault,
    restored.step AS step_restored,
    greatest(step_at_fault - step_restored, 0) AS rpo_steps,
    arrayMax(arrayFilter(at -> at <= restored.fault_time, if(empty(saved.own), saved.others, saved.own))) AS captured,
    if(captured = 0, NULL, captured) AS captured_at,
    if(captured = 0, NULL, (toUnixTimestamp64Micro(restored.fault_time) - toUnixTimestamp64Micro(captured)) / 1e6) AS rpo_seconds,
    if(restored.outside OR captured != 0 AND empty(saved.own), 'other_system', 'run') AS told_by
FROM restored
INNER JOIN reached ON reached.cluster = restored.cluster AND reached.incident = restored.incident
LEFT JOIN saved ON saved.cluster = restored.cluster AND saved.run = restored.run AND saved.step = restored.step;

-- By serial, wherever the chip was; a chip without one is its place on its node.
CREATE OR REPLACE VIEW {db}.lemons AS
SELECT
    s.cluster AS cluster,
    argMax(s.node, s.event_time) AS node,
    argMax(s.node_uid, s.event_time) AS node_uid,
    s.chip AS chip,
    s.code AS code,
    count() AS faults,
    uniqExact(s.run) AS runs,
    uniqExact(s.node_uid) AS nodes,
    min(s.event_time) AS first_seen,
    max(s.event_time) AS last_seen
FROM {db}.signals_once AS s
WHERE s.kind = 'chip_fault' AND s.state IN ('asserted', 'once')
GROUP BY s.cluster, s.chip, if(startsWith(s.chip, 'index:'), s.node_uid, ''), s.code
ORDER BY faults DESC;

CREATE OR REPLACE VIEW {db}.isolation_history AS
WITH names AS
(
    SELECT cluster, node_uid, argMax(node, arrived) AS node FROM {db}.facts WHERE kind = 'node_seen' GROUP BY cluster, node_uid
)
SELECT cluster, at, what, if(told.node = '', names.node, told.node) AS node, node_uid, run, incident, attempt, code, chip, answer, cause, ordered_by, reason
FROM
(
    SELECT
        m.cluster AS cluster,
        m.arrived AS at,
        toString(m.kind) AS what,
        toString(m.node) AS node,
        if(m.node_uid = '' AND startsWith(m.subject, 'node/'), substring(m.subject, 6), m.node_uid) AS node_uid,
        m.run AS run,
        m.incident AS incident,
        m.attempt AS attempt,
        toString(m.code) AS code,
        m.chip AS chip,
        toString(m.answer) AS answer,
        toString(m.cause) AS cause,
        m.ordered_by AS ordered_by,
        m.reason AS reason
    FROM (SELECT * FROM {db}.mailbox FINAL ORDER BY arrived LIMIT 1 BY event_id) AS m
    WHERE m.kind IN ('hold_request', 'hold_answer', 'release_node')
    UNION ALL
    SELECT cluster, arrived, if(result = 'done', if(step = 'isolate_node', 'isolated', 'released'), toString(step)), '', substring(subject, 6),
        '', incident, attempt, '', '', toString(result), toString(cause), '', detail
    FROM {db}.outcomes_once
    WHERE startsWith(subject, 'node/') AND step IN ('isolate_node', 'release_node') AND result != 'pending'
    UNION ALL
    SELECT cluster, arrived, if(verdict = 'hold', 'held', toString(verdict)), '', substring(subject, 6), '', incident, attempt, toString(code), chip, '', '', '', reason
    FROM {db}.decisions_once
    WHERE startsWith(subject, 'node/') AND verdict IN ('hold', 'release', 'give_up') AND mode = 'enforce'
    UNION ALL
    SELECT cluster, arrived, 'taint_removed', node, node_uid, '', '', -1, '', '', '', '', released_by, ''
    FROM (SELECT * FROM {db}.facts FINAL WHERE kind = 'node_seen' AND released_by != '' ORDER BY arrived LIMIT 1 BY event_id)
) AS told
LEFT JOIN names ON names.cluster = told.cluster AND names.node_uid = told.node_uid;

-- By serial: what was seen on a chip, what was done to its reset unit and what came of it; by node UID: what befell the node.
CREATE OR REPLACE VIEW {db}.asset_history AS
SELECT cluster, at, asset, node, kind, code, what, incident
FROM
(
    SELECT cluster, event_time AS at, chip AS asset, node, kind, code, concat(state, if(detail = '', '', ': '), detail) AS what, incident
    FROM {db}.signals_once
    WHERE kind = 'chip_fault'
    UNION ALL
    SELECT r.cluster, r.event_time, c.chip, r.node, r.kind, '', concat(r.state, if(r.detail = '', '', ': '), r.detail), r.incident
    FROM {db}.signals_once AS r
    INNER JOIN
    (
        SELECT DISTINCT cluster, node_uid, if(unit = '', chip, unit) AS unit, chip FROM {db}.signals WHERE kind = 'chip_fault'
    ) AS c ON c.cluster = r.cluster AND c.node_uid = r.node_uid AND c.unit = r.unit
    WHERE r.kind = 'repair_result' AND r.trust != 'external'
    UNION ALL
    SELECT cluster, event_time, node_uid, node, kind, code, concat(if(unit = '', '', concat(unit, ' ')), state, if(detail = '', '', ': '), detail), incident
    FROM {db}.signals_once
    WHERE kind = 'node_condition' OR kind = 'repair_result' AND trust != 'external'
    UNION ALL
    SELECT cluster, toDateTime64(at, 6, 'UTC'), node_uid, node, what, code, arrayStringConcat(arrayFilter(t -> t != '', [reason, answer, cause, ordered_by]), ', '), incident
    FROM {db}.isolation_history
    UNION ALL
    SELECT cluster, toDateTime64(at, 6, 'UTC'), chip, node, what, code, arrayStringConcat(arrayFilter(t -> t != '', [reason, answer, cause]), ', '), incident
    FROM {db}.isolation_history
    WHERE chip != ''
);

-- Each branch groups by incident and event: an event that was sent twice is one link, and a question about one incident is asked of its rows only.
CREATE OR REPLACE VIEW {db}.cause_chain AS
SELECT cluster, incident, at, ordinal, link, attempt, what, detail, event_id, rulebook
FROM
(
    SELECT
        d.cluster AS cluster,
        d.incident AS incident,
        min(s.event_time) AS at,
        1 AS ordinal,
        'evidence' AS link,
        -1 AS attempt,
        any(arrayStringConcat(arrayFilter(part -> part != '', [
            toString(s.kind),
            toString(s.code),
            multiIf(
                s.kind != 'process_exit', '',
                s.exit_signal != 0, concat('signal ', toString(s.exit_signal)),
                s.exit_code >= 0, concat('code ', toString(s.exit_code)),
                ''),
            if(s.oom, '(out of memory)', ''),
            if(s.kind = 'process_exit' AND s.rank >= 0, concat('of rank ', toString(s.rank)), ''),
            if(s.node = '', '', concat('on ', s.node)),
            if(s.chip = '', '', concat('chip ', s.chip))]), ' ')) AS what,
        any(s.detail) AS detail,
        s.event_id AS event_id,
        '' AS rulebook
    FROM {db}.signals AS s
    INNER JOIN
    (
        SELECT cluster, incident, trigger FROM {db}.decisions WHERE incident != '' GROUP BY cluster, incident, trigger
    ) AS d ON d.cluster = s.cluster AND d.trigger = s.event_id
    WHERE s.kind NOT IN ('progress', 'heartbeat', 'milestone')
    GROUP BY d.cluster, d.incident, s.event_id
    UNION ALL
    SELECT cluster, incident, toDateTime64(min(d.arrived), 6, 'UTC'), 2, 'decision', toInt32(any(d.attempt)),
        any(concat(d.verdict, ' by ', d.rule, if(d.ladder_row = '', '', concat(' (row ', d.ladder_row, ')')), if(d.mode = 'shadow', ', shadow', ''))),
        any(d.reason), event_id, any(d.rulebook)
    FROM {db}.decisions AS d
    WHERE incident != ''
    GROUP BY cluster, incident, event_id
    UNION ALL
    SELECT cluster, incident, toDateTime64(min(c.arrived), 6, 'UTC'), 3, 'command', toInt32(any(c.attempt)), any(concat(c.action, ' ', c.step)), any(c.reason),
        event_id, any(c.rulebook)
    FROM {db}.commands AS c
    WHERE action != 'look'
    GROUP BY cluster, incident, event_id
    UNION ALL
    SELECT cluster, incident, toDateTime64(at, 6, 'UTC'), 4, 'write', toInt32(attempt), arrayJoin(effects), step, event_id, ''
    FROM
    (
        SELECT cluster, incident, event_id, min(o.arrived) AS at, any(o.attempt) AS attempt, any(o.effects) AS effects, any(o.step) AS step
        FROM {db}.outcomes AS o
        GROUP BY cluster, incident, event_id
    )
    UNION ALL
    SELECT cluster, incident, toDateTime64(min(o.arrived), 6, 'UTC'), 5, 'outcome', toInt32(any(o.attempt)),
        any(concat(o.step, ' ', o.result, if(o.cause = '', '', concat(': ', o.cause)))), any(o.detail), event_id, ''
    FROM {db}.outcomes AS o
    WHERE result != 'pending'
    GROUP BY cluster, incident, event_id
    UNION ALL
    SELECT i.cluster, i.incident, min(m.event_time), 6, 'milestone', toInt32(any(m.attempt)), any(toString(m.name)),
        any(if(m.rank < 0, '', concat('rank ', toString(m.rank)))), m.event_id, ''
    FROM {db}.signals AS m
    INNER JOIN {db}.incident_spans AS i ON i.cluster = m.cluster AND i.run = m.run
    WHERE m.kind = 'milestone' AND m.trust != 'external' AND m.event_time >= i.opened_at AND m.event_time <= i.until
    GROUP BY i.cluster, i.incident, m.event_id
    UNION ALL
    SELECT i.cluster, i.incident, toDateTime64(min(f.arrived), 6, 'UTC'), 6, 'milestone', -1, 'pod_bound',
        any(concat(f.pod, if(f.node = '', '', ' on '), f.node)), f.event_id, ''
    FROM {db}.facts AS f
    INNER JOIN {db}.incident_spans AS i ON i.cluster = f.cluster AND i.run = f.run
    WHERE f.kind = 'pod_bound' AND f.arrived >= i.opened_at AND f.arrived <= i.until
    GROUP BY i.cluster, i.incident, f.event_id
    UNION ALL
    SELECT cluster, incident, updated_at, 7, 'state', toInt32(attempts), concat(state, if(result = '', '', concat(': ', result))), result_cause, '', rulebook
    FROM {db}.incidents
)
ORDER BY cluster, incident, at, ordinal;

CREATE OR REPLACE VIEW {db}.explained AS
SELECT
    cluster,
    min(d.arrived) AS at,
    any(d.subject) AS subject,
    any(d.run) AS run,
    incident,
    any(d.attempt) AS attempt,
    trigger,
    any(d.verdict) AS verdict,
    any(d.rule) AS rule,
    any(d.ladder_row) AS ladder_row,
    any(d.mode) AS mode,
    any(d.reason) AS reason,
    any(d.count) AS count,
    any(d.flags) AS flags,
    arrayMap(c -> concat(
            JSONExtractString(c, 'rule'),
            if(JSONExtractString(c, 'row') = '', '', concat(' (row ', JSONExtractString(c, 'row'), ')')),
            ': ', JSONExtractString(c, 'outcome'),
            if(JSONExtractString(c, 'detail') = '', '', concat(', ', JSONExtractString(c, 'detail')))),
        JSONExtractArrayRaw(any(d.considered))) AS looked_at,
    any(d.rulebook) AS rulebook,
    event_id
FROM {db}.decisions AS d
GROUP BY cluster, incident, trigger, event_id;

-- Budgets are what the last decision says, and before the first one what recovery will read from the workload: a job-retry-num that is absent or
-- outside its domain is 0, a pod-retry-num is then the rulebook's, and that is not known here (recovery 2).
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
        toUInt16OrNull(extract(annotations['fault-tolerance/job-retry-num'], '^\\s*([0-9]+)\\s*$')) AS job_retries_wished,
        toUInt16OrNull(extract(annotations['fault-tolerance/pod-retry-num'], '^\\s*([0-9]+)\\s*$')) AS pod_retries_wished,
        toUInt16OrZero(annotations['relight.dev/job-retries-used']) AS job_retries_mirrored,
        toUInt16OrZero(annotations['relight.dev/pod-retries-used']) AS pod_retries_mirrored,
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
        max(d.schedule_count) AS schedule_count, -- 1 and more where counters were told
        argMaxIf(d.job_retries_used, arrived, d.schedule_count > 0) AS job_retries_used,
        argMaxIf(d.job_retry_num, arrived, d.schedule_count > 0) AS job_retry_num,
        argMaxIf(d.pod_retries_used, arrived, d.schedule_count > 0) AS pod_retries_used,
        argMaxIf(d.pod_retry_num, arrived, d.schedule_count > 0) AS pod_retry_num,
        argMaxIf(d.unconditional_chain, arrived, d.schedule_count > 0) AS unconditional_chain,
        argMaxIf(d.hang_chain, arrived, d.schedule_count > 0) AS hang_chain,
        uniqExactIf(incident, incident != '') AS incidents,
        argMaxIf(incident, arrived, incident != '') AS last_incident
    FROM {db}.decisions_once AS d
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
    if(counted.schedule_count > 0, counted.job_retries_used, seen.job_retries_mirrored) AS job_retries_used,
    multiIf(counted.schedule_count > 0, counted.job_retry_num, seen.job_retries_wished <= 128, assumeNotNull(seen.job_retries_wished), 0) AS job_retry_num,
    if(counted.schedule_count > 0, counted.pod_retries_used, seen.pod_retries_mirrored) AS pod_retries_used,
    if(counted.schedule_count > 0, counted.pod_retry_num, seen.pod_retries_wished) AS pod_retry_num,
    greatest(toInt32(job_retry_num) - job_retries_used, 0) AS job_retries_left,
    if(isNull(pod_retry_num), NULL, greatest(toInt32(pod_retry_num) - pod_retries_used, 0)) AS pod_retries_left,
    counted.unconditional_chain AS unconditional_chain,
    counted.hang_chain AS hang_chain,
    counted.incidents AS incidents,
    counted.last_incident AS last_incident,
    seen.first_seen AS first_seen,
    seen.last_seen AS last_seen,
    ended.how AS ended,
    ended = '' AND (seen.cluster, concat('run/', seen.run)) IN (SELECT cluster, subject FROM {db}.paused) AS paused
FROM seen
LEFT JOIN ended ON ended.cluster = seen.cluster AND ended.run = seen.run
LEFT JOIN counted ON counted.cluster = seen.cluster AND counted.run = seen.run;

-- A release ends what was asked and answered before it; what follows may be a hold that nobody has answered yet, or the node's own of no incident.
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
        argMaxIf(code, at, what IN ('hold_request', 'held') AND code != '') AS code,
        argMaxIf(incident, at, what = 'hold_request') AS incident,
        maxIf(at, what = 'hold_request') AS requested_at,
        maxIf(at, what IN ('hold_request', 'held')) AS asked_at,
        argMaxIf(if(what = 'isolated', 'held', answer), at, what IN ('hold_answer', 'isolated', 'isolate_node')) AS answer,
        argMaxIf(cause, at, what IN ('hold_answer', 'isolated', 'isolate_node')) AS cause,
        maxIf(at, what IN ('hold_answer', 'isolated', 'isolate_node')) AS answered_at,
        maxIf(at, what IN ('release_node', 'release', 'released', 'taint_removed')) AS released_at
    FROM {db}.isolation_history
    GROUP BY cluster, node_uid
)
SELECT
    seen.cluster AS cluster,
    seen.node AS node,
    seen.node_uid AS node_uid,
    if(held.asked_at > held.released_at AND answer != 'refused', held.code, '') AS held_for,
    if(held_for = '', NULL, held.asked_at) AS since,
    if(least(held.asked_at, held.answered_at) > held.released_at, held.answer, '') AS answer,
    seen.ready AS ready,
    seen.cordoned AS cordoned,
    seen.our_taint AS our_taint,
    faulty.faults_24h AS faults_24h,
    if(held.requested_at > held.released_at, held.incident, '') AS incident,
    multiIf(
        held_for = '', '',
        answer = 'blocked', concat('not isolated: ', held.cause, '; raise the limit or release by hand'),
        NOT seen.our_taint, 'asked for, the taint is not seen yet',
        'diagnose, repair, benchmark, then `relight release`') AS next_step
FROM seen
LEFT JOIN faulty ON faulty.cluster = seen.cluster AND faulty.node_uid = seen.node_uid
LEFT JOIN held ON held.cluster = seen.cluster AND held.node_uid = seen.node_uid;
