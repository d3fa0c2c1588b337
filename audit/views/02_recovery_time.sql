-- Recovery time in seven consecutive phases whose sum is the RTO (seed 002, section 2). A phase that a strategy lacks is not_applicable and has
-- length 0; a boundary that was never told leaves its phase and the next incomplete (NULL), never 0. An attempt that failed ends where the next
-- one was decided: what it was at takes the rest, what it never reached has no length.

CREATE OR REPLACE VIEW {db}.strategy_phases AS
SELECT DISTINCT
    rulebook,
    JSONExtractString(strategy_json, 'id') AS strategy,
    JSONExtract(strategy_json, 'phases', 'Array(String)') AS phases
FROM
(
    SELECT rulebook, arrayJoin(JSONExtractArrayRaw(content, 'strategies')) AS strategy_json
    FROM {db}.rulebooks FINAL
);

CREATE OR REPLACE VIEW {db}.milestones AS
SELECT
    s.cluster AS cluster,
    s.run AS run,
    s.name AS milestone,
    s.attempt AS attempt,
    s.epoch AS epoch,
    s.rank AS rank,
    s.event_time AS reached_at,
    s.step AS step
FROM {db}.signals_once AS s
WHERE s.kind = 'milestone';

CREATE OR REPLACE VIEW {db}.boundaries AS
WITH spans AS
(
    SELECT
        a.cluster AS cluster,
        a.incident AS incident,
        a.attempt AS attempt,
        i.run AS run,
        a.strategy AS strategy,
        a.rulebook AS rulebook,
        row_number() OVER w = 1 AS first,
        if(row_number() OVER w = 1, i.fault_time, toDateTime64(a.decided_at, 6, 'UTC')) AS began,
        toDateTime64(a.decided_at, 6, 'UTC') AS decided,
        leadInFrame(toNullable(toDateTime64(a.decided_at, 6, 'UTC')), 1, NULL) OVER w AS next_decided,
        a.terminated_at AS terminated,
        a.scheduled_at AS scheduled,
        i.closed_at AS closed,
        i.result AS result
    FROM {db}.attempts AS a
    INNER JOIN {db}.incidents AS i ON i.cluster = a.cluster AND i.incident = a.incident
    WHERE a.strategy NOT IN ('fail_job', 'release_job')
    WINDOW w AS (PARTITION BY a.cluster, a.incident ORDER BY a.attempt ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
), reached AS
(
    SELECT
        spans.cluster AS cluster,
        spans.incident AS incident,
        spans.attempt AS attempt,
        maxIf(m.reached_at, m.milestone = 'command_started') AS started,
        maxIf(m.reached_at, m.milestone = 'checkpoint_loaded') AS loaded,
        maxIf(m.reached_at, m.milestone = 'communication_ready') AS connected,
        minIf(m.reached_at, m.milestone = 'first_step') AS stepped,
        minIf(m.reached_at, m.milestone = 'stable') AS stable
    FROM spans
    INNER JOIN {db}.milestones AS m ON m.cluster = spans.cluster AND m.run = spans.run
    WHERE m.reached_at >= spans.decided
        AND m.reached_at <= coalesce(spans.next_decided, spans.closed + INTERVAL 1 HOUR, toDateTime64('2199-01-01 00:00:00', 6, 'UTC'))
        AND (m.attempt <= 0 OR m.attempt = spans.attempt) -- a new pod is told of no attempt before its first start
    GROUP BY cluster, incident, attempt
)
SELECT
    spans.*,
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
LEFT JOIN {db}.strategy_phases AS sp ON sp.rulebook = b.rulebook AND sp.strategy = b.strategy
ARRAY JOIN places AS place;

CREATE OR REPLACE VIEW {db}.rto AS
SELECT
    i.cluster AS cluster,
    i.incident AS incident,
    i.run AS run,
    i.strategy AS strategy,
    i.domain AS domain,
    i.code AS code,
    i.node AS node,
    i.attempts AS attempts,
    i.fault_time AS fault_time,
    toStartOfMonth(i.fault_time) AS month,
    i.result AS result,
    multiIf(i.state != 'closed', 'open', i.result = 'recovered' AND isNotNull(l.stable), 'recovered', isNotNull(l.stepped), 'stable_unknown', 'never') AS outcome,
    if(isNull(l.stable), NULL, (toUnixTimestamp64Micro(assumeNotNull(l.stable)) - toUnixTimestamp64Micro(i.fault_time)) / 1e6) AS rto_seconds,
    if(isNull(l.stepped), NULL, (toUnixTimestamp64Micro(assumeNotNull(l.stepped)) - toUnixTimestamp64Micro(i.fault_time)) / 1e6) AS rto_first_step_seconds
FROM {db}.incidents AS i
LEFT JOIN
(
    SELECT cluster, incident, argMax(stable, attempt) AS stable, argMax(stepped, attempt) AS stepped
    FROM (SELECT cluster, incident, attempt, tuple(stable).1 AS stable, tuple(stepped).1 AS stepped FROM {db}.boundaries)
    GROUP BY cluster, incident
) AS l ON l.cluster = i.cluster AND l.incident = i.incident;

CREATE OR REPLACE VIEW {db}.rto_by_strategy AS
SELECT
    cluster,
    month,
    strategy,
    domain,
    code,
    countIf(outcome = 'recovered') AS recovered,
    countIf(outcome = 'open') AS open,
    countIf(outcome = 'never') AS never_recovered,
    countIf(outcome = 'stable_unknown') AS stable_unknown,
    quantileExactIf(0.5)(rto_seconds, outcome = 'recovered') AS rto_p50,
    quantileExactIf(0.95)(rto_seconds, outcome = 'recovered') AS rto_p95,
    quantileExactIf(0.99)(rto_seconds, outcome = 'recovered') AS rto_p99,
    quantileExactIf(0.5)(rto_first_step_seconds, isNotNull(rto_first_step_seconds)) AS first_step_p50
FROM {db}.rto
GROUP BY cluster, month, strategy, domain, code;
