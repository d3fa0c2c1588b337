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

-- From one attempt's decision to the next one's; the last attempt of an incident takes what comes within an hour of the end.
CREATE OR REPLACE VIEW {db}.attempt_spans AS
SELECT
    a.cluster AS cluster,
    a.incident AS incident,
    a.attempt AS attempt,
    substring(a.subject, 5) AS run,
    a.strategy AS strategy,
    a.rulebook AS rulebook,
    row_number() OVER w = 1 AS first,
    i.fault_time AS fault_time,
    if(first, i.fault_time, decided) AS began,
    toDateTime64(a.decided_at, 6, 'UTC') AS decided,
    leadInFrame(toNullable(toDateTime64(a.decided_at, 6, 'UTC')), 1, NULL) OVER w AS next_decided,
    coalesce(next_decided, closed + INTERVAL 1 HOUR, toDateTime64('2199-01-01 00:00:00', 6, 'UTC')) AS until,
    a.terminated_at AS terminated,
    a.scheduled_at AS running,
    if(i.closed_at = toDateTime64('2199-01-01 00:00:00', 6, 'UTC'), NULL, i.closed_at) AS closed,
    i.result AS result
FROM {db}.attempts AS a
INNER JOIN {db}.incident_totals AS i FINAL ON i.cluster = a.cluster AND i.incident = a.incident
WHERE a.strategy NOT IN ('fail_job', 'release_job')
WINDOW w AS (PARTITION BY a.cluster, a.incident ORDER BY a.attempt ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING);

-- Attempts with the marks that belong to them, of the names that are asked for (a parameter). A mark belongs to the attempt of its run that was
-- decided last before it. Attempts and marks of a run are put in turn and cut where an attempt begins: each is read once, nothing is searched.
CREATE OR REPLACE VIEW {db}.attempts_with_marks AS
WITH tried AS
(
    SELECT
        cluster,
        run,
        arraySort(t -> t.1, groupArray((decided, incident, attempt, strategy, rulebook, first, began, next_decided, until, terminated, running, closed, result))) AS tries
    FROM {db}.attempt_spans
    GROUP BY cluster, run
), told AS
(
    SELECT
        cluster,
        run,
        groupArray((first_at, 1, last_at, indexOf(['command_started', 'checkpoint_loaded', 'communication_ready', 'first_step', 'stable', 'bound'], name), attempt)) AS marks
    FROM {db}.run_marks
    WHERE name IN {names:Array(String)}
    GROUP BY cluster, run
), in_turn AS
(
    SELECT
        tried.cluster AS cluster,
        tried.run AS run,
        tried.tries AS tries,
        arraySort(m -> (m.1, m.2), arrayConcat(arrayMap(t -> (t.1, 0, t.1, 0, 0), tried.tries), told.marks)) AS all,
        arraySlice(arraySplit(m -> m.2 = 0, all), -length(tries)) AS parts -- without what was told before the first
    FROM tried
    LEFT JOIN told ON told.cluster = tried.cluster AND told.run = tried.run
)
SELECT
    cluster,
    run,
    try.1 AS decided,
    try.2 AS incident,
    try.3 AS attempt,
    try.4 AS strategy,
    try.5 AS rulebook,
    try.6 AS first,
    try.7 AS began,
    try.8 AS next_decided,
    try.10 AS terminated,
    try.11 AS running,
    try.12 AS closed,
    try.13 AS result,
    arrayFilter(m -> m.4 > 0 AND m.1 <= try.9 AND (m.5 <= 0 OR m.5 = try.3), part) AS marks -- a new pod is told of no attempt before its first start
FROM in_turn
ARRAY JOIN tries AS try, parts AS part;

-- The supervisor tells when commands started, the training process what it loaded, connected and stepped, the watcher which pods are bound: of
-- these the last before the first step, since a pod that moves later ends no phase.
CREATE OR REPLACE VIEW {db}.boundaries AS
WITH
    arrayMax(m -> if(m.4 = 1, m.3, toDateTime64(0, 6, 'UTC')), marks) AS last_started,
    arrayMax(m -> if(m.4 = 2, m.3, toDateTime64(0, 6, 'UTC')), marks) AS last_loaded,
    arrayMax(m -> if(m.4 = 3, m.3, toDateTime64(0, 6, 'UTC')), marks) AS last_connected,
    arrayMin(m -> if(m.4 = 4, m.1, toDateTime64('2199-01-01 00:00:00', 6, 'UTC')), marks) AS first_stepped,
    arrayMax(m -> if(m.4 = 6 AND m.3 <= first_stepped, m.3, toDateTime64(0, 6, 'UTC')), marks) AS last_bound
SELECT
    cluster,
    incident,
    attempt,
    run,
    strategy,
    rulebook,
    first,
    began,
    decided,
    next_decided,
    terminated,
    if(last_bound = 0, running, greatest(last_bound, coalesce(terminated, last_bound))) AS scheduled,
    closed,
    result,
    if(last_started = 0, NULL, last_started) AS started,
    if(last_loaded = 0, NULL, last_loaded) AS loaded,
    if(last_connected = 0, NULL, last_connected) AS connected,
    if(first_stepped = toDateTime64('2199-01-01 00:00:00', 6, 'UTC') OR empty(marks), NULL, first_stepped) AS stepped,
    multiIf(
        arrayExists(m -> m.4 = 5, marks), toNullable(arrayMin(m -> if(m.4 = 5, m.1, toDateTime64('2199-01-01 00:00:00', 6, 'UTC')), marks)),
        -- Relight's own judgement of the pace closes the incident as recovered; a trainer may have said so before.
        result = 'recovered' AND isNull(next_decided), closed,
        NULL) AS stable
FROM {db}.attempts_with_marks(names = ['command_started', 'checkpoint_loaded', 'communication_ready', 'first_step', 'stable', 'bound']);

-- Places are phases in the order in which they ended; a phase that the strategy lacks ends where the one before it did.
CREATE OR REPLACE VIEW {db}.phases AS
WITH
    ['detection', 'termination', 'requeue', 'warm_up', 'checkpoint', 'communication', 'stabilisation'] AS names,
    isNotNull(loaded) AND isNotNull(connected) AND connected < loaded AS swapped,
    if(swapped, [1, 2, 3, 4, 6, 5, 7], [1, 2, 3, 4, 5, 6, 7]) AS places,
    arrayConcat([first], arrayResize(if(swapped, sp.swapped, sp.has), 6)) AS had,
    [decided, terminated, scheduled, started, if(swapped, connected, loaded), if(swapped, loaded, connected), stable] AS told,
    arrayMap(e -> if(e > next_decided, NULL, e), told) AS in_time,
    if(isNotNull(next_decided), arrayFirstIndex((e, h) -> h AND isNull(e), in_time, had), 0) AS broke,
    arrayMap((e, n) -> multiIf(broke = 0 OR n < broke, e, n = broke, next_decided, NULL), in_time, [1, 2, 3, 4, 5, 6, 7]) AS cut,
    arrayFill((e, h) -> h, arrayPushFront(cut, toNullable(began)), arrayPushFront(had, 1)) AS bounds
SELECT
    b.cluster AS cluster,
    b.incident AS incident,
    b.attempt AS attempt,
    b.strategy AS strategy,
    names[place] AS phase,
    place AS ordinal,
    if(is_had, began, NULL) AS began_at,
    if(is_had, ended, NULL) AS ended_at,
    if(is_had, (toUnixTimestamp64Micro(ended_at) - toUnixTimestamp64Micro(began_at)) / 1e6, 0.) AS seconds,
    multiIf(
        NOT is_had, 'not_applicable',
        broke > 0 AND n > broke, 'not_reached',
        broke > 0 AND n = broke, 'failed',
        isNull(seconds) AND place = 7 AND isNotNull(b.stepped) AND b.result IN ('incomplete', 'recovered'), 'stable_unknown',
        isNull(seconds), 'incomplete',
        seconds < 0, 'clock_skew',
        'measured') AS state
FROM {db}.boundaries AS b
LEFT JOIN
(
    SELECT
        rulebook,
        strategy,
        arrayMap(p -> has(phases, p), ['termination', 'requeue', 'warm_up', 'checkpoint', 'communication', 'stabilisation']) AS has,
        arrayMap(p -> has(phases, p), ['termination', 'requeue', 'warm_up', 'communication', 'checkpoint', 'stabilisation']) AS swapped
    FROM {db}.rulebook_strategies FINAL
) AS sp ON sp.rulebook = b.rulebook AND sp.strategy = b.strategy
ARRAY JOIN places AS place, had AS is_had, arrayPopBack(bounds) AS began, arrayPopFront(bounds) AS ended, [1, 2, 3, 4, 5, 6, 7] AS n;

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
    i.closed_at AS closed_at,
    toStartOfMonth(i.fault_time) AS month,
    i.result AS result,
    multiIf(isNull(i.closed_at), 'open', i.result = 'recovered' AND isNotNull(l.stable), 'recovered', isNotNull(l.stepped), 'stable_unknown', 'never') AS outcome,
    if(isNull(l.stable), NULL, (toUnixTimestamp64Micro(assumeNotNull(l.stable)) - toUnixTimestamp64Micro(i.fault_time)) / 1e6) AS rto_seconds,
    if(isNull(l.stepped), NULL, (toUnixTimestamp64Micro(assumeNotNull(l.stepped)) - toUnixTimestamp64Micro(i.fault_time)) / 1e6) AS rto_first_step_seconds
FROM {db}.incidents AS i
LEFT JOIN
(
    SELECT
        cluster,
        incident,
        if(arrayExists(m -> m.4 = 4, marks), toNullable(arrayMin(m -> if(m.4 = 4, m.1, toDateTime64('2199-01-01 00:00:00', 6, 'UTC')), marks)), NULL) AS stepped,
        multiIf(
            arrayExists(m -> m.4 = 5, marks), toNullable(arrayMin(m -> if(m.4 = 5, m.1, toDateTime64('2199-01-01 00:00:00', 6, 'UTC')), marks)),
            result = 'recovered', closed,
            NULL) AS stable
    FROM {db}.attempts_with_marks(names = ['first_step', 'stable'])
    WHERE isNull(next_decided)
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
