-- One row an incident and one an attempt, kept as messages come, so that recovery times over years are read without going through every
-- message: a hundred thousand incidents are a hundred thousand rows here and some millions there. Each value is a minimum, a maximum, or the
-- word that came first or last: a message that is written twice changes none of them, and neither does filling twice.
-- Milestones and training steps are folded by run and second: a thousand ranks that reach a boundary are a few rows.

CREATE TABLE IF NOT EXISTS {db}.incident_totals
(
    cluster LowCardinality(String) COMMENT 'cluster the pipeline serves',
    incident String COMMENT 'identity of the incident',
    state AggregateFunction(argMax, String, Tuple(DateTime64(6, 'UTC'), UInt64)) COMMENT 'state it is in',
    result SimpleAggregateFunction(max, String) COMMENT 'how it ended; only the last state has one',
    result_cause SimpleAggregateFunction(max, String) COMMENT 'why it ended so',
    opened_at SimpleAggregateFunction(min, DateTime64(6, 'UTC')) COMMENT 'when it was opened',
    fault_time SimpleAggregateFunction(min, DateTime64(6, 'UTC')) COMMENT 'earliest evidence on the node''s clock',
    closed_at SimpleAggregateFunction(min, DateTime64(6, 'UTC')) COMMENT 'when it was closed, 2199: it is open',
    updated_at SimpleAggregateFunction(max, DateTime64(6, 'UTC')) COMMENT 'when it last changed',
    attempts SimpleAggregateFunction(max, Int32) COMMENT 'attempts so far',
    epoch SimpleAggregateFunction(max, UInt32) COMMENT 'MA_SCHEDULE_CNT',
    strategy AggregateFunction(argMax, String, Tuple(DateTime64(6, 'UTC'), UInt64)) COMMENT 'last strategy',
    domain AggregateFunction(argMax, String, Tuple(DateTime64(6, 'UTC'), UInt64)) COMMENT 'fault domain',
    rulebook AggregateFunction(argMax, String, Tuple(DateTime64(6, 'UTC'), UInt64)) COMMENT 'hash of the rulebook',
    trigger AggregateFunction(argMin, String, DateTime64(6, 'UTC')) COMMENT 'first evidence',
    nodes SimpleAggregateFunction(groupUniqArrayArray, Array(String)) COMMENT 'nodes it isolates',
    chips SimpleAggregateFunction(groupUniqArrayArray, Array(String)) COMMENT 'chips it heals'
)
ENGINE = AggregatingMergeTree
ORDER BY (cluster, incident)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'each incident as it stands; read the view incidents';

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.incident_totals_filled TO {db}.incident_totals AS
SELECT
    cluster,
    incident,
    argMaxState(toString(s.state), (s.updated_at, s.offset)) AS state,
    max(toString(s.result)) AS result,
    max(toString(s.result_cause)) AS result_cause,
    min(s.opened_at) AS opened_at,
    min(s.fault_time) AS fault_time,
    min(if(s.state = 'closed', s.updated_at, toDateTime64('2199-01-01 00:00:00', 6, 'UTC'))) AS closed_at,
    max(s.updated_at) AS updated_at,
    max(s.attempt) AS attempts,
    max(s.epoch) AS epoch,
    argMaxState(toString(s.strategy), (if(s.strategy = '', toDateTime64(0, 6, 'UTC'), s.updated_at), s.offset)) AS strategy,
    argMaxState(toString(s.domain), (s.updated_at, s.offset)) AS domain,
    argMaxState(s.rulebook, (s.updated_at, s.offset)) AS rulebook,
    argMinState(s.trigger, s.updated_at) AS trigger,
    groupUniqArrayArray(s.nodes) AS nodes,
    groupUniqArrayArray(s.chips) AS chips
FROM {db}.incident_states AS s
GROUP BY cluster, incident;

CREATE TABLE IF NOT EXISTS {db}.incident_causes
(
    cluster LowCardinality(String) COMMENT 'cluster the pipeline serves',
    incident String COMMENT 'identity of the incident',
    run SimpleAggregateFunction(max, String) COMMENT 'run it is about',
    code AggregateFunction(argMin, String, DateTime64(3, 'UTC')) COMMENT 'first code that was named',
    reason AggregateFunction(argMin, String, DateTime64(3, 'UTC')) COMMENT 'reason of the first decision',
    rule AggregateFunction(argMin, String, DateTime64(3, 'UTC')) COMMENT 'rule that decided first',
    ladder_row AggregateFunction(argMin, String, DateTime64(3, 'UTC')) COMMENT 'its row of the ladder',
    node AggregateFunction(argMin, String, DateTime64(3, 'UTC')) COMMENT 'first node that was named',
    chip AggregateFunction(argMin, String, DateTime64(3, 'UTC')) COMMENT 'first chip that was named'
)
ENGINE = AggregatingMergeTree
ORDER BY (cluster, incident)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'what each incident began with, by its decisions; read the view incidents';

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.incident_causes_filled TO {db}.incident_causes AS
SELECT
    cluster,
    incident,
    max(d.run) AS run,
    argMinState(toString(d.code), if(d.code = '', toDateTime64('2199-01-01 00:00:00', 3, 'UTC'), d.arrived)) AS code,
    argMinState(d.reason, d.arrived) AS reason,
    argMinState(toString(d.rule), d.arrived) AS rule,
    argMinState(toString(d.ladder_row), d.arrived) AS ladder_row,
    argMinState(toString(d.node), if(d.node = '', toDateTime64('2199-01-01 00:00:00', 3, 'UTC'), d.arrived)) AS node,
    argMinState(d.chip, if(d.chip = '', toDateTime64('2199-01-01 00:00:00', 3, 'UTC'), d.arrived)) AS chip
FROM {db}.decisions AS d
WHERE d.incident != '' AND d.mode = 'enforce'
GROUP BY cluster, incident;

CREATE TABLE IF NOT EXISTS {db}.attempt_totals
(
    cluster LowCardinality(String) COMMENT 'cluster the pipeline serves',
    incident String COMMENT 'identity of the incident',
    attempt Int32 COMMENT 'number of the attempt',
    subject SimpleAggregateFunction(max, String) COMMENT 'mailbox that ordered it',
    began_at SimpleAggregateFunction(min, DateTime64(3, 'UTC')) COMMENT 'first command, 2199: none yet',
    decided_at SimpleAggregateFunction(min, DateTime64(3, 'UTC')) COMMENT 'decision, 2199: none yet',
    terminated_at SimpleAggregateFunction(min, DateTime64(3, 'UTC')) COMMENT 'start was ordered: the old processes are gone, 2199: not yet',
    scheduled_at SimpleAggregateFunction(min, DateTime64(3, 'UTC')) COMMENT 'the resumed job''s pods run, 2199: not yet',
    strategy AggregateFunction(argMin, String, DateTime64(3, 'UTC')) COMMENT 'strategy that was decided',
    rule AggregateFunction(argMin, String, DateTime64(3, 'UTC')) COMMENT 'rule that decided',
    ladder_row AggregateFunction(argMin, String, DateTime64(3, 'UTC')) COMMENT 'its row of the ladder',
    rulebook AggregateFunction(argMin, String, DateTime64(3, 'UTC')) COMMENT 'rulebook of the first command',
    trigger AggregateFunction(argMin, String, DateTime64(3, 'UTC')) COMMENT 'event that caused it',
    reason AggregateFunction(argMin, String, DateTime64(3, 'UTC')) COMMENT 'reason of the first command',
    last_step AggregateFunction(argMax, String, Tuple(DateTime64(3, 'UTC'), UInt64)) COMMENT 'last step that was ordered',
    last_result AggregateFunction(argMax, String, Tuple(DateTime64(3, 'UTC'), UInt64)) COMMENT 'last outcome',
    last_cause AggregateFunction(argMax, String, Tuple(DateTime64(3, 'UTC'), UInt64)) COMMENT 'its cause',
    effects AggregateFunction(uniqExactArray, Array(UInt64)) COMMENT 'API writes'
)
ENGINE = AggregatingMergeTree
ORDER BY (cluster, incident, attempt)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'each attempt as it stands; read the view attempts';

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.attempt_totals_of_commands TO {db}.attempt_totals AS
SELECT
    cluster,
    incident,
    attempt,
    max(c.subject) AS subject,
    min(c.arrived) AS began_at,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS decided_at,
    min(if(c.action = 'begin' AND c.step IN ('start_processes', 'resume_job'), c.arrived, toDateTime64('2199-01-01 00:00:00', 3, 'UTC'))) AS terminated_at,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS scheduled_at,
    argMinState(c.rulebook, c.arrived) AS rulebook,
    argMinState(c.trigger, c.arrived) AS trigger,
    argMinState(c.reason, c.arrived) AS reason,
    argMaxState(toString(c.step), (c.arrived, c.offset)) AS last_step
FROM {db}.commands AS c
WHERE c.incident != '' AND c.step != 'notify'
GROUP BY cluster, incident, attempt;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.attempt_totals_of_outcomes TO {db}.attempt_totals AS
SELECT
    cluster,
    incident,
    attempt,
    '' AS subject,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS began_at,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS decided_at,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS terminated_at,
    min(if(o.step = 'resume_job' AND o.result = 'done', o.arrived, toDateTime64('2199-01-01 00:00:00', 3, 'UTC'))) AS scheduled_at,
    argMaxState(toString(o.result), (o.arrived, o.offset)) AS last_result,
    argMaxState(toString(o.cause), (o.arrived, o.offset)) AS last_cause,
    uniqExactArrayState(arrayMap(i -> cityHash64(o.event_id, i), arrayEnumerate(o.effects))) AS effects
FROM {db}.outcomes AS o
WHERE o.incident != '' AND o.step != 'notify'
GROUP BY cluster, incident, attempt;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.attempt_totals_of_decisions TO {db}.attempt_totals AS
SELECT
    cluster,
    incident,
    attempt,
    '' AS subject,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS began_at,
    min(d.arrived) AS decided_at,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS terminated_at,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS scheduled_at,
    argMinState(toString(d.verdict), d.arrived) AS strategy,
    argMinState(toString(d.rule), d.arrived) AS rule,
    argMinState(toString(d.ladder_row), d.arrived) AS ladder_row
FROM {db}.decisions AS d
WHERE d.incident != '' AND d.mode = 'enforce'
    AND d.verdict NOT IN ('attribute', 'merge', 'record', 'hold', 'not_isolated', 'wait', 'cancelled', 'revalidate', 'correct')
GROUP BY cluster, incident, attempt;

CREATE TABLE IF NOT EXISTS {db}.run_marks
(
    cluster LowCardinality(String) COMMENT 'cluster the pipeline serves',
    month Date COMMENT 'month it arrived in: what others say of the time must not make parts',
    name LowCardinality(String) COMMENT 'milestone; bound: a pod got its node; step: training moved on; begin, end, restored: of a checkpoint',
    run String COMMENT 'run it is about',
    second DateTime('UTC') COMMENT 'second it happened in',
    attempt Int32 COMMENT 'attempt it belongs to, -1: not known',
    step Int64 COMMENT 'training step, -1: none; of `step` the highest in that second',
    first_at SimpleAggregateFunction(min, DateTime64(6, 'UTC')) COMMENT 'first rank or pod',
    last_at SimpleAggregateFunction(max, DateTime64(6, 'UTC')) COMMENT 'last rank or pod'
)
ENGINE = AggregatingMergeTree
PARTITION BY month
ORDER BY (cluster, name, run, second, attempt, step)
TTL month + INTERVAL 430 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
COMMENT 'when runs reached what, folded over ranks and pods';

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.run_marks_of_signals TO {db}.run_marks AS
SELECT
    cluster,
    toStartOfMonth(s.arrived) AS month,
    multiIf(s.kind = 'milestone', toString(s.name), s.kind = 'progress', 'step', toString(s.edge)) AS name,
    s.run AS run,
    toDateTime(s.event_time, 'UTC') AS second,
    s.attempt AS attempt,
    if(s.kind = 'milestone', -1, s.step) AS step,
    min(s.event_time) AS first_at,
    max(s.event_time) AS last_at
FROM {db}.signals AS s
WHERE s.run != '' AND (s.kind = 'milestone' AND s.trust != 'external' OR s.kind = 'progress' AND s.trust != 'external' AND s.step >= 0
    OR s.kind = 'checkpoint' AND s.edge IN ('begin', 'restored'))
GROUP BY cluster, month, name, run, second, attempt, step;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.run_marks_of_facts TO {db}.run_marks AS
SELECT
    cluster,
    toStartOfMonth(f.arrived) AS month,
    'bound' AS name,
    f.run AS run,
    toDateTime(f.arrived, 'UTC') AS second,
    -1 AS attempt,
    -1 AS step,
    min(toDateTime64(f.arrived, 6, 'UTC')) AS first_at,
    max(toDateTime64(f.arrived, 6, 'UTC')) AS last_at
FROM {db}.facts AS f
WHERE f.run != '' AND f.kind = 'pod_bound'
GROUP BY cluster, month, name, run, second;

CREATE TABLE IF NOT EXISTS {db}.rulebook_codes
(
    rulebook String COMMENT 'hash of the content',
    code String COMMENT 'fault code as table/code',
    class LowCardinality(String) COMMENT 'ladder class: record, self_heal_wait, self_heal_reset, deferred, isolate'
)
ENGINE = ReplacingMergeTree
ORDER BY (rulebook, code)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'what each rulebook says of each code';

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.rulebook_codes_filled TO {db}.rulebook_codes AS
SELECT
    rulebook,
    concat(said.1, '/', said.2) AS code,
    said.3 AS class
FROM {db}.rulebooks
ARRAY JOIN JSONExtract(content, 'codes', 'Array(Tuple(namespace String, code String, class String))') AS said;

CREATE TABLE IF NOT EXISTS {db}.rulebook_strategies
(
    rulebook String COMMENT 'hash of the content',
    strategy String COMMENT 'id of the strategy',
    phases Array(String) COMMENT 'phases of recovery it has'
)
ENGINE = ReplacingMergeTree
ORDER BY (rulebook, strategy)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'what each rulebook says of its strategies';

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.rulebook_strategies_filled TO {db}.rulebook_strategies AS
SELECT
    rulebook,
    said.1 AS strategy,
    said.2 AS phases
FROM {db}.rulebooks
ARRAY JOIN JSONExtract(content, 'strategies', 'Array(Tuple(id String, phases Array(String)))') AS said;

-- What was there before; what comes meanwhile is there twice, which changes nothing.

INSERT INTO {db}.incident_totals (cluster, incident, state, result, result_cause, opened_at, fault_time, closed_at, updated_at, attempts, epoch, strategy, domain, rulebook, trigger, nodes, chips)
SELECT
    cluster,
    incident,
    argMaxState(toString(s.state), (s.updated_at, s.offset)) AS state,
    max(toString(s.result)) AS result,
    max(toString(s.result_cause)) AS result_cause,
    min(s.opened_at) AS opened_at,
    min(s.fault_time) AS fault_time,
    min(if(s.state = 'closed', s.updated_at, toDateTime64('2199-01-01 00:00:00', 6, 'UTC'))) AS closed_at,
    max(s.updated_at) AS updated_at,
    max(s.attempt) AS attempts,
    max(s.epoch) AS epoch,
    argMaxState(toString(s.strategy), (if(s.strategy = '', toDateTime64(0, 6, 'UTC'), s.updated_at), s.offset)) AS strategy,
    argMaxState(toString(s.domain), (s.updated_at, s.offset)) AS domain,
    argMaxState(s.rulebook, (s.updated_at, s.offset)) AS rulebook,
    argMinState(s.trigger, s.updated_at) AS trigger,
    groupUniqArrayArray(s.nodes) AS nodes,
    groupUniqArrayArray(s.chips) AS chips
FROM {db}.incident_states AS s
GROUP BY cluster, incident;

INSERT INTO {db}.incident_causes (cluster, incident, run, code, reason, rule, ladder_row, node, chip)
SELECT
    cluster,
    incident,
    max(d.run) AS run,
    argMinState(toString(d.code), if(d.code = '', toDateTime64('2199-01-01 00:00:00', 3, 'UTC'), d.arrived)) AS code,
    argMinState(d.reason, d.arrived) AS reason,
    argMinState(toString(d.rule), d.arrived) AS rule,
    argMinState(toString(d.ladder_row), d.arrived) AS ladder_row,
    argMinState(toString(d.node), if(d.node = '', toDateTime64('2199-01-01 00:00:00', 3, 'UTC'), d.arrived)) AS node,
    argMinState(d.chip, if(d.chip = '', toDateTime64('2199-01-01 00:00:00', 3, 'UTC'), d.arrived)) AS chip
FROM {db}.decisions AS d
WHERE d.incident != '' AND d.mode = 'enforce'
GROUP BY cluster, incident;

INSERT INTO {db}.attempt_totals (cluster, incident, attempt, subject, began_at, decided_at, terminated_at, scheduled_at, rulebook, trigger, reason, last_step)
SELECT
    cluster,
    incident,
    attempt,
    max(c.subject) AS subject,
    min(c.arrived) AS began_at,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS decided_at,
    min(if(c.action = 'begin' AND c.step IN ('start_processes', 'resume_job'), c.arrived, toDateTime64('2199-01-01 00:00:00', 3, 'UTC'))) AS terminated_at,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS scheduled_at,
    argMinState(c.rulebook, c.arrived) AS rulebook,
    argMinState(c.trigger, c.arrived) AS trigger,
    argMinState(c.reason, c.arrived) AS reason,
    argMaxState(toString(c.step), (c.arrived, c.offset)) AS last_step
FROM {db}.commands AS c
WHERE c.incident != '' AND c.step != 'notify'
GROUP BY cluster, incident, attempt;

INSERT INTO {db}.attempt_totals (cluster, incident, attempt, subject, began_at, decided_at, terminated_at, scheduled_at, last_result, last_cause, effects)
SELECT
    cluster,
    incident,
    attempt,
    '' AS subject,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS began_at,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS decided_at,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS terminated_at,
    min(if(o.step = 'resume_job' AND o.result = 'done', o.arrived, toDateTime64('2199-01-01 00:00:00', 3, 'UTC'))) AS scheduled_at,
    argMaxState(toString(o.result), (o.arrived, o.offset)) AS last_result,
    argMaxState(toString(o.cause), (o.arrived, o.offset)) AS last_cause,
    uniqExactArrayState(arrayMap(i -> cityHash64(o.event_id, i), arrayEnumerate(o.effects))) AS effects
FROM {db}.outcomes AS o
WHERE o.incident != '' AND o.step != 'notify'
GROUP BY cluster, incident, attempt;

INSERT INTO {db}.attempt_totals (cluster, incident, attempt, subject, began_at, decided_at, terminated_at, scheduled_at, strategy, rule, ladder_row)
SELECT
    cluster,
    incident,
    attempt,
    '' AS subject,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS began_at,
    min(d.arrived) AS decided_at,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS terminated_at,
    toDateTime64('2199-01-01 00:00:00', 3, 'UTC') AS scheduled_at,
    argMinState(toString(d.verdict), d.arrived) AS strategy,
    argMinState(toString(d.rule), d.arrived) AS rule,
    argMinState(toString(d.ladder_row), d.arrived) AS ladder_row
FROM {db}.decisions AS d
WHERE d.incident != '' AND d.mode = 'enforce'
    AND d.verdict NOT IN ('attribute', 'merge', 'record', 'hold', 'not_isolated', 'wait', 'cancelled', 'revalidate', 'correct')
GROUP BY cluster, incident, attempt;

INSERT INTO {db}.run_marks (cluster, month, name, run, second, attempt, step, first_at, last_at)
SELECT
    cluster,
    toStartOfMonth(s.arrived) AS month,
    multiIf(s.kind = 'milestone', toString(s.name), s.kind = 'progress', 'step', toString(s.edge)) AS name,
    s.run AS run,
    toDateTime(s.event_time, 'UTC') AS second,
    s.attempt AS attempt,
    if(s.kind = 'milestone', -1, s.step) AS step,
    min(s.event_time) AS first_at,
    max(s.event_time) AS last_at
FROM {db}.signals AS s
WHERE s.run != '' AND (s.kind = 'milestone' AND s.trust != 'external' OR s.kind = 'progress' AND s.trust != 'external' AND s.step >= 0
    OR s.kind = 'checkpoint' AND s.edge IN ('begin', 'restored'))
GROUP BY cluster, month, name, run, second, attempt, step;

INSERT INTO {db}.run_marks (cluster, month, name, run, second, attempt, step, first_at, last_at)
SELECT
    cluster,
    toStartOfMonth(f.arrived) AS month,
    'bound' AS name,
    f.run AS run,
    toDateTime(f.arrived, 'UTC') AS second,
    -1 AS attempt,
    -1 AS step,
    min(toDateTime64(f.arrived, 6, 'UTC')) AS first_at,
    max(toDateTime64(f.arrived, 6, 'UTC')) AS last_at
FROM {db}.facts AS f
WHERE f.run != '' AND f.kind = 'pod_bound'
GROUP BY cluster, month, name, run, second;

INSERT INTO {db}.rulebook_codes (rulebook, code, class)
SELECT
    rulebook,
    concat(said.1, '/', said.2) AS code,
    said.3 AS class
FROM {db}.rulebooks
ARRAY JOIN JSONExtract(content, 'codes', 'Array(Tuple(namespace String, code String, class String))') AS said;

INSERT INTO {db}.rulebook_strategies (rulebook, strategy, phases)
SELECT
    rulebook,
    said.1 AS strategy,
    said.2 AS phases
FROM {db}.rulebooks
ARRAY JOIN JSONExtract(content, 'strategies', 'Array(Tuple(id String, phases Array(String)))') AS said;
