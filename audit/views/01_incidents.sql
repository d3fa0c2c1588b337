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

CREATE OR REPLACE VIEW {db}.incidents AS
WITH latest AS
(
    SELECT
        cluster,
        incident,
        argMax(state, (updated_at, offset)) AS state,
        argMax(result, (updated_at, offset)) AS result,
        argMax(result_cause, (updated_at, offset)) AS result_cause,
        min(s.opened_at) AS opened,
        min(s.fault_time) AS fault,
        max(s.updated_at) AS updated,
        argMax(attempt, (updated_at, offset)) AS last_attempt,
        argMaxIf(strategy, (updated_at, offset), strategy != '') AS last_strategy,
        argMax(domain, (updated_at, offset)) AS last_domain,
        arrayDistinct(arrayFlatten(groupArray(nodes))) AS all_nodes,
        arrayDistinct(arrayFlatten(groupArray(chips))) AS all_chips,
        argMin(trigger, s.updated_at) AS first_trigger,
        argMax(rulebook, (updated_at, offset)) AS last_rulebook,
        max(epoch) AS last_epoch,
        argMax(paused, (updated_at, offset)) AS is_paused,
        minIf(s.updated_at, s.state = 'closed') AS closed
    FROM {db}.incident_states AS s FINAL
    GROUP BY cluster, incident
), chosen AS
(
    SELECT
        cluster,
        incident,
        any(run) AS run,
        argMin(code, arrived) AS code,
        argMin(reason, arrived) AS reason,
        argMin(rule, arrived) AS rule,
        argMinIf(node, arrived, node != '') AS node,
        argMinIf(chip, arrived, chip != '') AS chip
    FROM {db}.decisions_once
    WHERE incident != '' AND mode = 'enforce'
    GROUP BY cluster, incident
)
SELECT
    latest.cluster AS cluster,
    latest.incident AS incident,
    chosen.run AS run,
    latest.state AS state,
    latest.result AS result,
    latest.result_cause AS result_cause,
    latest.fault AS fault_time,
    latest.opened AS opened_at,
    if(latest.state = 'closed', latest.closed, NULL) AS closed_at,
    latest.updated AS updated_at,
    latest.last_attempt AS attempts,
    latest.last_strategy AS strategy,
    latest.last_domain AS domain,
    chosen.code AS code,
    chosen.node AS node,
    chosen.chip AS chip,
    chosen.rule AS rule,
    chosen.reason AS reason,
    latest.all_nodes AS nodes,
    latest.all_chips AS chips,
    latest.first_trigger AS trigger,
    latest.last_rulebook AS rulebook,
    latest.last_epoch AS epoch,
    latest.is_paused AS paused
FROM latest LEFT JOIN chosen ON chosen.cluster = latest.cluster AND chosen.incident = latest.incident;

CREATE OR REPLACE VIEW {db}.attempts AS
WITH begun AS
(
    SELECT
        cluster,
        incident,
        attempt,
        any(subject) AS subject,
        min(arrived) AS began,
        argMin(rulebook, arrived) AS rulebook,
        argMin(trigger, arrived) AS trigger,
        argMin(reason, arrived) AS reason,
        minIf(arrived, action = 'begin' AND step IN ('start_processes', 'resume_job')) AS ending_over,
        argMax(step, (arrived, offset)) AS last_step
    FROM {db}.commands_once
    WHERE incident != '' AND step != 'notify'
    GROUP BY cluster, incident, attempt
), answered AS
(
    SELECT
        cluster,
        incident,
        attempt,
        argMax(result, (arrived, offset)) AS last_result,
        argMax(cause, (arrived, offset)) AS last_cause,
        minIf(arrived, step = 'resume_job' AND result = 'done') AS scheduled,
        sum(length(effects)) AS effects
    FROM {db}.outcomes_once
    WHERE step != 'notify'
    GROUP BY cluster, incident, attempt
), decided AS
(
    SELECT
        cluster,
        incident,
        attempt,
        argMin(verdict, arrived) AS strategy,
        argMin(rule, arrived) AS rule,
        argMin(ladder_row, arrived) AS ladder_row,
        min(arrived) AS decided_at
    FROM {db}.decisions_once
    WHERE incident != '' AND mode = 'enforce' AND verdict NOT IN ('attribute', 'merge', 'record', 'hold', 'not_isolated', 'wait', 'cancelled', 'revalidate')
    GROUP BY cluster, incident, attempt
)
SELECT
    begun.cluster AS cluster,
    begun.incident AS incident,
    begun.attempt AS attempt,
    begun.subject AS subject,
    decided.strategy AS strategy,
    decided.rule AS rule,
    decided.ladder_row AS ladder_row,
    begun.reason AS reason,
    begun.trigger AS trigger,
    begun.rulebook AS rulebook,
    if(decided.strategy = '', begun.began, decided.decided_at) AS decided_at,
    begun.began AS began_at,
    if(begun.ending_over = 0, NULL, begun.ending_over) AS terminated_at,
    if(answered.scheduled = 0, NULL, answered.scheduled) AS scheduled_at,
    begun.last_step AS last_step,
    answered.last_result AS last_result,
    answered.last_cause AS last_cause,
    answered.effects AS effects
FROM begun
LEFT JOIN answered ON answered.cluster = begun.cluster AND answered.incident = begun.incident AND answered.attempt = begun.attempt
LEFT JOIN decided ON decided.cluster = begun.cluster AND decided.incident = begun.incident AND decided.attempt = begun.attempt;
