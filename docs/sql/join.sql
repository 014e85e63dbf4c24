-- The lives of `sockstamp join`, from the recordings of both hosts and the offsets of their clocks,
-- which `sockstamp join --clocks clocks.csv` writes; TCP without NAT. In DuckDB:
--
--     CREATE VIEW recording_1 AS FROM read_parquet('first/**/*.parquet', union_by_name => true);
--     CREATE VIEW recording_2 AS FROM read_parquet('second/**/*.parquet', union_by_name => true);
--     CREATE VIEW clocks AS FROM 'clocks.csv';
--
-- and in Apache Spark:
--
--     CREATE TEMPORARY VIEW recording_1 USING parquet OPTIONS (path 'first', mergeSchema true);
--     CREATE TEMPORARY VIEW recording_2 USING parquet OPTIONS (path 'second', mergeSchema true);
--     CREATE TEMPORARY VIEW clocks USING csv OPTIONS (path 'clocks.csv', header true, inferSchema true);
--
-- What has no life is counted by join alone.

CREATE OR REPLACE TEMPORARY VIEW sends AS
SELECT from_host, time_ns AS sent_at, time_ns - clock_offset_ns AS acknowledged_ns,
    time_ns - clock_offset_ns - tx_network_ns AS left_ns, clock_offset_ns AS sender_boot_ns,
    local_address AS sender_address, local_port AS sender_port,
    remote_address AS to_address, remote_port AS to_port, seq_end, bytes, weight AS sends, retransmits,
    tx_copy_ns, tx_queue_ns, tx_qdisc_ns, tx_nic_ns
FROM (
    SELECT 'first' AS from_host, time_ns, clock_offset_ns, direction, protocol, verdict, local_address, local_port,
        remote_address, remote_port, seq_end, bytes, weight, retransmits,
        tx_copy_ns, tx_queue_ns, tx_qdisc_ns, tx_nic_ns, tx_network_ns
    FROM recording_1
    UNION ALL
    SELECT 'second' AS from_host, time_ns, clock_offset_ns, direction, protocol, verdict, local_address, local_port,
        remote_address, remote_port, seq_end, bytes, weight, retransmits,
        tx_copy_ns, tx_queue_ns, tx_qdisc_ns, tx_nic_ns, tx_network_ns
    FROM recording_2
) AS both_hosts
WHERE direction = 'tx' AND protocol = 'tcp' AND verdict = 'valid' AND tx_network_ns IS NOT NULL;

CREATE OR REPLACE TEMPORARY VIEW reads AS
SELECT from_host AS read_from, time_ns, clock_offset_ns AS reader_boot_ns,
    time_ns - clock_offset_ns - coalesce(rx_wakeup_ns, 0) - coalesce(rx_app_ns, 0) AS ready_ns,
    time_ns - clock_offset_ns - coalesce(rx_wakeup_ns, 0) - coalesce(rx_app_ns, 0)
        - coalesce(rx_nic_ns, 0) - coalesce(rx_hol_ns, 0) - rx_stack_ns AS arrived_ns,
    local_address AS reader_address, local_port AS reader_port,
    remote_address AS from_address, remote_port AS from_port, seq_end AS read_end, weight AS reads,
    rx_nic_ns, rx_hol_ns, rx_stack_ns, rx_wakeup_ns, rx_app_ns
FROM (
    SELECT 'second' AS from_host, time_ns, clock_offset_ns, direction, protocol, verdict, local_address, local_port,
        remote_address, remote_port, seq_end, weight, rx_nic_ns, rx_hol_ns, rx_stack_ns, rx_wakeup_ns, rx_app_ns
    FROM recording_1
    UNION ALL
    SELECT 'first' AS from_host, time_ns, clock_offset_ns, direction, protocol, verdict, local_address, local_port,
        remote_address, remote_port, seq_end, weight, rx_nic_ns, rx_hol_ns, rx_stack_ns, rx_wakeup_ns, rx_app_ns
    FROM recording_2
) AS both_hosts
WHERE direction = 'rx' AND protocol = 'tcp' AND verdict = 'valid' AND rx_stack_ns IS NOT NULL;

-- Both end with the same byte of the same connection. Sequence numbers wrap, and addresses are used
-- again: not within ten seconds.
CREATE OR REPLACE TEMPORARY VIEW pairs AS
SELECT *, CASE from_host WHEN 'first' THEN left_ns ELSE arrived_ns END AS moment_ns
FROM sends JOIN reads
ON from_host = read_from AND seq_end = read_end
    AND sender_address = from_address AND sender_port = from_port
    AND to_address = reader_address AND to_port = reader_port
    AND abs(sent_at - time_ns) <= 10000000000;

-- The least and the most that the second host's clock is ahead at the moment of a pair.
CREATE OR REPLACE TEMPORARY VIEW bounded AS
SELECT *,
    CAST(least AS DOUBLE) + CAST(least_drift AS DOUBLE) * (CAST(moment_ns - origin_ns AS DOUBLE) / 1e9) AS least_ns,
    CAST(most AS DOUBLE) + CAST(most_drift AS DOUBLE) * (CAST(moment_ns - origin_ns AS DOUBLE) / 1e9) AS most_ns
FROM pairs JOIN clocks
ON moment_ns >= begin_ns AND moment_ns < end_ns;

-- The middle of both, as what the reader's clock is ahead of the sender's.
CREATE OR REPLACE TEMPORARY VIEW placed AS
SELECT *,
    CASE
        WHEN quality = 'trusted' THEN sender_boot_ns - reader_boot_ns
        WHEN from_host = 'first' THEN base_ns + CAST(round((least_ns + most_ns) / 2) AS BIGINT)
        ELSE -(base_ns + CAST(round((least_ns + most_ns) / 2) AS BIGINT))
    END AS ahead_ns,
    CAST(ceil((most_ns - least_ns) / 2) AS BIGINT) AS clock_error_ns
FROM bounded;

SELECT from_host AS sender, sender_address, sender_port, reader_address, reader_port, seq_end, bytes,
    sends * CASE WHEN in_step THEN 1 ELSE reads END AS weight, retransmits, time_ns,
    tx_copy_ns, tx_queue_ns, tx_qdisc_ns, tx_nic_ns,
    greatest(arrived_ns - left_ns - ahead_ns, 0) AS net_forward_ns,
    rx_nic_ns, rx_hol_ns, rx_stack_ns, rx_wakeup_ns, rx_app_ns,
    greatest(acknowledged_ns + ahead_ns - ready_ns, 0) AS net_back_ns, clock_error_ns
FROM placed
WHERE arrived_ns - left_ns - ahead_ns >= -clock_error_ns
ORDER BY time_ns, sender_address, sender_port, seq_end;
