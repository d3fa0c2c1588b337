-- Recovery time in seven consecutive phases whose sum is the RTO (seed 002, section 2). A phase that a strategy lacks is not_applicable and has
-- length 0; a boundary that was never told leaves its phase and the next incomplete (NULL), never 0. An attempt that failed ends where the next
-- one was decided: what it was at takes the rest, what it never reached has no length.

CREATE OR REPLACE VIEW {db}.milestones AS
SELECT
    s.cluster AS cluster,
    s.run AS run,
    s.name AS milestone,
    s.attempt AS attempt,
    s.epoch AS epoch,
    s.rank AS rank,
    s.event_time AS reached_at,
    s.step AS step,
    s.event_id AS event_id
FROM {db}.signals_once AS s
WHERE s.kind = 'milestone' AND s.trust != 'external';

-- A mark belongs to the attempt of its run that was decided last before it; the last attempt of an incident takes what comes within an hour of
-- the end. The supervisor tells when commands started, the training process what it loaded, connected and stepped, the watcher which pods are
-- bound: of these the last before the first step, since a pod that moves later ends no phase.
CREATE OR REPLACE VIEW {db}.boundaries AS
WITH spans AS
(
    SELECT
        a.cluster AS cluster,
        a.incident AS incident,
        a.attempt AS attempt,
        substring(a.subject, 5) AS run,
        a.strategy AS strategy,
        a.rulebook AS rulebook,
        row_number() OVER w = 1 AS first,
        if(row_number() OVER w = 1, i.fault_time, toDateTime64(a.decided_at, 6, 'UTC')) AS began,
        toDateTime64(a.decided_at, 6, 'UTC') AS decided,
        leadInFrame(toNullable(toDateTime64(a.decided_at, 6, 'UTC')), 1, NULL) OVER w AS next_decided,
        a.terminated_at AS terminated,
        a.scheduled_at AS running,
        if(i.closed_at = toDateTime64('2199-01-01 00:00:00', 6, 'UTC'), NULL, i.closed_at) AS closed,
        i.result AS result
    FROM {db}.attempts AS a
    INNER JOIN {db}.incident_totals AS i FINAL ON i.cluster = a.cluster AND i.incident = a.incident
    WHERE a.strategy NOT IN ('fail_job', 'release_job')
    WINDOW w AS (PARTITION BY a.cluster, a.incident ORDER BY a.attempt ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
), reached AS
(
    SELECT
        spans.cluster AS cluster,
        spans.incident AS incident,
        spans.attempt AS attempt,
        maxIf(m.last_at, m.name = 'command_started') AS started,
        maxIf(m.last_at, m.name = 'checkpoint_loaded') AS loaded,
        maxIf(m.last_at, m.name = 'communication_ready') AS connected,
        minIf(m.first_at, m.name = 'first_step') AS stepped,
        minIf(m.first_at, m.name = 'stable') AS stable,
        groupArrayIf(m.last_at, m.name = 'bound') AS bindings
    FROM
    (
        SELECT cluster, run, toString(name) AS name, attempt, first_at, last_at
        FROM {db}.run_marks
        WHERE name IN ('command_started', 'checkpoint_loaded', 'communication_ready', 'first_step', 'stable', 'bound')
    ) AS m
    ASOF INNER JOIN spans ON m.cluster = spans.cluster AND m.run = spans.run AND m.first_at >= spans.decided
    WHERE m.first_at <= coalesce(spans.next_decided, spans.closed + INTERVAL 1 HOUR, toDateTime64('2199-01-01 00:00:00', 6, 'UTC'))
        AND (m.attempt <= 0 OR m.attempt = spans.attempt) -- a new pod is told of no attempt before its first start
    GROUP BY cluster, incident, attempt
)
SELECT
    spans.cluster AS cluster,
    spans.incident AS incident,
    spans.attempt AS attempt,
    spans.run AS run,
    spans.strategy AS strategy,
    spans.rulebook AS rulebook,
    spans.first AS first,
    spans.began AS began,
    spans.decided AS decided,
    spans.next_decided AS next_decided,
    spans.terminated AS terminated,
    arrayMax(arrayFilter(at -> reached.stepped = 0 OR at <= reached.stepped, reached.bindings)) AS bound,
    if(bound = 0, spans.running, greatest(bound, coalesce(spans.terminated, bound))) AS scheduled,
    spans.closed AS closed,
    spans.result AS result,
    if(reached.started = 0, NULL, reached.started) AS started,
    if(reached.loaded = 0, NULL, reached.loaded) AS loaded,
    if(reached.connected = 0, NULL, reached.connected) AS connected,
    if(reached.stepped = 0, NULL, reached.stepped) AS stepped,
    -- Relight's own judgement of the pace closes the incident as recovered; a trainer may have said so before.
    multiIf(
        reached.stable != 0, toNullable(reached.stable),
        spans.result = 'recovered' AND isNull(spans.next_decided), spans.closed,
        NULL) AS stable
FROM spans
LEFT JOIN reached ON reached.cluster = spans.cluster AND reached.incident = spans.incident AND reached.attempt = spans.attempt;

CREATE OR REPLACE VIEW {db}.phases AS
WITH
    ['detection', 'termination', 'requeue', 'warm_up', 'checkpoint', 'communication', 'stabilisation'] AS names,
    cast([decided, terminated, scheduled, started, loaded, connected, stable], 'Array(Nullable(DateTime64(6, \'UTC\')))') AS told,
    isNotNull(loaded) AND isNotNull(connected) AND connected < loaded AS swapped,
    arrayMap(n -> multiIf(NOT swapped, n, n = 5, 6, n = 6, 5, n), range(1, 8)) AS places,
    arrayFilter(p -> (names[p] = 'detection' AND first) OR (names[p] != 'detection' AND has(sp.phases, names[p])), places) AS had,
    arrayMap(p -> if(isNotNull(next_decided) AND told[p] > next_decided, NULL, told[p]), had) AS ends,
    if(isNotNull(next_decided), arrayFirstIndex(e -> isNull(e), ends), 0) AS broke,
    arrayMap((e, n) -> multiIf(n = broke, next_decided, broke > 0 AND n > broke, NULL, e), ends, arrayEnumerate(ends)) AS cut,
    arrayConcat([toNullable(began)], arrayPopBack(cut)) AS begins
SELECT
    b.cluster AS cluster,
    b.incident AS incident,
    b.attempt AS attempt,
    b.strategy AS strategy,
    names[place] AS phase,
    place AS ordinal,
    if(indexOf(had, place) = 0, NULL, begins[indexOf(had, place)]) AS began_at,
    if(indexOf(had, place) = 0, NULL, cut[indexOf(had, place)]) AS ended_at,
    multiIf(
        indexOf(had, place) = 0, 0.,
        isNull(began_at) OR isNull(ended_at), NULL,
        (toUnixTimestamp64Micro(assumeNotNull(ended_at)) - toUnixTimestamp64Micro(assumeNotNull(began_at))) / 1e6) AS seconds,
    multiIf(
        indexOf(had, place) = 0, 'not_applicable',
        broke > 0 AND indexOf(had, place) > broke, 'not_reached',
        broke > 0 AND indexOf(had, place) = broke, 'failed',
        isNull(seconds) AND phase = 'stabilisation' AND isNotNull(b.stepped) AND b.result IN ('incomplete', 'recovered'), 'stable_unknown',
        isNull(seconds), 'incomplete',
        seconds < 0, 'clock_skew',
        'measured') AS state
FROM {db}.boundaries AS b
LEFT JOIN {db}.rulebook_strategies AS sp FINAL ON sp.rulebook = b.rulebook AND sp.strategy = b.strategy
ARRAY JOIN places AS place;

-- `class` is the ladder class that the rulebook of the incident gives its code, or what began it where there is no code.
CREATE OR REPLACE VIEW {db}.rto AS
SELECT
    i.cluster AS cluster,
    i.incident AS incident,
    i.run AS run,
    i.strategy AS strategy,
    multiIf(
        k.class != '', toString(k.class),
        i.code != '', 'by_severity',
        i.ladder_row = '3', 'preemption',
        i.ladder_row = '7', 'hang',
        i.ladder_row = '8', 'pre_check',
        i.ladder_row = '9', 'eviction',
        i.ladder_row = '10', 'abnormal_end',
        'other') AS class,
    i.domain AS domain,
    i.code AS code,
    i.node AS node,
    i.attempts AS attempts,
    i.fault_time AS fault_time,
    toStartOfMonth(i.fault_time) AS month,
    i.result AS result,
    multiIf(isNull(i.closed_at), 'open', i.result = 'recovered' AND isNotNull(l.stable), 'recovered', isNotNull(l.stepped), 'stable_unknown', 'never') AS outcome,
    if(isNull(l.stable), NULL, (toUnixTimestamp64Micro(assumeNotNull(l.stable)) - toUnixTimestamp64Micro(i.fault_time)) / 1e6) AS rto_seconds,
    if(isNull(l.stepped), NULL, (toUnixTimestamp64Micro(assumeNotNull(l.stepped)) - toUnixTimestamp64Micro(i.fault_time)) / 1e6) AS rto_first_step_seconds
FROM {db}.incidents AS i
LEFT JOIN
(
    SELECT cluster, incident, stable, stepped FROM {db}.boundaries WHERE isNull(next_decided)
) AS l ON l.cluster = i.cluster AND l.incident = i.incident
LEFT JOIN {db}.rulebook_codes AS k FINAL ON k.rulebook = i.rulebook AND k.code = i.code;

CREATE OR REPLACE VIEW {db}.rto_by_strategy AS
SELECT
    cluster,
    month,
    strategy,
    class,
    countIf(outcome = 'recovered') AS recovered,
    countIf(outcome = 'open') AS open,
    countIf(outcome = 'never') AS never_recovered,
    countIf(outcome = 'stable_unknown') AS stable_unknown,
    quantileExactIf(0.5)(rto_seconds, outcome = 'recovered') AS rto_p50,
    quantileExactIf(0.95)(rto_seconds, outcome = 'recovered') AS rto_p95,
    quantileExactIf(0.99)(rto_seconds, outcome = 'recovered') AS rto_p99,
    quantileExactIf(0.5)(rto_first_step_seconds, isNotNull(rto_first_step_seconds)) AS first_step_p50
FROM {db}.rto
GROUP BY cluster, month, strategy, class;
