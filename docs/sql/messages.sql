-- Views of recordings, for report.sql and explain.sql. They are made of the view `recording`:
--
--     CREATE VIEW recording AS FROM read_parquet('recording/**/*.parquet', union_by_name => true);           -- DuckDB
--     CREATE TEMPORARY VIEW recording USING parquet OPTIONS (path 'recording', mergeSchema true);   -- Apache Spark
--
-- The last options are for files of different versions of sockstamp: later ones have more columns.
--
-- A file whose recording was killed has no footer yet, and is refused by both ("No magic bytes found",
-- "is not a Parquet file"): run `sockstamp recover FILE` first. So is a file that is still being
-- written: in a directory, name the others.

CREATE OR REPLACE TEMPORARY VIEW messages AS
SELECT *, coalesce(conn_handshake_ns, conn_accept_ns) IS NOT NULL AS is_connection
FROM recording;

-- A row per valid message and stage that it has.
CREATE OR REPLACE TEMPORARY VIEW stages AS
SELECT direction, weight, stage, ns
FROM (
    SELECT direction, weight, stage,
        CASE stage
            WHEN 'tx.copy' THEN tx_copy_ns
            WHEN 'tx.queue' THEN tx_queue_ns
            WHEN 'tx.qdisc' THEN tx_qdisc_ns
            WHEN 'tx.nic' THEN tx_nic_ns
            WHEN 'tx.network' THEN tx_network_ns
            WHEN 'app.service' THEN app_service_ns
            WHEN 'client.pause' THEN client_pause_ns
            WHEN 'client.request' THEN client_request_ns
            WHEN 'conn.handshake' THEN conn_handshake_ns
            WHEN 'rx.nic' THEN rx_nic_ns
            WHEN 'rx.stack' THEN rx_stack_ns
            WHEN 'rx.hol' THEN rx_hol_ns
            WHEN 'rx.wakeup' THEN rx_wakeup_ns
            WHEN 'rx.app' THEN rx_app_ns
            WHEN 'peer.answer' THEN peer_answer_ns
            WHEN 'peer.rest' THEN peer_rest_ns
            WHEN 'conn.accept' THEN conn_accept_ns
            WHEN 'net.forward' THEN net_forward_ns
            WHEN 'net.back' THEN net_back_ns
        END AS ns
    FROM messages CROSS JOIN (VALUES
        ('tx.copy'), ('tx.queue'), ('tx.qdisc'), ('tx.nic'), ('tx.network'), ('app.service'),
        ('client.pause'), ('client.request'), ('conn.handshake'),
        ('rx.nic'), ('rx.stack'), ('rx.hol'), ('rx.wakeup'), ('rx.app'), ('peer.answer'), ('peer.rest'),
        ('conn.accept'),
        ('net.forward'), ('net.back')
    ) AS names(stage)
    WHERE verdict = 'valid'
) AS each_stage
WHERE ns IS NOT NULL;

-- The times of a message: until it was sent, since it arrived, of its way, and with the network's.
CREATE OR REPLACE TEMPORARY VIEW sums AS
SELECT *, sent_ns + coalesce(net_forward_ns, 0) + received_ns AS way_ns,
    sent_ns + coalesce(net_forward_ns, 0) + received_ns + coalesce(tx_network_ns, 0) AS total_ns
FROM (
    SELECT *,
        coalesce(tx_copy_ns, 0) + coalesce(tx_queue_ns, 0) + coalesce(tx_qdisc_ns, 0)
            + coalesce(tx_nic_ns, 0) AS sent_ns,
        coalesce(rx_nic_ns, 0) + coalesce(rx_stack_ns, 0) + coalesce(rx_hol_ns, 0)
            + coalesce(rx_wakeup_ns, 0) + coalesce(rx_app_ns, 0) AS received_ns
    FROM messages
    WHERE verdict = 'valid'
) AS by_end;

-- The stages, and as others of this kind the sums of those of a message.
CREATE OR REPLACE TEMPORARY VIEW times AS
SELECT direction, weight, stage, ns
FROM stages
UNION ALL
SELECT direction, weight, 'sent' AS stage, way_ns AS ns
FROM sums
WHERE direction = 'tx' AND NOT is_connection
UNION ALL
SELECT direction, weight, 'total' AS stage, total_ns AS ns
FROM sums
WHERE NOT is_connection;

-- What groups of messages are made of. The port is the service's; if it is unknown which end opened
-- the connection, the lower one.
CREATE OR REPLACE TEMPORARY VIEW members AS
SELECT direction, comm,
    CASE opened WHEN 'accepted' THEN local_port WHEN 'connected' THEN remote_port
        ELSE least(local_port, remote_port) END AS port,
    pid, remote_address, time_ns, bytes, weight, retransmits, weight AS valid_weight, total_ns
FROM sums
WHERE NOT is_connection
UNION ALL
SELECT direction, comm,
    CASE opened WHEN 'accepted' THEN local_port WHEN 'connected' THEN remote_port
        ELSE least(local_port, remote_port) END AS port,
    pid, remote_address, time_ns, bytes, weight, retransmits, 0 AS valid_weight, NULL AS total_ns
FROM messages
WHERE NOT is_connection AND verdict <> 'valid';

-- A row per valid message or connection and kind of time. Whole lives, which join wrote, have clock_error_ns.
CREATE OR REPLACE TEMPORARY VIEW lives AS
SELECT 'sends' AS kind, sent_ns AS life_ns, sums.*
FROM sums
WHERE coalesce(tx_copy_ns, tx_queue_ns, tx_qdisc_ns, tx_nic_ns) IS NOT NULL AND clock_error_ns IS NULL
UNION ALL
SELECT 'reads' AS kind, received_ns AS life_ns, sums.*
FROM sums
WHERE coalesce(rx_nic_ns, rx_stack_ns, rx_hol_ns, rx_wakeup_ns, rx_app_ns) IS NOT NULL AND clock_error_ns IS NULL
UNION ALL
SELECT 'answers' AS kind, peer_answer_ns AS life_ns, sums.*
FROM sums
WHERE peer_answer_ns IS NOT NULL
UNION ALL
SELECT 'connects' AS kind, conn_handshake_ns AS life_ns, sums.*
FROM sums
WHERE conn_handshake_ns IS NOT NULL
UNION ALL
SELECT 'accepts' AS kind, conn_accept_ns AS life_ns, sums.*
FROM sums
WHERE conn_accept_ns IS NOT NULL
UNION ALL
SELECT 'lives' AS kind, way_ns AS life_ns, sums.*
FROM sums
WHERE clock_error_ns IS NOT NULL;

-- The stages and parts that add up to a time, each with its kind. The first part of a stage is its
-- rest, which has no column.
CREATE OR REPLACE TEMPORARY VIEW components AS
SELECT kind, weight, life_ns, component,
    coalesce(CASE component
        WHEN 'tx.copy copy' THEN coalesce(tx_copy_ns, 0) - coalesce(tx_copy_sndbuf_ns, 0)
        WHEN 'tx.copy sndbuf' THEN tx_copy_sndbuf_ns
        WHEN 'tx.queue other' THEN coalesce(tx_queue_ns, 0)
            - coalesce(tx_queue_cwnd_ns, 0) - coalesce(tx_queue_rwnd_ns, 0) - coalesce(tx_queue_pacing_ns, 0)
            - coalesce(tx_queue_tsq_ns, 0) - coalesce(tx_queue_nagle_ns, 0) - coalesce(tx_queue_cork_ns, 0)
            - coalesce(tx_queue_retransmit_ns, 0) - coalesce(tx_queue_neighbour_ns, 0)
        WHEN 'tx.queue cwnd' THEN tx_queue_cwnd_ns
        WHEN 'tx.queue rwnd' THEN tx_queue_rwnd_ns
        WHEN 'tx.queue pacing' THEN tx_queue_pacing_ns
        WHEN 'tx.queue tsq' THEN tx_queue_tsq_ns
        WHEN 'tx.queue nagle' THEN tx_queue_nagle_ns
        WHEN 'tx.queue cork' THEN tx_queue_cork_ns
        WHEN 'tx.queue retransmit' THEN tx_queue_retransmit_ns
        WHEN 'tx.queue neighbour' THEN tx_queue_neighbour_ns
        WHEN 'tx.qdisc' THEN tx_qdisc_ns
        WHEN 'tx.nic' THEN tx_nic_ns
        WHEN 'net.forward' THEN net_forward_ns
        WHEN 'rx.nic' THEN rx_nic_ns
        WHEN 'rx.stack' THEN rx_stack_ns
        WHEN 'rx.hol' THEN rx_hol_ns
        WHEN 'rx.wakeup' THEN rx_wakeup_ns
        WHEN 'rx.app' THEN rx_app_ns
        WHEN 'peer.answer peer' THEN peer_answer_ns - coalesce(peer_answer_network_ns, 0)
        WHEN 'peer.answer network' THEN peer_answer_network_ns
        WHEN 'conn.handshake round-trip' THEN conn_handshake_ns - coalesce(conn_handshake_syn_again_ns, 0)
            - coalesce(conn_handshake_neighbour_ns, 0)
        WHEN 'conn.handshake syn-again' THEN conn_handshake_syn_again_ns
        WHEN 'conn.handshake neighbour' THEN conn_handshake_neighbour_ns
        WHEN 'conn.accept' THEN conn_accept_ns
    END, 0) AS ns
FROM lives JOIN (VALUES
    ('sends', 'tx.copy copy'), ('sends', 'tx.copy sndbuf'), ('sends', 'tx.queue other'), ('sends', 'tx.queue cwnd'),
    ('sends', 'tx.queue rwnd'), ('sends', 'tx.queue pacing'), ('sends', 'tx.queue tsq'), ('sends', 'tx.queue nagle'),
    ('sends', 'tx.queue cork'), ('sends', 'tx.queue retransmit'), ('sends', 'tx.queue neighbour'),
    ('sends', 'tx.qdisc'), ('sends', 'tx.nic'),
    ('reads', 'rx.nic'), ('reads', 'rx.stack'), ('reads', 'rx.hol'), ('reads', 'rx.wakeup'), ('reads', 'rx.app'),
    ('answers', 'peer.answer peer'), ('answers', 'peer.answer network'),
    ('connects', 'conn.handshake round-trip'), ('connects', 'conn.handshake syn-again'),
    ('connects', 'conn.handshake neighbour'), ('accepts', 'conn.accept'),
    ('lives', 'tx.copy copy'), ('lives', 'tx.copy sndbuf'), ('lives', 'tx.queue other'), ('lives', 'tx.queue cwnd'),
    ('lives', 'tx.queue rwnd'), ('lives', 'tx.queue pacing'), ('lives', 'tx.queue tsq'), ('lives', 'tx.queue nagle'),
    ('lives', 'tx.queue cork'), ('lives', 'tx.queue retransmit'), ('lives', 'tx.queue neighbour'),
    ('lives', 'tx.qdisc'), ('lives', 'tx.nic'),
    ('lives', 'net.forward'), ('lives', 'rx.nic'), ('lives', 'rx.stack'), ('lives', 'rx.hol'), ('lives', 'rx.wakeup'),
    ('lives', 'rx.app')
) AS names(kind_of, component)
ON kind = kind_of;
