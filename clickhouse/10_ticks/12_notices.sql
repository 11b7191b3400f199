-- One row is one notice on one channel. A later row of the same notice and channel replaces it: with its result, or as it was sent again.
CREATE TABLE IF NOT EXISTS gua.notices${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host of the holder''s first card',
    kind LowCardinality(String) COMMENT 'What holds the cards: process, job, pod, allocation or card; or digest',
    holder String
        COMMENT 'Its identity: host, pid and start; id of a job or pod; source, host and id; host and UUID of a card',
    rule LowCardinality(String) COMMENT 'Rule of the policy',
    step UInt8 COMMENT 'Number of the rule''s step, from 1',
    reminder UInt8 COMMENT '1 for the step''s first notice; the later ones are reminders',
    channel LowCardinality(String) COMMENT 'Number in the step, scheme and host of the channel, or command',
    sent DateTime64(3, 'UTC') COMMENT 'When sending began',
    result LowCardinality(String) COMMENT 'sent, accepted (delivery unconfirmed), failed, or started: unknown whether it was sent',
    detail String COMMENT 'Why it failed',
    message String COMMENT 'Id of the message; a summary has several notices',
    state LowCardinality(String) COMMENT 'idle-held, empty or no-process',
    cards Array(Tuple(host String, gpu String)) COMMENT 'The cards',
    owner LowCardinality(Nullable(String)) COMMENT 'User or namespace; NULL if unknown',
    program LowCardinality(Nullable(String)) COMMENT 'Process name; NULL if unknown',
    pid Nullable(UInt32) COMMENT 'Process id on the host; NULL without a process',
    since DateTime64(3, 'UTC') COMMENT 'Since when it was idle',
    idle_ms UInt64 COMMENT 'How long it was idle when the notice was sent [ms]',
    written DateTime64(3, 'UTC') COMMENT 'Version of the row; the newest is valid; rewritten daily while the holder exists'
)
ENGINE = ${REPLICATED}ReplacingMergeTree(written)
ORDER BY (host, kind, holder, rule, step, reminder, channel)
$NOTICES_TTL
$TABLE_SETTINGS
COMMENT 'Notices to holders of idle GPUs; read with FINAL'
;
-- One row is one run of gua notify that took the right to send, or gave it back: until is then in the past.
CREATE TABLE IF NOT EXISTS gua.notice_runs${LOCAL} $ON_CLUSTER
(
    run String COMMENT 'Random id of the run',
    host LowCardinality(String) COMMENT 'Host that it runs on',
    pid UInt32 COMMENT 'Its process there',
    started DateTime64(3, 'UTC') COMMENT 'When it began; the earliest run may send',
    until DateTime64(3, 'UTC') COMMENT 'Until when others wait for it',
    written DateTime64(3, 'UTC') COMMENT 'Version of the row; the newest is valid'
)
ENGINE = ${REPLICATED}ReplacingMergeTree(written)
ORDER BY (host, run)
TTL toDate(until) + toIntervalDay(2)
$TABLE_SETTINGS
COMMENT 'Runs of gua notify: one at a time sends; read with FINAL'
