-- Views of recordings, for report.sql and explain.sql. In DuckDB:
--
--     SET VARIABLE files = 'recording/**/*.parquet';
--     .read messages.sql

CREATE OR REPLACE VIEW messages AS
SELECT *, coalesce(conn_handshake_ns, conn_accept_ns) IS NOT NULL AS is_connection
FROM read_parquet(getvariable('files'));

-- A row per valid message and stage that it has.
CREATE OR REPLACE VIEW stages AS
SELECT direction, weight, stage, ns
FROM messages
UNPIVOT (ns FOR stage IN (
    tx_copy_ns AS 'tx.copy', tx_queue_ns AS 'tx.queue', tx_qdisc_ns AS 'tx.qdisc', tx_nic_ns AS 'tx.nic',
    tx_network_ns AS 'tx.network', app_service_ns AS 'app.service', conn_handshake_ns AS 'conn.handshake',
    rx_nic_ns AS 'rx.nic', rx_stack_ns AS 'rx.stack', rx_hol_ns AS 'rx.hol', rx_wakeup_ns AS 'rx.wakeup',
    rx_app_ns AS 'rx.app', peer_answer_ns AS 'peer.answer', conn_accept_ns AS 'conn.accept',
    net_forward_ns AS 'net.forward', net_back_ns AS 'net.back'))
WHERE verdict = 'valid';

-- A row per valid message and kind of time, with the stages and parts that add up to it. The first
-- part of a stage below is its rest, which has no column.
CREATE OR REPLACE VIEW lives AS
SELECT 'sends' AS kind, weight,
    coalesce(tx_copy_ns, 0) + coalesce(tx_queue_ns, 0) + coalesce(tx_qdisc_ns, 0) + coalesce(tx_nic_ns, 0) AS time,
    [
        {component: 'tx.copy copy', ns: coalesce(tx_copy_ns, 0) - coalesce(tx_copy_sndbuf_ns, 0)},
        {component: 'tx.copy sndbuf', ns: coalesce(tx_copy_sndbuf_ns, 0)},
        {component: 'tx.queue other', ns: coalesce(tx_queue_ns, 0)
            - coalesce(tx_queue_cwnd_ns, 0) - coalesce(tx_queue_rwnd_ns, 0) - coalesce(tx_queue_pacing_ns, 0)
            - coalesce(tx_queue_tsq_ns, 0) - coalesce(tx_queue_nagle_ns, 0) - coalesce(tx_queue_cork_ns, 0)
            - coalesce(tx_queue_retransmit_ns, 0)},
        {component: 'tx.queue cwnd', ns: coalesce(tx_queue_cwnd_ns, 0)},
        {component: 'tx.queue rwnd', ns: coalesce(tx_queue_rwnd_ns, 0)},
        {component: 'tx.queue pacing', ns: coalesce(tx_queue_pacing_ns, 0)},
        {component: 'tx.queue tsq', ns: coalesce(tx_queue_tsq_ns, 0)},
        {component: 'tx.queue nagle', ns: coalesce(tx_queue_nagle_ns, 0)},
        {component: 'tx.queue cork', ns: coalesce(tx_queue_cork_ns, 0)},
        {component: 'tx.queue retransmit', ns: coalesce(tx_queue_retransmit_ns, 0)},
        {component: 'tx.qdisc', ns: coalesce(tx_qdisc_ns, 0)},
        {component: 'tx.nic', ns: coalesce(tx_nic_ns, 0)}
    ] AS components
FROM messages
WHERE verdict = 'valid' AND coalesce(tx_copy_ns, tx_queue_ns, tx_qdisc_ns, tx_nic_ns) IS NOT NULL
    AND clock_error_ns IS NULL
UNION ALL
SELECT 'reads', weight,
    coalesce(rx_nic_ns, 0) + coalesce(rx_stack_ns, 0) + coalesce(rx_hol_ns, 0) + coalesce(rx_wakeup_ns, 0)
        + coalesce(rx_app_ns, 0),
    [
        {component: 'rx.nic', ns: coalesce(rx_nic_ns, 0)},
        {component: 'rx.stack', ns: coalesce(rx_stack_ns, 0)},
        {component: 'rx.hol', ns: coalesce(rx_hol_ns, 0)},
        {component: 'rx.wakeup', ns: coalesce(rx_wakeup_ns, 0)},
        {component: 'rx.app', ns: coalesce(rx_app_ns, 0)}
    ]
FROM messages
WHERE verdict = 'valid' AND coalesce(rx_nic_ns, rx_stack_ns, rx_hol_ns, rx_wakeup_ns, rx_app_ns) IS NOT NULL
    AND clock_error_ns IS NULL
UNION ALL
SELECT 'answers', weight, peer_answer_ns,
    [
        {component: 'peer.answer peer', ns: peer_answer_ns - coalesce(peer_answer_network_ns, 0)},
        {component: 'peer.answer network', ns: coalesce(peer_answer_network_ns, 0)}
    ]
FROM messages
WHERE verdict = 'valid' AND peer_answer_ns IS NOT NULL
UNION ALL
-- Whole lives, which join wrote.
SELECT 'lives', weight,
    coalesce(tx_copy_ns, 0) + coalesce(tx_queue_ns, 0) + coalesce(tx_qdisc_ns, 0) + coalesce(tx_nic_ns, 0)
        + coalesce(net_forward_ns, 0) + coalesce(rx_nic_ns, 0) + coalesce(rx_stack_ns, 0) + coalesce(rx_hol_ns, 0)
        + coalesce(rx_wakeup_ns, 0) + coalesce(rx_app_ns, 0),
    [
        {component: 'tx.copy copy', ns: coalesce(tx_copy_ns, 0) - coalesce(tx_copy_sndbuf_ns, 0)},
        {component: 'tx.copy sndbuf', ns: coalesce(tx_copy_sndbuf_ns, 0)},
        {component: 'tx.queue other', ns: coalesce(tx_queue_ns, 0)
            - coalesce(tx_queue_cwnd_ns, 0) - coalesce(tx_queue_rwnd_ns, 0) - coalesce(tx_queue_pacing_ns, 0)
            - coalesce(tx_queue_tsq_ns, 0) - coalesce(tx_queue_nagle_ns, 0) - coalesce(tx_queue_cork_ns, 0)
            - coalesce(tx_queue_retransmit_ns, 0)},
        {component: 'tx.queue cwnd', ns: coalesce(tx_queue_cwnd_ns, 0)},
        {component: 'tx.queue rwnd', ns: coalesce(tx_queue_rwnd_ns, 0)},
        {component: 'tx.queue pacing', ns: coalesce(tx_queue_pacing_ns, 0)},
        {component: 'tx.queue tsq', ns: coalesce(tx_queue_tsq_ns, 0)},
        {component: 'tx.queue nagle', ns: coalesce(tx_queue_nagle_ns, 0)},
        {component: 'tx.queue cork', ns: coalesce(tx_queue_cork_ns, 0)},
        {component: 'tx.queue retransmit', ns: coalesce(tx_queue_retransmit_ns, 0)},
        {component: 'tx.qdisc', ns: coalesce(tx_qdisc_ns, 0)},
        {component: 'tx.nic', ns: coalesce(tx_nic_ns, 0)},
        {component: 'net.forward', ns: coalesce(net_forward_ns, 0)},
        {component: 'rx.nic', ns: coalesce(rx_nic_ns, 0)},
        {component: 'rx.hol', ns: coalesce(rx_hol_ns, 0)},
        {component: 'rx.stack', ns: coalesce(rx_stack_ns, 0)},
        {component: 'rx.wakeup', ns: coalesce(rx_wakeup_ns, 0)},
        {component: 'rx.app', ns: coalesce(rx_app_ns, 0)}
    ]
FROM messages
WHERE verdict = 'valid' AND clock_error_ns IS NOT NULL;
