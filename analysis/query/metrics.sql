-- sent
SELECT COUNT(*) AS value FROM fates WHERE fate <> 'withheld'

-- received
SELECT COUNT(*) AS value FROM received

-- loss
SELECT AVG(CASE WHEN fate = 'dropped' AND reason <> 'duplicate' THEN 1.0 ELSE 0.0 END) AS value
FROM fates WHERE fate <> 'withheld'

-- dropped
SELECT COUNT(*) AS value FROM fates WHERE fate = 'dropped'

-- dropped by reason
SELECT reason, COUNT(*) AS value FROM fates WHERE fate = 'dropped' GROUP BY reason

-- merged
SELECT COUNT(*) AS value FROM fates WHERE fate = 'delivered_merged'

-- absorbed
WITH of_workers AS (SELECT SUM(CASE WHEN fate IN ('withheld', 'dropped', 'in_flight') THEN 0 ELSE 1 END) AS n FROM fates),
  at_server AS (SELECT COUNT(*) AS n FROM received)
SELECT of_workers.n - at_server.n AS value FROM of_workers CROSS JOIN at_server

-- aggregated
WITH of_workers AS (SELECT SUM(CASE WHEN fate LIKE 'delivered%' THEN 1 ELSE 0 END) AS n FROM fates),
  at_server AS (SELECT COUNT(*) AS n FROM received)
SELECT of_workers.n - at_server.n AS value FROM of_workers CROSS JOIN at_server

-- unrepresented
SELECT AVG(CASE WHEN fate IN ('dropped', 'subsumed', 'outranked', 'unaccounted') THEN 1.0 ELSE 0.0 END) AS value
FROM fates WHERE fate <> 'withheld'

-- subsumed
SELECT COUNT(*) AS value FROM fates WHERE fate = 'subsumed'

-- outranked
SELECT COUNT(*) AS value FROM fates WHERE fate = 'outranked'

-- in_flight
SELECT COUNT(*) AS value FROM fates WHERE fate = 'in_flight'

-- retransmissions
SELECT COUNT(*) AS value FROM fates WHERE attempt > 0

-- withheld
SELECT COUNT(*) AS value FROM fates WHERE fate = 'withheld'

-- withheld_share
SELECT AVG(CASE WHEN fate = 'withheld' THEN 1.0 ELSE 0.0 END) AS value FROM fates

-- accepted
SELECT AVG(CASE WHEN accepted THEN 1.0 ELSE 0.0 END) AS value FROM received

-- aggregation_count by n
SELECT count AS n, COUNT(*) AS value FROM received GROUP BY count

-- aggregation_cdf by n
WITH bins AS (SELECT count AS n, COUNT(*) AS packets FROM received GROUP BY count),
  everything AS (SELECT COUNT(*) AS packets FROM received)
SELECT bins.n AS n, SUM(bins.packets) OVER (ORDER BY bins.n) / everything.packets AS value FROM bins CROSS JOIN everything

-- aggregation_mean
SELECT SUM(count) / COUNT(*) AS value FROM received

-- throughput_bps
WITH spans AS (SELECT MIN(t_recv_ps) AS first, MAX(t_recv_ps) AS last FROM received),
  rest AS (SELECT bytes FROM received ORDER BY t_recv_ps LIMIT 1000000000 OFFSET 1)
SELECT SUM(rest.bytes) * 8 / (MAX(spans.last - spans.first) / 1000000000000) AS value FROM rest CROSS JOIN spans

-- updates_per_s
WITH spans AS (SELECT MIN(t_recv_ps) AS first, MAX(t_recv_ps) AS last FROM received),
  rest AS (SELECT count FROM received ORDER BY t_recv_ps LIMIT 1000000000 OFFSET 1)
SELECT SUM(rest.count) / (MAX(spans.last - spans.first) / 1000000000000) AS value FROM rest CROSS JOIN spans

-- host_latency_mean
SELECT AVG(r.t_recv_ps - s.t_sent_ps) / 1000 AS value FROM received r JOIN sent s ON s.packet = r.packet

-- host_latency_p50
SELECT QUANTILE_DISC(r.t_recv_ps - s.t_sent_ps, 0.5) / 1000 AS value FROM received r JOIN sent s ON s.packet = r.packet

-- host_latency_p99
SELECT QUANTILE_DISC(r.t_recv_ps - s.t_sent_ps, 0.99) / 1000 AS value FROM received r JOIN sent s ON s.packet = r.packet

-- host_latency_max
SELECT MAX(r.t_recv_ps - s.t_sent_ps) / 1000 AS value FROM received r JOIN sent s ON s.packet = r.packet

-- aom_mean by flow, id
WITH generated AS (SELECT cluster, MIN(t_gen_ps) AS first, MAX(t_gen_ps) AS last FROM sent GROUP BY cluster),
  delivered AS (
    SELECT cluster, t_recv_ps AS t, MAX(newest_gen_ps) OVER (PARTITION BY cluster ORDER BY t_recv_ps) AS fresh FROM received
    UNION ALL SELECT cluster, first AS t, first AS fresh FROM generated),
  steps AS (
    SELECT d.cluster AS cluster, d.t AS since, d.fresh AS fresh, g.first AS first, g.last AS last,
      LEAD(d.t) OVER (PARTITION BY d.cluster ORDER BY d.t, d.fresh) AS until
    FROM delivered d JOIN generated g ON g.cluster = d.cluster),
  parts AS (
    SELECT cluster, first, since, fresh, COALESCE(until, GREATEST(since, last)) AS until FROM steps)
SELECT 'cluster' AS flow, cluster AS id,
  SUM((CAST(until - fresh AS DOUBLE) * (until - fresh) - CAST(since - fresh AS DOUBLE) * (since - fresh)) / 2)
    / MAX(until - first) / 1000 AS value
FROM parts GROUP BY cluster

-- aom_peak_max by flow, id
WITH generated AS (SELECT cluster, MIN(t_gen_ps) AS first FROM sent GROUP BY cluster),
  delivered AS (
    SELECT r.cluster AS cluster, r.t_recv_ps AS t, r.newest_gen_ps AS fresh, g.first AS first,
      MAX(r.newest_gen_ps) OVER (PARTITION BY r.cluster ORDER BY r.t_recv_ps) AS freshest
    FROM received r JOIN generated g ON g.cluster = r.cluster),
  steps AS (
    SELECT cluster, t, first, freshest, LAG(freshest) OVER (PARTITION BY cluster ORDER BY t) AS before FROM delivered)
SELECT 'cluster' AS flow, cluster AS id, MAX(t - COALESCE(before, first)) / 1000 AS value
FROM steps WHERE freshest > COALESCE(before, first) GROUP BY cluster

-- aom_peak_mean by flow, id
WITH generated AS (SELECT cluster, MIN(t_gen_ps) AS first FROM sent GROUP BY cluster),
  delivered AS (
    SELECT r.cluster AS cluster, r.t_recv_ps AS t, r.newest_gen_ps AS fresh, g.first AS first,
      MAX(r.newest_gen_ps) OVER (PARTITION BY r.cluster ORDER BY r.t_recv_ps) AS freshest
    FROM received r JOIN generated g ON g.cluster = r.cluster),
  steps AS (
    SELECT cluster, t, first, freshest, LAG(freshest) OVER (PARTITION BY cluster ORDER BY t) AS before FROM delivered)
SELECT 'cluster' AS flow, cluster AS id, AVG(t - COALESCE(before, first)) / 1000 AS value
FROM steps WHERE freshest > COALESCE(before, first) GROUP BY cluster

-- aom_fairness by flow
WITH means AS (SELECT value FROM metrics WHERE metric = 'aom_mean' AND flow = 'cluster' AND id IS NOT NULL)
SELECT 'cluster' AS flow, AVG(value) * AVG(value) / AVG(value * value) AS value FROM means

-- flows_never_delivered by flow
WITH ended AS (
  SELECT cluster, SUM(CASE WHEN fate LIKE 'delivered%' THEN 1 ELSE 0 END) AS delivered FROM fates GROUP BY cluster)
SELECT 'cluster' AS flow, SUM(CASE WHEN delivered = 0 THEN 1 ELSE 0 END) AS value FROM ended

-- iterations
SELECT COUNT(*) AS value FROM iterations

-- iteration_time_mean
WITH workers AS (SELECT (MAX(t_end_ps) - MIN(t_start_ps)) / COUNT(*) AS span FROM iterations GROUP BY worker)
SELECT AVG(span) / 1000 AS value FROM workers

-- iteration_time_p50
SELECT QUANTILE_DISC(t_end_ps - t_start_ps, 0.5) / 1000 AS value FROM iterations

-- iteration_time_p99
SELECT QUANTILE_DISC(t_end_ps - t_start_ps, 0.99) / 1000 AS value FROM iterations

-- iteration_time_max
SELECT MAX(t_end_ps - t_start_ps) / 1000 AS value FROM iterations

-- communication_time_mean
SELECT AVG(t_end_ps - t_ready_ps) / 1000 AS value FROM iterations WHERE NOT missed

-- delay_mean
SELECT AVG(delay_ps) / 1000 AS value FROM iterations

-- straggled_share
SELECT AVG(CASE WHEN delay_ps > 0 THEN 1.0 ELSE 0.0 END) AS value FROM iterations

-- degraded_share
SELECT SUM(degraded) / SUM(sent + skipped) AS value FROM iterations

-- skipped_share
SELECT SUM(skipped) / SUM(sent + skipped) AS value FROM iterations

-- missed_share
SELECT AVG(CASE WHEN missed THEN 1.0 ELSE 0.0 END) AS value FROM iterations

-- useful_elements_per_s
SELECT SUM(elements) / ((MAX(t_end_ps) - MIN(t_start_ps)) / 1000000000000) AS value FROM iterations

-- results
SELECT COUNT(*) AS value FROM results

-- results_degraded
SELECT COUNT(*) AS value FROM results WHERE degraded

-- results_again
SELECT COUNT(*) AS value FROM results WHERE again

-- result_latency_mean
SELECT AVG(t_recv_ps - t_sent_ps) / 1000 AS value FROM results WHERE NOT again AND NOT degraded

-- result_latency_p50
SELECT QUANTILE_DISC(t_recv_ps - t_sent_ps, 0.5) / 1000 AS value FROM results
WHERE NOT again AND NOT degraded AND t_sent_ps IS NOT NULL

-- result_latency_p99
SELECT QUANTILE_DISC(t_recv_ps - t_sent_ps, 0.99) / 1000 AS value FROM results
WHERE NOT again AND NOT degraded AND t_sent_ps IS NOT NULL

-- result_latency_max
SELECT MAX(t_recv_ps - t_sent_ps) / 1000 AS value FROM results WHERE NOT again AND NOT degraded

-- recovery_time_min
SELECT MIN(t_recv_ps - t_sent_ps) / 1000 AS value FROM results WHERE NOT again AND degraded

-- recovery_time_mean
SELECT AVG(t_recv_ps - t_sent_ps) / 1000 AS value FROM results WHERE NOT again AND degraded

-- recovery_time_p99
SELECT QUANTILE_DISC(t_recv_ps - t_sent_ps, 0.99) / 1000 AS value FROM results
WHERE NOT again AND degraded AND t_sent_ps IS NOT NULL

-- recovery_time_max
SELECT MAX(t_recv_ps - t_sent_ps) / 1000 AS value FROM results WHERE NOT again AND degraded

-- p_send_mean
SELECT AVG(p_send) AS value FROM states

-- congested_share
SELECT AVG(CASE WHEN active > capacity THEN 1.0 ELSE 0.0 END) AS value FROM states WHERE p_send IS NOT NULL

-- ack_age_mean
SELECT AVG(ack_age_ps) / 1000 AS value FROM states WHERE p_send IS NOT NULL
