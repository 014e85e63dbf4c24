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
    SELECT direction, stage, weight, ns,
        sum(weight) OVER (PARTITION BY direction, stage ORDER BY ns) AS up_to,
        sum(weight) OVER (PARTITION BY direction, stage) AS whole
    FROM stages
)
SELECT direction, stage, max(whole) AS count, sum(weight * ns) AS sum_ns,
    min(ns) FILTER (WHERE up_to >= 0.5 * whole) AS p50_ns,
    min(ns) FILTER (WHERE up_to >= 0.9 * whole) AS p90_ns,
    min(ns) FILTER (WHERE up_to >= 0.99 * whole) AS p99_ns,
    min(ns) FILTER (WHERE up_to >= 0.999 * whole) AS p999_ns,
    max(ns) AS max_ns
FROM ranked
GROUP BY direction, stage;
