-- A year of recoveries, for measuring what reads them; see audit_history.py. {tries} stands for the common part below.

-- tries
WITH tries AS
(
    SELECT
        number AS n,
        attempt,
        lower(hex(MD5(concat('incident', toString(number))))) AS incident,
        lower(hex(MD5(concat('run', toString(number % 2000))))) AS run,
        concat('run/', run) AS subject,
        lower(hex(MD5(concat('fault', toString(number))))) AS trigger,
        toDateTime64('2026-01-01 00:00:00', 6, 'UTC') + toIntervalSecond(intDiv(number, 2000) * 600000 + number % 2000) AS fault,
        number % 10 = 3 AS escalates,
        attempt = if(escalates, 2, 1) AS last,
        multiIf(number % 33 = 7, 'open', number % 25 = 11, 'failed', number % 25 = 12, 'incomplete', 'recovered') AS ending,
        multiIf(attempt = 2, 'isolated_job_reschedule', number % 20 < 12, 'in_place_recovery', number % 20 < 17, 'isolated_job_reschedule',
            'unconditional_job_reschedule') AS strategy,
        strategy = 'in_place_recovery' AS kept,
        fault + toIntervalSecond(if(attempt = 1, 1 + number % 7, 100)) AS decided,
        decided + toIntervalSecond(10 + number % 41) AS over,
        over + toIntervalSecond(if(kept, 0, 15)) AS placed,
        placed + toIntervalSecond(20) AS stepped,
        stepped + toIntervalSecond(number % 97) AS stable,
        concat('node-', toString(number % 500)) AS node,
        concat('SN-', toString(number % 4000)) AS chip,
        {rulebook:String} AS rulebook
    FROM numbers({count:UInt64}) ARRAY JOIN if(number % 10 = 3, [1, 2], [1]) AS attempt
);

INSERT INTO {db}.incident_states (cluster, event_id, event_time, arrived, incident, subject, run, state, result, opened_at,
        fault_time, updated_at, attempt, strategy, trigger, domain, nodes, chips, epoch, rulebook, topic, partition, offset)
    {tries}
    SELECT 'bench', concat('s', incident, toString(attempt), state), multiIf(state = 'acting', decided, state = 'stabilising', placed, stable) AS at,
        at, incident, subject, run, state, if(state = 'closed', ending, ''), fault + toIntervalSecond(1), fault, at, attempt, strategy, trigger,
        'pod', [node], [chip], 1, rulebook, 'bench', toUInt16(n % 48), rowNumberInAllBlocks()
    FROM tries ARRAY JOIN ['acting', 'stabilising', 'closed'] AS state
    WHERE state = 'acting' OR last AND (state = 'stabilising' OR ending != 'open');

INSERT INTO {db}.decisions (cluster, event_id, event_time, arrived, subject, run, verdict, rule, ladder_row, mode, reason, rulebook,
        trigger, trigger_time, incident, attempt, domain, code, node, chip, topic, partition, offset)
    {tries}
    SELECT 'bench', concat('d', incident, toString(attempt), verdict), decided, decided, subject, run, verdict, 'self-heal', '6',
        'enforce', 'the chip heals by a reset', rulebook, trigger, fault, incident, attempt, 'pod', 'ascend/80E01801', node, chip, 'bench', toUInt16(n % 48), rowNumberInAllBlocks()
    FROM tries ARRAY JOIN if(attempt = 1, ['record', strategy], [strategy]) AS verdict;

INSERT INTO {db}.commands (cluster, event_id, event_time, arrived, command, incident, attempt, step, action, subject,
        epoch, deadline, not_after, reason, rulebook, trigger, topic, partition, offset)
    {tries}
    SELECT 'bench', concat('c', incident, toString(attempt), said.1, said.2), said.3 AS at, at, concat(incident, said.1), incident, attempt,
        said.1, said.2, subject, 1, at, at, 'because', rulebook, trigger, 'bench', toUInt16(n % 48), rowNumberInAllBlocks()
    FROM tries ARRAY JOIN if(kept,
        [('stop_processes', 'begin', decided), ('stop_processes', 'look', over), ('heal_chips', 'begin', over), ('start_processes', 'begin', over)],
        [('isolate_node', 'begin', decided), ('suspend_job', 'begin', decided), ('suspend_job', 'look', over), ('resume_job', 'begin', over)]) AS said;

INSERT INTO {db}.outcomes (cluster, event_id, event_time, arrived, command, incident, attempt, step, subject, source, result,
        effects, topic, partition, offset)
    {tries}
    SELECT 'bench', concat('o', incident, toString(attempt), said.1, said.2), said.3 AS at, at, concat(incident, said.1), incident, attempt,
        said.1, subject, 'actuators', said.2, if(said.2 = 'done', ['patched'], []), 'bench', toUInt16(n % 48), rowNumberInAllBlocks()
    FROM tries ARRAY JOIN if(kept,
        [('stop_processes', 'pending', decided), ('stop_processes', 'done', over), ('start_processes', 'done', placed)],
        [('isolate_node', 'done', decided), ('suspend_job', 'pending', decided), ('suspend_job', 'done', over), ('resume_job', 'done', stepped)]) AS said;

INSERT INTO {db}.facts (cluster, event_id, event_time, arrived, kind, run, node_uid, node, pod_uid, epoch, topic, partition, offset)
    {tries}
    SELECT 'bench', concat('b', incident, toString(attempt), toString(pod)), placed AS at, at, 'pod_bound', run, node, node, toString(pod), attempt, 'bench', toUInt16(n % 48), rowNumberInAllBlocks()
    FROM tries ARRAY JOIN range(4) AS pod WHERE NOT kept;

INSERT INTO {db}.signals (cluster, event_id, event_time, arrived, source, subject, kind, run, node_uid, node, chip, code, state, topic, partition, offset)
    {tries}
    SELECT 'bench', trigger, fault AS at, at, 'agent', subject, 'chip_fault', run, node, node, chip, 'ascend/80E01801', 'asserted', 'bench', toUInt16(n % 48), rowNumberInAllBlocks()
    FROM tries WHERE attempt = 1;

INSERT INTO {db}.signals (cluster, event_id, event_time, arrived, source, subject, kind, run, node_uid, node, name, attempt, rank, epoch, topic, partition, offset)
    {tries}
    SELECT 'bench', concat('m', incident, toString(attempt), said.1, toString(rank)), said.2 AS at, at, 'agent', subject, 'milestone', run,
        node, node, said.1, attempt, rank, 1, 'bench', toUInt16(n % 48), rowNumberInAllBlocks()
    FROM tries
    ARRAY JOIN range(2) AS rank
    ARRAY JOIN [('command_started', placed + toIntervalSecond(5)), ('checkpoint_loaded', placed + toIntervalSecond(10)),
        ('communication_ready', placed + toIntervalSecond(15)), ('first_step', stepped), ('stable', stable)] AS said
    WHERE last AND ending != 'failed' AND (said.1 != 'stable' OR ending = 'recovered');

INSERT INTO {db}.signals (cluster, event_id, event_time, arrived, source, subject, kind, run, node_uid, node, step, step_seconds, edge, tier, topic, partition, offset)
    {tries}
    SELECT 'bench', concat('p', incident, said.1, said.2, toString(said.3)), said.4 AS at, at, 'agent', subject, said.1, run,
        node, node, intDiv(n, 2000) * 1000 + said.3, if(said.1 = 'progress', 1, 0), said.2, if(said.1 = 'progress', '', 'local'), 'bench', toUInt16(n % 48), rowNumberInAllBlocks()
    FROM tries
    ARRAY JOIN [('checkpoint', 'begin', 3, fault - toIntervalSecond(50)), ('checkpoint', 'end', 3, fault - toIntervalSecond(44)),
        ('progress', '', 1, fault - toIntervalSecond(70)), ('progress', '', 5, fault - toIntervalSecond(30)), ('progress', '', 9, fault),
        ('checkpoint', 'restored', 3, placed + toIntervalSecond(10)), ('progress', '', 4, stepped)] AS said
    WHERE last;
