"""The parameter server of §2.1: first weights win, a gate, a step, and who is answered."""

import numpy as np


class Gate:
    """Which updates move the model, by their reward.

    `max` is the text read literally (r_i > r_g, r_g the highest so far); `moving_average` compares with the recent
    mean instead, like `endpoint.gate` of a replay.
    """

    KINDS = ("off", "max", "moving_average")

    def __init__(self, kind, weight=0.1):
        assert kind in self.KINDS, kind
        self.kind, self.weight, self.level = kind, weight, -np.inf
        self.accepted = 0

    def accepts(self, reward):
        """Is this update taken? What it is held against moves on."""
        better = self.kind == "off" or reward > self.level
        if self.kind == "max":
            self.level = max(self.level, reward)
        elif self.kind == "moving_average":
            first = np.isinf(self.level)
            self.level = reward if first else (1 - self.weight) * self.level + self.weight * reward
        self.accepted += better
        return better


class Step:
    """How a gradient moves the weights.

    `average` is §2.1's w + γ·avg(g_a, g_i); `adam` is what learns in a few thousand updates.
    """

    KINDS = ("adam", "average")

    def __init__(self, kind, rate):
        assert kind in self.KINDS, kind
        self.kind, self.rate = kind, rate
        self.count, self.mean, self.square = 0, 0.0, 0.0

    def move(self, weights, gradient):
        """The weights after one gradient of a loss (so downhill)."""
        self.count += 1
        if self.kind == "average":
            self.mean = gradient if self.count == 1 else (self.mean + gradient) / 2
            return weights - self.rate * self.mean
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        mean = self.mean / (1 - 0.9**self.count)
        square = self.square / (1 - 0.999**self.count)
        return weights - self.rate * mean / (np.sqrt(square) + 1e-8)


class Server:
    """Takes updates in the order in which they come, and says who gets the model.

    Modes (§2.1): `async` answers the sender at once; `periodic` steps after `batch` updates and answers all, who
    do not wait; `sync` steps when each worker has sent one, and all wait for it.
    """

    MODES = ("async", "periodic", "sync")

    def __init__(self, mode, workers, gate, step, batch=None):
        assert mode in self.MODES, mode
        self.mode, self.workers, self.gate, self.step = mode, workers, gate, step
        self.batch = {"async": 1, "sync": workers, "periodic": batch or workers}[mode]
        self.weights, self.version = None, 0
        self.waiting, self.arrived = [], 0

    def first(self, weights):
        """A worker's own weights: the first to arrive are everyone's."""
        if self.weights is None:
            self.weights = weights.copy()
        return self.weights

    def update(self, worker, gradient, reward):
        """An update: was it accepted, and which workers are answered with the model now?"""
        accepted = self.gate.accepts(reward)
        if accepted:
            self.waiting.append(gradient)
        self.arrived += 1
        if self.arrived < self.batch:
            return accepted, []
        if self.waiting:
            self.weights = self.step.move(self.weights, sum(self.waiting) / len(self.waiting))
            self.version += 1
        self.waiting, self.arrived = [], 0
        return accepted, [worker] if self.mode == "async" else list(range(self.workers))
