"""Who computes the iterations of a run in virtual time: this process, or several that share the workers.

What comes out depends on the worker and its weights only, so the order in which it is computed changes nothing.
"""

import multiprocessing as mp
from collections import deque
from multiprocessing.connection import wait

from rl.ppo import Worker


class Alone:
    """Computes here, when a result is asked for."""

    def __init__(self, settings, seed, count):
        self.workers = [Worker(settings, seed, i) for i in range(count)]
        self.asked = deque()

    def submit(self, worker, weights):
        """Asks for an iteration."""
        self.asked.append((worker, weights))

    def collect(self):
        """Some results: (worker, gradient, steps, reward) each."""
        worker, weights = self.asked.popleft()
        gradient, episode = self.workers[worker].iterate(weights)
        return [(worker, gradient, episode.steps, episode.reward)]

    def close(self):
        """Nothing to end."""


class Jobs:
    """Computes in `jobs` processes, each with its share of the workers."""

    def __init__(self, settings, seed, count, jobs):
        context = mp.get_context("spawn")
        self.pipes, self.processes = [], []
        for job in range(jobs):
            ours, theirs = context.Pipe()
            numbers = range(job, count, jobs)
            self.processes.append(context.Process(target=serve, args=(theirs, settings, seed, numbers), daemon=True))
            self.processes[-1].start()
            theirs.close()
            self.pipes.append(ours)

    def submit(self, worker, weights):
        """Asks for an iteration."""
        self.pipes[worker % len(self.pipes)].send((worker, weights))

    def collect(self):
        """Some results, at least one: (worker, gradient, steps, reward) each."""
        return [pipe.recv() for pipe in wait(self.pipes)]

    def close(self):
        """Ends the processes."""
        for process in self.processes:
            process.terminate()
            process.join()


def serve(pipe, settings, seed, numbers):
    """A process of `Jobs`: answers until the other end is closed."""
    workers = {number: Worker(settings, seed, number) for number in numbers}
    while True:
        try:
            worker, weights = pipe.recv()
        except EOFError:
            return
        gradient, episode = workers[worker].iterate(weights)
        pipe.send((worker, gradient, episode.steps, episode.reward))
