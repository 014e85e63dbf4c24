-- The lives of `sockstamp join --ptp`, from the recordings of both hosts. In DuckDB:
--
--     SET VARIABLE first = 'first/**/*.parquet';
--     SET VARIABLE second = 'second/**/*.parquet';
--     SET VARIABLE in_step = true;   -- if both were recorded with the same --in-step
--     .read join.sql
--
-- CLOCK_REALTIME of both hosts is taken for the same. What has no life is counted by join alone.

CREATE OR REPLACE TEMP TABLE ends AS
SELECT * FROM (
    SELECT *, 'first' AS host FROM read_parquet(getvariable('first'))
    UNION ALL BY NAME
    SELECT *, 'second' AS host FROM read_parquet(getvariable('second'))
)
WHERE protocol = 'tcp' AND verdict = 'valid';

WITH sends AS (
    SELECT *, time_ns - tx_network_ns AS left_ns
    FROM ends
    WHERE direction = 'tx' AND tx_network_ns IS NOT NULL
),
reads AS (
    SELECT *,
        time_ns - coalesce(rx_nic_ns, 0) - coalesce(rx_hol_ns, 0) - rx_stack_ns - coalesce(rx_wakeup_ns, 0)
            - coalesce(rx_app_ns, 0) AS arrived_ns,
        time_ns - coalesce(rx_wakeup_ns, 0) - coalesce(rx_app_ns, 0) AS ready_ns
    FROM ends
    WHERE direction = 'rx' AND rx_stack_ns IS NOT NULL
),
-- Both end with the same byte of the same connection. Sequence numbers wrap, and addresses are used
-- again: not within ten seconds.
pairs AS (
    SELECT sends.host AS sender, sends.local_address AS sender_address, sends.local_port AS sender_port,
        reads.local_address AS reader_address, reads.local_port AS reader_port, sends.seq_end, sends.bytes,
        sends.weight * CASE WHEN coalesce(getvariable('in_step'), false) THEN 1 ELSE reads.weight END AS weight,
        sends.retransmits, reads.time_ns,
        sends.tx_copy_ns, sends.tx_queue_ns, sends.tx_qdisc_ns, sends.tx_nic_ns,
        reads.arrived_ns - sends.left_ns AS net_forward_ns,
        reads.rx_nic_ns, reads.rx_hol_ns, reads.rx_stack_ns, reads.rx_wakeup_ns, reads.rx_app_ns,
        greatest(sends.time_ns - reads.ready_ns, 0) AS net_back_ns
    FROM sends JOIN reads
    ON sends.host <> reads.host AND sends.seq_end = reads.seq_end
        AND sends.local_address = reads.remote_address AND sends.local_port = reads.remote_port
        AND sends.remote_address = reads.local_address AND sends.remote_port = reads.local_port
        AND abs(sends.time_ns - reads.time_ns) <= 10000000000
)
SELECT *
FROM pairs
WHERE net_forward_ns >= 0
ORDER BY time_ns, sender_address, sender_port, seq_end;
