"""PPO's gradient, the gates, the protocol of §2.1, and that a seed decides everything."""

import unittest
from types import SimpleNamespace

import numpy as np

from rl import __main__ as recorder
from rl import processes, virtual
from rl.ppo import Episode, PolicyValue, Settings, advantages, loss
from rl.server import Gate, Server, Step
from tests.slopes import worst

SHORT = Settings(hidden=(6,), limit=30)


def run(mode="async", seed=1, updates=3, batch=None, settings=SHORT, jobs=1):
    """A tiny run of four workers in two clusters, watched."""
    server = Server(mode, 4, Gate("off"), Step("adam", 0.01), batch)
    made = virtual.Run(settings, server, 2, 2, 2.0, seed, jobs)
    made.go(lambda log: len(log.counts) == 4 and min(log.counts.values()) >= updates)
    return made


def episode(net, rng, count=40):
    """A made-up episode whose ratios are on both sides of the clip."""
    observations = rng.normal(size=(count, 8))
    return Episode(
        observations=observations,
        actions=rng.integers(4, size=count),
        log_probabilities=np.log(0.25) + rng.normal(0, 0.5, count),
        rewards=rng.normal(0, 50, count),
        values=rng.normal(size=count),
        last_value=0.3,
    )


class Gradient(unittest.TestCase):
    def test_the_loss_moves_as_the_gradient_says(self):
        for hidden in [(16,), (32, 32)]:
            rng = np.random.default_rng(3)
            net, settings = PolicyValue(hidden), Settings(hidden=hidden)
            weights = rng.normal(0, 0.3, net.size)
            made = episode(net, rng)
            advantage, returns = advantages(settings, made)
            of = lambda w: loss(net, settings, w, made, advantage, returns)  # noqa: E731
            self.assertLess(worst(lambda w: of(w)[0], weights, of(weights)[1], rng), 1e-5)

    def test_sizes_are_those_of_the_papers_frames(self):
        self.assertEqual([PolicyValue(h).size for h in [(16,), (32, 32), (64, 64)]], [229, 1509, 5061])

    def test_gradients_beyond_a_frame_are_several(self):
        log = SimpleNamespace(seconds=[0.5], cluster=[0], worker=[0], reward=[1.0], gradient=[np.ones(5061)])
        made = recorder.columns(log, [0])
        self.assertEqual((made["bytes"], made["seq"]), ([9036, 9036, 72 + 4 * 579], [0, 1, 2]))
        self.assertEqual(made["t_ps"], [500_000_000_000] * 3)

    def test_advantages_are_sums_of_discounted_errors(self):
        settings, made = Settings(), episode(None, np.random.default_rng(4), 7)
        found, returns = advantages(settings, made)
        after = np.append(made.values[1:], made.last_value)
        errors = made.rewards * settings.reward_scale + settings.discount * after - made.values
        decay = settings.discount * settings.trace_decay
        for i in range(7):
            self.assertAlmostEqual(found[i], sum(decay ** (j - i) * errors[j] for j in range(i, 7)))
        np.testing.assert_allclose(returns, found + made.values)


class Gates(unittest.TestCase):
    def test_max_takes_records_only(self):
        gate = Gate("max")
        self.assertEqual([gate.accepts(r) for r in [-5, -7, -5, 3, 2]], [True, False, False, True, False])

    def test_a_moving_average_takes_what_is_better_than_lately(self):
        gate = Gate("moving_average", 0.5)
        # Levels: -inf, 0, 4, -8, -4.
        self.assertEqual([gate.accepts(r) for r in [0, 8, -20, 0, -5]], [True, True, False, True, False])

    def test_a_refused_update_moves_nothing_but_is_answered(self):
        server = Server("async", 2, Gate("max"), Step("average", 0.001))
        server.first(np.zeros(3))
        self.assertEqual(server.update(0, np.ones(3), 1.0), (True, [0]))
        self.assertEqual(server.update(1, np.ones(3), 0.5), (False, [1]))
        np.testing.assert_allclose(server.weights, -0.001)
        server.update(1, np.full(3, 3.0), 2.0)
        np.testing.assert_allclose(server.weights, -0.001 - 0.002)


class Protocol(unittest.TestCase):
    def test_a_seed_decides_every_bit(self):
        self.assertEqual(run().log.hash(), run().log.hash())
        self.assertNotEqual(run().log.hash(), run(seed=2).log.hash())

    def test_the_number_of_processes_changes_nothing(self):
        settings = Settings(hidden=(6,))
        alone = run(updates=4, settings=settings)
        self.assertEqual(alone.log.hash(), run(updates=4, settings=settings, jobs=3).log.hash())

    def test_first_weights_win(self):
        made = virtual.Run(SHORT, Server("async", 4, Gate("off"), Step("adam", 0.01)), 2, 2, 2.0, 1)
        made.begin()
        for version, weights in made.held:
            self.assertEqual(version, 0)
            np.testing.assert_array_equal(weights, made.server.weights)

    def test_a_model_is_adopted_at_the_end_of_an_iteration(self):
        log = run(updates=8).log
        last, replies = {}, {}
        for i, (now, worker) in enumerate(zip(log.seconds, log.worker)):
            # The model of the iteration that ends now: the newest reply that was there when it began.
            there = [version for at, version in replies.get(worker, []) if at <= last.get(worker, 0)]
            self.assertEqual(log.age[i], i - max(there, default=0))
            last[worker] = now
            replies.setdefault(worker, []).append((now + virtual.Costs.ROUND_TRIP_S, i + 1))

    def test_updates_are_in_order_and_numbered(self):
        log = run(updates=5).log
        self.assertEqual(log.seconds, sorted(log.seconds))
        for worker in range(4):
            own = [seq for seq, w in zip(log.seq, log.worker) if w == worker]
            self.assertEqual(own, list(range(len(own))))
            self.assertEqual({c for c, w in zip(log.cluster, log.worker) if w == worker}, {worker // 2})

    def test_in_synchronous_rounds_nothing_is_stale(self):
        made = run("sync", updates=4)
        self.assertEqual(set(made.log.age), {0})
        for i in range(0, len(made.log.worker) - 3, 4):
            self.assertEqual(sorted(made.log.worker[i : i + 4]), [0, 1, 2, 3])
        self.assertEqual(made.server.version, len(made.log.worker) // 4)

    def test_periodic_steps_after_each_batch(self):
        made = run("periodic", updates=4, batch=3)
        self.assertEqual(made.server.version, len(made.log.worker) // 3)

    def test_processes_do_the_same_in_real_time(self):
        server = Server("async", 2, Gate("off"), Step("adam", 0.01))
        enough = lambda log: len(log.counts) == 2 and min(log.counts.values()) >= 2  # noqa: E731
        log = processes.record(SHORT, server, 1, 2, 1.0, 1, enough)
        self.assertEqual(log.seconds, sorted(log.seconds))
        self.assertGreaterEqual(min(log.counts.values()), 2)
        self.assertEqual(server.version, len(log.reward))


class Costs(unittest.TestCase):
    def test_clusters_differ_by_the_spread(self):
        costs = virtual.Costs(9, 3, 2.0, np.random.default_rng(1))
        means = SimpleNamespace(**{"of": costs.slower.reshape(9, 3).mean(axis=1)})
        self.assertGreater(means.of.max() / means.of.min(), 1.6)


if __name__ == "__main__":
    unittest.main()
