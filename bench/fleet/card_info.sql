INSERT INTO gua.card_info (host, gpu, ts, gpu_index, name, model, vendor, driver_version, pci, mig, memory_shared, source, interval_ms, labels)
WITH
$NAMES
SELECT
    hosts[intDiv(number, 8) + 1],
    cards[number + 1],
    fromUnixTimestamp64Milli($UNTIL_MS, 'UTC'),
    number % 8,
    'NVIDIA H100 80GB HBM3',
    'NVIDIA H100 80GB HBM3',
    'NVIDIA',
    '580.82.07',
    concat('00000000:', leftPad(hex(toUInt8(number % 8 * 16 + 1)), 2, '0'), ':00.0'),
    'none',
    false,
    'agent',
    30000,
    map(
        'service.name', 'gua',
        'service.version', '2.0.0',
        'host.name', hosts[intDiv(number, 8) + 1],
        'gua.source', 'agent',
        'team', ['vision', 'audio', 'robotics', 'genomics', 'language'][1 + intDiv(number, 8) % 5]
    )
FROM numbers($FIRST_HOST * 8, $HOSTS * 8)
