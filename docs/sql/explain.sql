-- The ranking of `sockstamp explain`, after messages.sql: the stages and parts that carry the excess
-- of the slowest 1 % over normal messages. Without its intervals: they need sums by flow and time.
-- Where none is slower than the 99th percentile, there is no excess.
WITH ranked AS (
    SELECT kind, life_ns,
        sum(weight) OVER (PARTITION BY kind ORDER BY life_ns) AS up_to,
        sum(weight) OVER (PARTITION BY kind) AS whole
    FROM lives
),
limits AS (
    SELECT kind AS limited,
        min(life_ns) FILTER (WHERE up_to >= 0.25 * whole) AS p25,
        min(life_ns) FILTER (WHERE up_to >= 0.75 * whole) AS p75,
        min(life_ns) FILTER (WHERE up_to >= 0.99 * whole) AS p99
    FROM ranked
    GROUP BY kind
),
judged AS (
    SELECT kind, weight, component, ns,
        life_ns > p99 AS is_slow, life_ns BETWEEN p25 AND p75 AND life_ns <= p99 AS is_normal
    FROM components JOIN limits ON kind = limited
),
means AS (
    SELECT kind, component,
        sum(ns * weight) FILTER (WHERE is_normal) / sum(weight) FILTER (WHERE is_normal) AS norm_ns,
        sum(ns * weight) FILTER (WHERE is_slow) / sum(weight) FILTER (WHERE is_slow) AS slow_ns
    FROM judged
    GROUP BY kind, component
),
excesses AS (
    SELECT kind, component, norm_ns, coalesce(slow_ns - norm_ns, 0) AS excess_ns
    FROM means
)
SELECT kind, component, norm_ns, excess_ns,
    coalesce(excess_ns / nullif(sum(excess_ns) OVER (PARTITION BY kind), 0), 0) AS share
FROM excesses
ORDER BY kind, share DESC;
