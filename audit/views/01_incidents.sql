-- Views are the analyst's contract: names and columns are kept, what they are made of may change. Each event is counted once, whatever was
-- delivered twice. Times: `fault_time` is on the node's clock, everything else on the broker's.

CREATE OR REPLACE VIEW {db}.decisions_once AS
SELECT * FROM {db}.decisions FINAL ORDER BY arrived LIMIT 1 BY event_id;

CREATE OR REPLACE VIEW {db}.commands_once AS
SELECT * FROM {db}.commands FINAL ORDER BY arrived LIMIT 1 BY event_id;

CREATE OR REPLACE VIEW {db}.outcomes_once AS
SELECT * FROM {db}.outcomes FINAL ORDER BY arrived LIMIT 1 BY event_id;

CREATE OR REPLACE VIEW {db}.signals_once AS
SELECT * FROM {db}.signals FINAL ORDER BY arrived LIMIT 1 BY event_id;

-- Runs an operator has paused, as it stands now: by the order that was given last, if it did not end by itself. As recovery obeys them: each
-- once, whatever was told again, and none that was overtaken on its way by one given later; clocks are believed within what an order may be on its way.
CREATE OR REPLACE VIEW {db}.paused AS
SELECT
    cluster,
    subject,
    argMax(kind, given) AS last_order,
    argMax(arrived, given) AS since,
    argMax(ordered_by, given) AS ordered_by,
    argMax(reason, given) AS reason,
    argMax(until, given) AS until
FROM
(
    SELECT cluster, subject, kind, arrived, ordered_by, reason, until, (least(greatest(event_time, arrived - INTERVAL 30 SECOND), arrived), arrived, offset) AS given
    FROM {db}.mailbox
    WHERE kind IN ('pause', 'resume') AND startsWith(subject, 'run/')
    ORDER BY arrived, offset
    LIMIT 1 BY cluster, subject, event_id
)
GROUP BY cluster, subject
HAVING last_order = 'pause' AND (until = 0 OR until > now64());

CREATE OR REPLACE VIEW {db}.incidents AS
SELECT
    t.cluster AS cluster,
    t.incident AS incident,
    c.run AS run,
    if(isNull(closed_at), finalizeAggregation(t.state), 'closed') AS state,
    t.result AS result,
    t.result_cause AS result_cause,
    t.fault_time AS fault_time,
    t.opened_at AS opened_at,
    if(t.closed_at = toDateTime64('2199-01-01 00:00:00', 6, 'UTC'), NULL, t.closed_at) AS closed_at,
    t.updated_at AS updated_at,
    t.attempts AS attempts,
    finalizeAggregation(t.strategy) AS strategy,
    finalizeAggregation(t.domain) AS domain,
    finalizeAggregation(c.code) AS code,
    finalizeAggregation(c.node) AS node,
    finalizeAggregation(c.chip) AS chip,
    finalizeAggregation(c.rule) AS rule,
    finalizeAggregation(c.ladder_row) AS ladder_row,
    finalizeAggregation(c.reason) AS reason,
    t.nodes AS nodes,
    t.chips AS chips,
    finalizeAggregation(t.trigger) AS trigger,
    finalizeAggregation(t.rulebook) AS rulebook,
    t.epoch AS epoch,
    isNull(closed_at) AND (cluster, concat('run/', run)) IN (SELECT cluster, subject FROM {db}.paused) AS paused
FROM {db}.incident_totals AS t FINAL
LEFT JOIN {db}.incident_causes AS c FINAL ON c.cluster = t.cluster AND c.incident = t.incident;

CREATE OR REPLACE VIEW {db}.attempts AS
SELECT
    t.cluster AS cluster,
    t.incident AS incident,
    t.attempt AS attempt,
    t.subject AS subject,
    finalizeAggregation(t.strategy) AS strategy,
    finalizeAggregation(t.rule) AS rule,
    finalizeAggregation(t.ladder_row) AS ladder_row,
    finalizeAggregation(t.reason) AS reason,
    finalizeAggregation(t.trigger) AS trigger,
    finalizeAggregation(t.rulebook) AS rulebook,
    if(t.decided_at = toDateTime64('2199-01-01 00:00:00', 3, 'UTC'), t.began_at, t.decided_at) AS decided_at,
    t.began_at AS began_at,
    if(t.terminated_at = toDateTime64('2199-01-01 00:00:00', 3, 'UTC'), NULL, t.terminated_at) AS terminated_at,
    if(t.scheduled_at = toDateTime64('2199-01-01 00:00:00', 3, 'UTC'), NULL, t.scheduled_at) AS scheduled_at,
    finalizeAggregation(t.last_step) AS last_step,
    finalizeAggregation(t.last_result) AS last_result,
    finalizeAggregation(t.last_cause) AS last_cause,
    finalizeAggregation(t.effects) AS effects
FROM {db}.attempt_totals AS t FINAL
-- An attempt begins with its first command; a decision alone, such as to wait, is none.
WHERE t.began_at < toDateTime64('2199-01-01 00:00:00', 3, 'UTC');

CREATE OR REPLACE VIEW {db}.incident_spans AS
SELECT
    t.cluster AS cluster,
    t.incident AS incident,
    c.run AS run,
    t.fault_time AS fault_time,
    t.opened_at AS opened_at,
    -- The last ranks tell what the first one closed the incident with.
    if(t.closed_at = toDateTime64('2199-01-01 00:00:00', 6, 'UTC'), t.closed_at, t.closed_at + INTERVAL 1 MINUTE) AS until
FROM {db}.incident_totals AS t FINAL
INNER JOIN {db}.incident_causes AS c FINAL ON c.cluster = t.cluster AND c.incident = t.incident;
