"""A run in virtual time: one process, events in order, so that a seed decides every bit."""

import heapq

import numpy as np

from rl.log import Log
from rl.pool import Alone, Jobs
from rl.ppo import first_weights


class Costs:
    """How long an iteration takes: steps of the episode, then the gradient, times what the worker's machine is slower.

    Clusters differ (a cluster is machines of one kind), workers of one cluster less; each iteration varies a little.
    """

    STEP_S, SAMPLE_S, UPDATE_S = 80e-6, 10e-6, 2e-3
    STARTUP_S, ROUND_TRIP_S = 0.05, 1e-3

    def __init__(self, clusters, per_cluster, spread, rng):
        factors = spread ** np.linspace(0, 1, clusters) if clusters > 1 else np.ones(1)
        rng.shuffle(factors)
        self.slower = np.repeat(factors, per_cluster) * rng.lognormal(0, 0.1, clusters * per_cluster)
        self.rng = rng

    def startup(self, worker):
        """Seconds until a worker sends its first weights."""
        return self.STARTUP_S * self.slower[worker] * self.rng.uniform(0.5, 1.5)

    def pace(self, worker):
        """How slow this worker's next iteration is."""
        return self.slower[worker] * self.rng.lognormal(0, 0.05)

    def iteration(self, steps):
        """Seconds of an iteration of so many steps, at pace 1."""
        return steps * (self.STEP_S + self.SAMPLE_S) + self.UPDATE_S


class Run:
    """Workers and server, with what is on its way between them."""

    # No lander is down sooner; only with more than one job is it of use, and held against what comes.
    STEPS_MIN = 40

    def __init__(self, settings, server, clusters, per_cluster, spread, seed, jobs=1):
        count = clusters * per_cluster
        self.settings, self.seed = settings, seed
        self.server, self.per_cluster, self.count = server, per_cluster, count
        self.pool = Jobs(settings, seed, count, jobs) if jobs > 1 else Alone(settings, seed, count)
        self.costs = Costs(clusters, per_cluster, spread, np.random.default_rng([seed, count]))
        # (version, weights) that each worker holds, and (arrival, version, weights) that come to it.
        self.held = [None] * count
        self.inbox = [[] for _ in range(count)]
        # Iterations whose end is known, as a heap, and the start and pace of those whose end is not.
        self.ended, self.running, self.log = [], {}, Log()

    def go(self, enough):
        """Runs until `enough(log)`; returns the log."""
        try:
            self.begin()
            while not enough(self.log):
                self.handle(*self.next())
        finally:
            self.pool.close()
        return self.log

    def begin(self):
        """All send their weights; the server answers each with those that came first (§2.1)."""
        ready = sorted((self.costs.startup(i), i) for i in range(self.count))
        for now, i in ready:
            self.held[i] = (0, self.server.first(first_weights(self.settings, self.seed, i)))
            self.start(i, now + self.costs.ROUND_TRIP_S)

    def next(self):
        """The update that is generated next: nothing that still runs can end sooner."""
        least = self.costs.iteration(min(self.STEPS_MIN, self.settings.limit))
        while True:
            bound = min((start + least * pace for start, pace in self.running.values()), default=np.inf)
            if self.ended and self.ended[0][0] < bound:
                return heapq.heappop(self.ended)
            for worker, gradient, steps, reward in self.pool.collect():
                assert steps >= min(self.STEPS_MIN, self.settings.limit), f"an episode of {steps} steps"
                start, pace = self.running.pop(worker)
                end = start + self.costs.iteration(steps) * pace
                heapq.heappush(self.ended, (end, worker, gradient, steps, reward))

    def handle(self, now, worker, gradient, steps, reward):
        """An update goes to the server; who is answered, gets the model a round trip later."""
        age = self.server.version - self.held[worker][0]
        accepted, answered = self.server.update(worker, gradient, reward)
        self.log.add(now, worker // self.per_cluster, worker, steps, reward, gradient, accepted, age)
        arrival = now + self.costs.ROUND_TRIP_S
        for other in answered:
            self.inbox[other].append((arrival, self.server.version, self.server.weights))
        if self.server.mode != "sync":
            self.adopt(worker, now)
            self.start(worker, now)
        elif answered:
            for other in answered:
                self.adopt(other, arrival)
                self.start(other, arrival)

    def adopt(self, worker, now):
        """At the end of an iteration, not within one (§8.2): the newest model that has come."""
        come = [model for model in self.inbox[worker] if model[0] <= now]
        if come:
            self.held[worker] = come[-1][1:]
            self.inbox[worker] = [model for model in self.inbox[worker] if model[0] > now]

    def start(self, worker, now):
        """The next iteration, with the model held now. What comes until it ends has no part in it."""
        self.running[worker] = (now, self.costs.pace(worker))
        self.pool.submit(worker, self.held[worker][1])
