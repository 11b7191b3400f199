-- One row is one notice on one channel.
CREATE OR REPLACE VIEW gua_public.notices $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host of the holder''s first card',
    kind LowCardinality(String) COMMENT 'What holds the cards: process, job, pod, allocation or card; or digest',
    holder String COMMENT 'Its identity: host, pid and start; id of a job or pod; source, host and id; host and UUID',
    rule LowCardinality(String) COMMENT 'Rule of the policy',
    step UInt8 COMMENT 'Number of the rule''s step, from 1',
    reminder UInt8 COMMENT '1 for the step''s first notice; the later ones are reminders',
    channel LowCardinality(String) COMMENT 'Number in the step, scheme and host of the channel, or command',
    sent DateTime64(3, 'UTC') COMMENT 'When sending began [UTC]',
    result LowCardinality(String) COMMENT 'started (unknown whether it was sent), sent, accepted (delivery unconfirmed) or failed',
    detail String COMMENT 'Why it failed',
    state LowCardinality(String) COMMENT 'idle-held, empty or no-process',
    gpus UInt64 COMMENT 'Number of cards and MIG instances [cards]',
    owner LowCardinality(Nullable(String)) COMMENT 'User or namespace; NULL if unknown',
    program LowCardinality(Nullable(String)) COMMENT 'Process name; NULL if unknown',
    pid Nullable(UInt32) COMMENT 'Process id on the host; NULL without a process',
    idle_since DateTime64(3, 'UTC') COMMENT 'Since when it was idle [UTC]',
    idle_hours Float64 COMMENT 'How long it was idle when the notice was sent [h]'
)
$DEFINER
AS
SELECT
    * EXCEPT (message, cards, since, idle_ms, written),
    length(cards) AS gpus,
    since AS idle_since,
    idle_ms / 3600000 AS idle_hours
FROM gua.notices FINAL
COMMENT 'Notices to holders of idle GPUs'
