-- Everything that was observed, decided, ordered and done. One row a message; (topic, partition, offset) is its identity here, so that a
-- batch written twice is one row once parts are merged, and views read with FINAL. `event_id` is its identity in the pipeline: a stage that
-- restarts may send one event again at a new offset, and views count each id once.

CREATE TABLE IF NOT EXISTS {db}.signals
(
    cluster LowCardinality(String) COMMENT 'cluster the pipeline serves',
    event_id String COMMENT 'identity of the observation',
    event_time DateTime64(6, 'UTC') COMMENT 'when it happened, on the clock of its source',
    timequality LowCardinality(String) COMMENT 'synced, unknown or clamped: what is known of that clock',
    arrived DateTime64(3, 'UTC') COMMENT 'when the broker appended it',
    source LowCardinality(String) COMMENT 'who says so',
    subject String COMMENT 'mailbox it was sent to',
    trust LowCardinality(String) COMMENT 'internal: our own eyes; external: other systems',
    kind LowCardinality(String) COMMENT 'chip_fault, node_condition, process_exit, process_state, progress, hang, pre_check, checkpoint, milestone, ...',
    run String COMMENT 'job run it is about, empty where none',
    node_uid String COMMENT 'UID of the node',
    node LowCardinality(String) COMMENT 'name of the node, for people',
    pod_uid String,
    pod String,
    namespace LowCardinality(String) COMMENT 'Kubernetes namespace of the pod',
    rank Int32 DEFAULT -1 COMMENT '-1: not known',
    epoch UInt32 COMMENT 'MA_SCHEDULE_CNT of the pod',
    chip String COMMENT 'serial or UUID of the chip',
    code LowCardinality(String) COMMENT 'fault code as table/code, or the condition of a node',
    state LowCardinality(String) COMMENT 'asserted, cleared, once; running, stopped, refused; stalled, moving; passed, failed, skipped',
    severity LowCardinality(String),
    detail String COMMENT 'the line or value it was read from; text of other systems',
    start UInt32 COMMENT 'MA_PROC_START_CNT of the process',
    exit_code Int32 DEFAULT -1 COMMENT '-1: no exit',
    exit_signal UInt8 COMMENT 'signal that ended the process, 0: none',
    oom Bool,
    attempt Int32 DEFAULT -1 COMMENT 'attempt of the incident the report belongs to, -1: none',
    step Int64 DEFAULT -1 COMMENT 'training step, -1: none',
    step_seconds Float64 COMMENT 'duration of that step, 0: not told',
    name LowCardinality(String) COMMENT 'milestone, pre-check item, phase, eviction reason or method',
    edge LowCardinality(String) COMMENT 'begin, end, verified, restored, broken',
    tier LowCardinality(String) COMMENT 'where a checkpoint lies: local, remote, archive',
    seconds Float64 COMMENT 'duration of a pre-check item, 0: none',
    clock_offset Float64 DEFAULT nan COMMENT 'node clock minus broker clock in seconds, nan: not measured',
    payload String COMMENT 'the event as it came' CODEC(ZSTD(3)),
    topic LowCardinality(String),
    partition UInt16,
    offset UInt64,
    INDEX by_run run TYPE bloom_filter GRANULARITY 4,
    INDEX by_id event_id TYPE bloom_filter GRANULARITY 4
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(arrived)
ORDER BY (cluster, kind, node_uid, arrived, topic, partition, offset)
TTL toDateTime(arrived) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
COMMENT 'what was observed';

CREATE TABLE IF NOT EXISTS {db}.facts
(
    cluster LowCardinality(String),
    event_id String,
    event_time DateTime64(6, 'UTC'),
    arrived DateTime64(3, 'UTC'),
    kind LowCardinality(String) COMMENT 'run_seen, run_ended, pod_bound, pod_ended, issue_state, node_seen, node_gone',
    run String,
    node_uid String,
    node LowCardinality(String),
    pod_uid String,
    pod String,
    namespace LowCardinality(String),
    name String COMMENT 'name of the workload object',
    workload LowCardinality(String),
    epoch UInt32,
    size UInt32 COMMENT 'pods the workload wants',
    state LowCardinality(String) COMMENT 'complete, incomplete; succeeded, failed, deleted, lost',
    missing UInt32,
    supervised Bool,
    suspended Bool,
    ready Bool,
    cordoned Bool,
    our_taint Bool,
    chips Array(String) COMMENT 'chips of a bound pod',
    annotations Map(String, String),
    payload String CODEC(ZSTD(3)),
    topic LowCardinality(String),
    partition UInt16,
    offset UInt64,
    INDEX by_run run TYPE bloom_filter GRANULARITY 4
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(arrived)
ORDER BY (cluster, kind, run, node_uid, arrived, topic, partition, offset)
TTL toDateTime(arrived) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
COMMENT 'how runs and nodes stood, as the watcher told';

CREATE TABLE IF NOT EXISTS {db}.decisions
(
    cluster LowCardinality(String),
    event_id String,
    event_time DateTime64(6, 'UTC') COMMENT 'when it was decided, on the broker''s clock',
    arrived DateTime64(3, 'UTC'),
    subject String COMMENT 'run or node it was decided about',
    run String COMMENT 'the run, empty for a node',
    verdict LowCardinality(String) COMMENT 'record, merge, hold, a strategy, fail_job, release_job, correct, ...',
    rule LowCardinality(String),
    ladder_row LowCardinality(String) COMMENT 'row of the ladder in the docs',
    mode LowCardinality(String) COMMENT 'enforce or shadow',
    reason String,
    rulebook String COMMENT 'hash of the rulebook that decided',
    trigger String COMMENT 'event that caused it',
    trigger_time DateTime64(6, 'UTC'),
    incident String,
    attempt Int32 DEFAULT -1,
    domain LowCardinality(String) COMMENT 'fault domain: process, pod, node, network, cluster, region, data_or_model',
    code LowCardinality(String),
    node LowCardinality(String),
    chip String,
    count Int32 DEFAULT -1 COMMENT 'occurrences in the rule''s window, this one included; -1: no counting rule',
    flags Array(LowCardinality(String)),
    job_retries_used UInt16 COMMENT 'budget of the run that is used up',
    job_retry_num UInt16 COMMENT 'budget of the run',
    pod_retries_used UInt16,
    pod_retry_num UInt16,
    unconditional_chain UInt16 COMMENT 'unconditional reschedules in a row',
    hang_chain UInt16 COMMENT 'hang restarts in a row',
    schedule_count UInt32 COMMENT 'MA_SCHEDULE_CNT',
    considered String COMMENT 'rules looked at and why they did not decide, JSON' CODEC(ZSTD(3)),
    payload String CODEC(ZSTD(3)),
    topic LowCardinality(String),
    partition UInt16,
    offset UInt64,
    INDEX by_incident incident TYPE bloom_filter GRANULARITY 4,
    INDEX by_trigger trigger TYPE bloom_filter GRANULARITY 4
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(arrived)
ORDER BY (cluster, subject, arrived, topic, partition, offset)
TTL toDateTime(arrived) + INTERVAL 1200 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
COMMENT 'what was decided and why, with the rulebook that decided';

CREATE TABLE IF NOT EXISTS {db}.incident_states
(
    cluster LowCardinality(String),
    event_id String,
    event_time DateTime64(6, 'UTC'),
    arrived DateTime64(3, 'UTC'),
    incident String,
    subject String,
    run String,
    state LowCardinality(String) COMMENT 'attributing, acting, stabilising, closed',
    result LowCardinality(String) COMMENT 'recovered, failed, released, incomplete, cancelled, run_ended; empty while open',
    result_cause LowCardinality(String),
    opened_at DateTime64(6, 'UTC'),
    fault_time DateTime64(6, 'UTC') COMMENT 'earliest evidence on the node''s clock; of a hang the last progress',
    updated_at DateTime64(6, 'UTC'),
    attempt Int32 DEFAULT -1,
    strategy LowCardinality(String),
    step LowCardinality(String) COMMENT 'step under way',
    trigger String,
    domain LowCardinality(String),
    nodes Array(String),
    chips Array(String),
    epoch UInt32,
    paused Bool,
    rulebook String,
    payload String CODEC(ZSTD(3)),
    topic LowCardinality(String),
    partition UInt16,
    offset UInt64
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(arrived)
ORDER BY (cluster, incident, arrived, topic, partition, offset)
TTL toDateTime(arrived) + INTERVAL 1200 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
COMMENT 'each state an incident was in';

CREATE TABLE IF NOT EXISTS {db}.commands
(
    cluster LowCardinality(String),
    event_id String,
    event_time DateTime64(6, 'UTC'),
    arrived DateTime64(3, 'UTC') COMMENT 'when it was ordered',
    command String COMMENT '(incident, attempt, step), the same for each delivery',
    incident String,
    attempt Int32 DEFAULT -1,
    step LowCardinality(String),
    step_index UInt16 COMMENT 'position in the strategy',
    action LowCardinality(String) COMMENT 'begin, look, cancel',
    look UInt32,
    subject String,
    epoch UInt32,
    deadline DateTime64(6, 'UTC'),
    not_after DateTime64(6, 'UTC'),
    reason String,
    rulebook String,
    trigger String,
    arguments String COMMENT 'JSON',
    payload String CODEC(ZSTD(3)),
    topic LowCardinality(String),
    partition UInt16,
    offset UInt64,
    INDEX by_incident incident TYPE bloom_filter GRANULARITY 4
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(arrived)
ORDER BY (cluster, subject, arrived, topic, partition, offset)
TTL toDateTime(arrived) + INTERVAL 1200 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
COMMENT 'what actuators were asked to do';

CREATE TABLE IF NOT EXISTS {db}.outcomes
(
    cluster LowCardinality(String),
    event_id String,
    event_time DateTime64(6, 'UTC') COMMENT 'when the actuator answered, on its clock',
    arrived DateTime64(3, 'UTC'),
    command String,
    incident String,
    attempt Int32 DEFAULT -1,
    step LowCardinality(String),
    look UInt32,
    subject String,
    source LowCardinality(String),
    result LowCardinality(String) COMMENT 'done, pending, failed, refused, blocked, unsupported, unreachable',
    cause LowCardinality(String),
    detail String,
    told Int32 DEFAULT -1 COMMENT 'pods that were told, -1: not a barrier',
    epoch UInt32 COMMENT 'epoch of the issue that was started, 0: none',
    effects Array(String) COMMENT 'API writes, as the actuator made them',
    payload String CODEC(ZSTD(3)),
    topic LowCardinality(String),
    partition UInt16,
    offset UInt64,
    INDEX by_incident incident TYPE bloom_filter GRANULARITY 4
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(arrived)
ORDER BY (cluster, subject, arrived, topic, partition, offset)
TTL toDateTime(arrived) + INTERVAL 1200 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
COMMENT 'what became of commands';

CREATE TABLE IF NOT EXISTS {db}.mailbox
(
    cluster LowCardinality(String),
    event_id String,
    event_time DateTime64(6, 'UTC'),
    arrived DateTime64(3, 'UTC'),
    kind LowCardinality(String) COMMENT 'hold_request, hold_answer, node_news, pause, resume, release_node, cancel_incident, rulebook_switch, partition_gap',
    subject String,
    source LowCardinality(String),
    node_uid String,
    node LowCardinality(String),
    run String,
    incident String,
    attempt Int32 DEFAULT -1,
    code LowCardinality(String),
    chip String,
    answer LowCardinality(String) COMMENT 'held, blocked, refused',
    cause LowCardinality(String),
    ordered_by String COMMENT 'who ordered it, for operators'' orders',
    reason String,
    payload String CODEC(ZSTD(3)),
    topic LowCardinality(String),
    partition UInt16,
    offset UInt64
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(arrived)
ORDER BY (cluster, kind, subject, arrived, topic, partition, offset)
TTL toDateTime(arrived) + INTERVAL 1200 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
COMMENT 'what mailboxes told each other, and operators'' orders';

CREATE TABLE IF NOT EXISTS {db}.rulebooks
(
    cluster LowCardinality(String),
    event_id String,
    arrived DateTime64(3, 'UTC'),
    rulebook String COMMENT 'hash of the content',
    released_by String,
    released_at DateTime64(6, 'UTC'),
    title String,
    content String COMMENT 'JSON' CODEC(ZSTD(3)),
    topic LowCardinality(String),
    partition UInt16,
    offset UInt64
)
ENGINE = ReplacingMergeTree
ORDER BY (cluster, rulebook, released_at, topic, partition, offset)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'released rulebooks, kept for ever: a decision is only as good as the rules it can be read with';

CREATE TABLE IF NOT EXISTS {db}.dead_letters
(
    arrived DateTime64(3, 'UTC'),
    stage LowCardinality(String) COMMENT 'who gave it up',
    reason LowCardinality(String),
    detail String,
    from_topic LowCardinality(String),
    from_partition UInt16,
    from_offset UInt64,
    bytes UInt64 COMMENT 'length of the original',
    original String COMMENT 'as it came; a head of it where it was too large. Text of others' CODEC(ZSTD(3)),
    topic LowCardinality(String),
    partition UInt16,
    offset UInt64
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(arrived)
ORDER BY (reason, from_topic, arrived, topic, partition, offset)
TTL toDateTime(arrived) + INTERVAL 100 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
COMMENT 'messages nobody could handle, with the reason'
