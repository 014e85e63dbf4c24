-- The tables of `sockstamp report`, after messages.sql. Quantiles are exact here; those of report
-- are off by 4.5 % at most.

-- Messages and bytes, by direction
SELECT direction, sum(weight) AS messages, sum(weight * bytes) AS bytes
FROM messages
WHERE NOT is_connection
GROUP BY direction;

-- Verdicts
SELECT verdict, sum(weight) AS messages
FROM messages
WHERE NOT is_connection
GROUP BY verdict;

-- Stages: the quantile q is the shortest duration that q of the messages do not exceed.
WITH ranked AS (
    SELECT *,
        sum(weight) OVER (PARTITION BY direction, stage ORDER BY ns) AS rank,
        sum(weight) OVER (PARTITION BY direction, stage) AS count
    FROM stages
)
SELECT direction, stage, any_value(count) AS count, sum(weight * ns) AS sum_ns,
    min(ns) FILTER (rank >= 0.5 * count) AS p50_ns,
    min(ns) FILTER (rank >= 0.9 * count) AS p90_ns,
    min(ns) FILTER (rank >= 0.99 * count) AS p99_ns,
    min(ns) FILTER (rank >= 0.999 * count) AS p999_ns,
    max(ns) AS max_ns
FROM ranked
GROUP BY direction, stage;
