"""What a run writes down, and what is said of it."""

import hashlib

import numpy as np


class Log:
    """One row per update, in the order of generation."""

    def __init__(self):
        self.seconds, self.cluster, self.worker, self.seq = [], [], [], []
        self.steps, self.reward, self.gradient, self.accepted, self.age = [], [], [], [], []
        self.counts = {}

    def add(self, seconds, cluster, worker, steps, reward, gradient, accepted, age):
        """An update; its number is that of its worker."""
        seq = self.counts.get(worker, 0)
        self.counts[worker] = seq + 1
        self.seconds.append(seconds)
        self.cluster.append(cluster)
        self.worker.append(worker)
        self.seq.append(seq)
        self.steps.append(steps)
        self.reward.append(reward)
        self.gradient.append(np.asarray(gradient, np.float32))
        self.accepted.append(bool(accepted))
        self.age.append(age)

    def sort(self):
        """By generation: in real time updates come to the server a little out of order."""
        order = np.argsort(self.seconds, kind="stable")
        for name, column in vars(self).items():
            if isinstance(column, list):
                setattr(self, name, [column[i] for i in order])
        return self

    def hash(self):
        """SHA-256 over all that is recorded: two runs of one seed have the same."""
        digest = hashlib.sha256()
        for column in (self.seconds, self.worker, self.seq, self.reward, self.accepted):
            digest.update(np.asarray(column, np.float64).tobytes())
        for gradient in self.gradient:
            digest.update(gradient.tobytes())
        return digest.hexdigest()

    def summary(self):
        """The figures of the documentation: rewards by tenths, gates, gaps, gradients."""
        reward = np.array(self.reward)
        parts = min(10, len(reward))
        tenths = [float(part.mean()) for part in np.array_split(reward, parts)]
        steps = [float(np.median(part)) for part in np.array_split(np.array(self.steps), parts)]
        gaps = np.concatenate([np.diff(self.times_of(worker)) for worker in sorted(self.counts)] or [[0]])
        norms = np.array([np.linalg.norm(g) for g in self.gradient])
        return {
            "updates": len(reward),
            "updates per worker": f"{min(self.counts.values())} to {max(self.counts.values())}",
            "seconds": f"{self.seconds[-1]:.1f}",
            "mean reward by tenths": ", ".join(f"{x:.0f}" for x in tenths),
            "median steps by tenths": ", ".join(f"{x:.0f}" for x in steps),
            "accepted": f"{sum(self.accepted)} ({sum(self.accepted) / len(reward):.1%})",
            "gap ms 5/50/95 %": "/".join(f"{1000 * x:.0f}" for x in np.percentile(gaps, [5, 50, 95])),
            "gap variation": f"{gaps.std() / gaps.mean():.2f}",
            "gradient norm 50/95 %": "/".join(f"{x:.2f}" for x in np.percentile(norms, [50, 95])),
            "age in versions, mean": f"{np.mean(self.age):.1f}",
        }

    def times_of(self, worker):
        """Generation times of one worker."""
        return np.array([t for t, w in zip(self.seconds, self.worker) if w == worker])
