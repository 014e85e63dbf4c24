-- The ranking of `sockstamp explain`, after messages.sql: the stages and parts that carry the excess
-- of the slowest 1 % over normal messages. Without its intervals: they need sums by flow and second.
WITH ranked AS (
    SELECT *,
        sum(weight) OVER (PARTITION BY kind ORDER BY time) AS rank,
        sum(weight) OVER (PARTITION BY kind) AS count
    FROM lives
),
limits AS (
    SELECT kind,
        min(time) FILTER (rank >= 0.25 * count) AS p25,
        min(time) FILTER (rank >= 0.75 * count) AS p75,
        min(time) FILTER (rank >= 0.99 * count) AS p99
    FROM ranked
    GROUP BY kind
),
judged AS (
    SELECT kind, weight, components, time > p99 AS slow, time BETWEEN p25 AND p75 AND time <= p99 AS normal
    FROM lives JOIN limits USING (kind)
),
means AS (
    SELECT kind, each.component,
        sum(each.ns * weight) FILTER (normal) / sum(weight) FILTER (normal) AS norm_ns,
        sum(each.ns * weight) FILTER (slow) / sum(weight) FILTER (slow) AS slow_ns
    FROM (SELECT kind, weight, slow, normal, unnest(components) AS each FROM judged)
    GROUP BY kind, each.component
)
SELECT kind, component, norm_ns, slow_ns - norm_ns AS excess_ns,
    (slow_ns - norm_ns) / sum(slow_ns - norm_ns) OVER (PARTITION BY kind) AS share
FROM means
ORDER BY kind, share DESC;
