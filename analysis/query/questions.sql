-- What became of the updates?
-- olaf/Olaf_TC,seed=1
SELECT fate, COUNT(*) AS updates FROM fates GROUP BY fate ORDER BY fate

-- Where were updates dropped, and why?
-- olaf/Olaf_TC,seed=1
SELECT node, reason, COUNT(*) AS drops FROM books WHERE action = 'dropped'
GROUP BY node, reason ORDER BY node, reason

-- Which share of the sent updates of each cluster was dropped?
-- olaf/Olaf_TC,seed=1
SELECT cluster, AVG(CASE WHEN fate = 'dropped' AND reason <> 'duplicate' THEN 1.0 ELSE 0.0 END) AS loss
FROM fates WHERE fate <> 'withheld' GROUP BY cluster ORDER BY cluster

-- How long from sending to reception, in ns, on the mean and for 99 of 100?
-- olaf/Olaf_TC,seed=1
SELECT AVG(r.t_recv_ps - s.t_sent_ps) / 1000 AS mean, QUANTILE_DISC(r.t_recv_ps - s.t_sent_ps, 0.99) / 1000 AS p99
FROM received r JOIN sent s ON s.packet = r.packet

-- Which five packets took longest?
-- olaf/Olaf_TC,seed=1
SELECT r.packet, s.worker, s.seq, r.t_recv_ps - s.t_sent_ps AS ps
FROM received r JOIN sent s ON s.packet = r.packet ORDER BY ps DESC, r.packet LIMIT 5

-- How many packets at the server represent how many updates?
-- olaf/Olaf_TC,seed=1
SELECT count AS updates, COUNT(*) AS packets FROM received GROUP BY count ORDER BY count

-- How many bytes arrive in each half second?
-- olaf/Olaf_TC,seed=1
SELECT t_recv_ps // 500000000000 AS half_second, SUM(bytes) AS bytes FROM received GROUP BY half_second ORDER BY half_second

-- How old is the model of a cluster when an update arrives, in ms?
-- olaf/Olaf_TC,seed=1
SELECT cluster, MIN(t_recv_ps - newest_gen_ps) / 1000000000 AS least, AVG(t_recv_ps - newest_gen_ps) / 1000000000 AS mean
FROM received GROUP BY cluster ORDER BY cluster

-- For how long, at most, does a cluster hear nothing from the server, in ps?
-- olaf/Olaf_TC,seed=1
WITH gaps AS (
  SELECT cluster, t_recv_ps - LAG(t_recv_ps) OVER (PARTITION BY cluster ORDER BY t_recv_ps) AS gap FROM received
)
SELECT cluster, MAX(gap) AS longest FROM gaps GROUP BY cluster ORDER BY longest DESC, cluster LIMIT 3

-- Which three workers had the fewest updates delivered?
-- olaf/Olaf_TC,seed=1
SELECT worker, SUM(CASE WHEN fate LIKE 'delivered%' THEN 1 ELSE 0 END) AS delivered
FROM fates GROUP BY worker ORDER BY delivered, worker LIMIT 3

-- How long do packets wait in each switch, from queue to departure, in ps?
-- olaf/Olaf_TC,seed=1
SELECT q.node, COUNT(*) AS packets, AVG(d.t_ps - q.t_ps) AS mean
FROM books q JOIN books d ON d.packet_in = q.packet_in AND d.node = q.node
WHERE q.action = 'queued' AND d.action = 'departed' GROUP BY q.node ORDER BY q.node

-- Which aggregates hold most updates, and of how many workers?
-- olaf/Olaf_TC,seed=1
SELECT aggregate, COUNT(*) AS updates, COUNT(DISTINCT worker) AS workers
FROM fates WHERE fate = 'delivered_merged' GROUP BY aggregate ORDER BY updates DESC, aggregate LIMIT 3

-- Which workers sent with the lowest probability, under transmission control?
-- olaf/Olaf_TC,seed=1
SELECT worker, COUNT(*) AS decisions, AVG(p_send) AS p FROM states WHERE p_send IS NOT NULL
GROUP BY worker ORDER BY p, worker LIMIT 3

-- How much did each variant lose, on the mean over seeds?
-- olaf
SELECT r.variant, AVG(m.value) AS loss FROM metrics m JOIN runs r ON r.run = m.run
WHERE m.key = 'loss' GROUP BY r.variant ORDER BY loss

-- In which run is the Age-of-Model of clusters highest?
-- olaf
SELECT run, value, unit FROM metrics WHERE key = 'aom_mean/cluster' ORDER BY value DESC LIMIT 1

-- For which reasons does each variant drop, over all seeds?
-- olaf
SELECT r.variant, b.reason, COUNT(*) AS drops FROM books b JOIN runs r ON r.run = b.run
WHERE b.action = 'dropped' GROUP BY r.variant, b.reason ORDER BY r.variant, b.reason

-- How many updates did each run withhold, and is it valid?
-- olaf
SELECT r.run, r.valid, COUNT(*) - COUNT(s.t_sent_ps) AS withheld FROM runs r JOIN sent s ON s.run = r.run
GROUP BY r.run, r.valid ORDER BY r.run

-- How long does an iteration take at each worker, in ns?
-- trio/Trio-ML,model=resnet50,seed=1
SELECT worker, (MAX(t_end_ps) - MIN(t_start_ps)) / COUNT(*) / 1000 AS mean
FROM iterations GROUP BY worker ORDER BY worker

-- How long from a contribution to its first whole result, in ns, and how many results lack sources?
-- trio/SwitchML,model=resnet50,seed=1
SELECT AVG(CASE WHEN NOT degraded AND NOT again THEN t_recv_ps - t_sent_ps END) / 1000 AS latency,
  SUM(CASE WHEN degraded THEN 1 ELSE 0 END) AS degraded, COUNT(*) AS results FROM results

-- Which three blocks were slowest, from the first contribution to the last result?
-- trio/Trio-ML,model=resnet50,seed=1
SELECT seq, MAX(t_recv_ps) - MIN(t_sent_ps) AS ps FROM results GROUP BY seq ORDER BY ps DESC, seq LIMIT 3
