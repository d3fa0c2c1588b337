-- When states were saved and restored, told apart by who says so: what is lost is measured by a run's own words, and other systems' words
-- only stand where a run has none. Filled beside the marks of runs, from which the last statement takes them: first both, so that none is missed.

CREATE TABLE IF NOT EXISTS {db}.checkpoint_marks
(
    cluster LowCardinality(String) COMMENT 'cluster the pipeline serves',
    month Date COMMENT 'month it arrived in: what others say of the time must not make parts',
    edge LowCardinality(String) COMMENT 'begin: a save began, its state is of then; restored: a process loaded it',
    run String COMMENT 'run it is about',
    step Int64 COMMENT 'training step of the state',
    second DateTime('UTC') COMMENT 'second it happened in',
    outside Bool COMMENT 'another system says so, not the run''s own processes',
    first_at SimpleAggregateFunction(min, DateTime64(6, 'UTC')) COMMENT 'first rank that told'
)
ENGINE = AggregatingMergeTree
PARTITION BY month
ORDER BY (cluster, edge, run, step, second, outside)
TTL month + INTERVAL 430 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
COMMENT 'when runs saved and restored which step, folded over ranks';

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.checkpoint_marks_filled TO {db}.checkpoint_marks AS
SELECT
    cluster,
    toStartOfMonth(s.arrived) AS month,
    s.edge AS edge,
    s.run AS run,
    s.step AS step,
    toDateTime(s.event_time, 'UTC') AS second,
    s.trust = 'external' AS outside,
    min(s.event_time) AS first_at
FROM {db}.signals AS s
WHERE s.run != '' AND s.kind = 'checkpoint' AND s.edge IN ('begin', 'restored')
GROUP BY cluster, month, edge, run, step, second, outside;

-- What was there before; what comes meanwhile is there twice, which changes nothing.
INSERT INTO {db}.checkpoint_marks (cluster, month, edge, run, step, second, outside, first_at)
SELECT
    cluster,
    toStartOfMonth(s.arrived) AS month,
    s.edge AS edge,
    s.run AS run,
    s.step AS step,
    toDateTime(s.event_time, 'UTC') AS second,
    s.trust = 'external' AS outside,
    min(s.event_time) AS first_at
FROM {db}.signals AS s
WHERE s.run != '' AND s.kind = 'checkpoint' AND s.edge IN ('begin', 'restored')
GROUP BY cluster, month, edge, run, step, second, outside;

ALTER TABLE {db}.run_marks_of_signals MODIFY QUERY
SELECT
    cluster,
    toStartOfMonth(s.arrived) AS month,
    if(s.kind = 'milestone', toString(s.name), 'step') AS name,
    s.run AS run,
    toDateTime(s.event_time, 'UTC') AS second,
    s.attempt AS attempt,
    if(s.kind = 'milestone', -1, s.step) AS step,
    min(s.event_time) AS first_at,
    max(s.event_time) AS last_at
FROM {db}.signals AS s
WHERE s.run != '' AND s.trust != 'external' AND (s.kind = 'milestone' OR s.kind = 'progress' AND s.step >= 0)
GROUP BY cluster, month, name, run, second, attempt, step;
