-- Share of a run's wall time in which it made progress that it kept, by run and month (seed 002, section 6; ETTR of Kokolis et al., arXiv 2410.21680).
-- Not productive: from first sight to the first step, the queue included; each recovery from the fault to stable; and before it what was done again,
-- from the begin of the save that was restored to the fault. Where these overlap, time is lost once. Shares of several rows are sums over sums.
CREATE OR REPLACE VIEW {db}.productive_share
(
    cluster String COMMENT 'cluster the pipeline serves',
    run String COMMENT 'job run',
    job String COMMENT 'name of the workload object',
    namespace String COMMENT 'Kubernetes namespace',
    month Date COMMENT 'first day of the month; a run has a row in each month it lived in',
    counted_from String COMMENT 'what ended the wait: first_step, command_started, pod_bound; nothing: it was told of none',
    incidents UInt64 COMMENT 'recoveries that cost time in this month',
    wall_seconds Float64 COMMENT 'from first sight to the end, or to now',
    waiting_seconds Float64 COMMENT 'of it, before the first step',
    recovering_seconds Float64 COMMENT 'of it, from faults to stable; to the first step where stable is unknown, to the close where no step came',
    redone_seconds Float64 COMMENT 'of it, work that was lost and done again: from the begin of the restored save to the fault',
    productive_seconds Float64 COMMENT 'the rest',
    productive_share Nullable(Float64) COMMENT 'productive of wall time, the first wait included',
    productive_share_once_started Nullable(Float64) COMMENT 'productive of wall time without the first wait'
) AS
WITH lives AS
(
    SELECT
        cluster,
        run,
        argMaxIf(name, arrived, kind = 'run_seen') AS job,
        argMaxIf(namespace, arrived, kind = 'run_seen') AS namespace,
        toDateTime64(minIf(arrived, kind = 'run_seen'), 6, 'UTC') AS seen,
        if(countIf(kind = 'run_ended') = 0, now64(6, 'UTC'), toDateTime64(maxIf(arrived, kind = 'run_ended'), 6, 'UTC')) AS ended
    FROM {db}.facts
    WHERE kind IN ('run_seen', 'run_ended')
    GROUP BY cluster, run
    HAVING countIf(kind = 'run_seen') > 0
), started AS
(
    SELECT
        cluster,
        run,
        minIf(first_at, name IN ('first_step', 'step')) AS stepped,
        minIf(first_at, name = 'command_started') AS commanded,
        minIf(first_at, name = 'bound') AS bound
    FROM {db}.run_marks
    WHERE name IN ('first_step', 'step', 'command_started', 'bound')
    GROUP BY cluster, run
), recovered AS
(
    SELECT
        r.cluster AS cluster,
        r.run AS run,
        groupArray(r.fault_time) AS faults,
        groupArray(coalesce(
            addMicroseconds(r.fault_time, toInt64(r.rto_seconds * 1e6)),
            addMicroseconds(r.fault_time, toInt64(r.rto_first_step_seconds * 1e6)),
            r.closed_at,
            now64(6, 'UTC'))) AS overs,
        groupArray(if(lost.since = 0, r.fault_time, least(lost.since, r.fault_time))) AS sinces
    FROM {db}.rto AS r
    LEFT JOIN
    (
        SELECT cluster, incident, min(assumeNotNull(captured_at)) AS since FROM {db}.rpo WHERE isNotNull(captured_at) GROUP BY cluster, incident
    ) AS lost ON lost.cluster = r.cluster AND lost.incident = r.incident
    GROUP BY cluster, run
), told AS
(
    SELECT
        l.cluster AS cluster,
        l.run AS run,
        l.job AS job,
        l.namespace AS namespace,
        multiIf(s.stepped != 0, 'first_step', s.commanded != 0, 'command_started', s.bound != 0, 'pod_bound', 'nothing') AS counted_from,
        least(multiIf(s.stepped != 0, s.stepped, s.commanded != 0, s.commanded, s.bound != 0, s.bound, l.ended), l.ended) AS begun,
        toStartOfMonth(addMonths(l.seen, arrayJoin(range(toUInt64(dateDiff('month', l.seen, l.ended) + 1))))) AS month,
        toUnixTimestamp64Micro(greatest(l.seen, toDateTime64(month, 6, 'UTC'))) AS low,
        toUnixTimestamp64Micro(least(l.ended, toDateTime64(addMonths(month, 1), 6, 'UTC'))) AS high,
        arrayMap(at -> least(greatest(toUnixTimestamp64Micro(at), low), high), r.faults) AS faults,
        arrayMap(at -> least(greatest(toUnixTimestamp64Micro(at), low), high), r.overs) AS overs,
        arrayMap(at -> least(greatest(toUnixTimestamp64Micro(at), low), high), r.sinces) AS sinces,
        least(greatest(toUnixTimestamp64Micro(begun), low), high) AS waited,
        (waited - low) / 1e6 AS waiting,
        arrayReduce('intervalLengthSum', arrayPushFront(faults, low), arrayPushFront(overs, waited)) / 1e6 AS not_running,
        arrayReduce('intervalLengthSum', arrayPushFront(sinces, low), arrayPushFront(overs, waited)) / 1e6 AS lost,
        (high - low) / 1e6 AS wall
    FROM lives AS l
    LEFT JOIN started AS s ON s.cluster = l.cluster AND s.run = l.run
    LEFT JOIN recovered AS r ON r.cluster = l.cluster AND r.run = l.run
)
SELECT
    cluster,
    run,
    job,
    namespace,
    month,
    counted_from,
    arrayCount((since, over) -> over > since, sinces, overs) AS incidents,
    wall AS wall_seconds,
    waiting AS waiting_seconds,
    not_running - waiting AS recovering_seconds,
    lost - not_running AS redone_seconds,
    wall - lost AS productive_seconds,
    if(wall > 0, (wall - lost) / wall, NULL) AS productive_share,
    if(wall > waiting, (wall - lost) / (wall - waiting), NULL) AS productive_share_once_started
FROM told;
