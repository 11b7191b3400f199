-- One row is one state; share is of observed time. Equivalent GPUs = share x expected card-hours / hours of the effective window.
CREATE OR REPLACE VIEW gua_report.headline $ON_CLUSTER
AS
WITH
    totals AS
    (
        SELECT
            sum(observed_gpu_ms) AS observed,
            sum(expected_gpu_ms) / (max(expected_until_ms) - min(expected_since_ms)) AS expected_gpus,
            [
                ('active', sum(active_card_ticks), sum(active_gpu_ms)),
                ('idle-held', sum(idle_held_card_ticks), sum(idle_held_gpu_ms)),
                ('truly-idle', sum(truly_idle_card_ticks), sum(truly_idle_gpu_ms)),
                ('unknown', sum(unknown_card_ticks), sum(unknown_gpu_ms))
            ] AS states
        FROM gua_report.cards(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)})
    )
SELECT
    one.1 AS state,
    one.2 AS card_ticks,
    one.3 AS gpu_ms,
    if(observed > 0, gpu_ms / observed, NULL) AS share,
    if(observed > 0, share * expected_gpus, NULL) AS equivalent_gpus
FROM totals
ARRAY JOIN states AS one
