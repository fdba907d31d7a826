"""A run in real time: a process per worker, the server in this one. Times are the clock's, so no two runs agree."""

import multiprocessing as mp
import time
from multiprocessing.connection import wait

import numpy as np

from rl.log import Log
from rl.ppo import Worker, first_weights
from rl.virtual import Costs


def work(pipe, settings, seed, number, slower, patient):
    """A worker: iterates on the newest model that has come, and idles as much as its machine is to be slower."""
    worker = Worker(settings, seed, number)
    pipe.send(first_weights(settings, seed, number))
    version, weights = pipe.recv()
    while True:
        began = time.monotonic()
        gradient, episode = worker.iterate(weights)
        time.sleep((slower - 1) * (time.monotonic() - began))
        try:
            pipe.send((time.monotonic(), version, gradient, episode.steps, episode.reward))
            # In synchronous mode it waits for the round; otherwise it takes what has come.
            if patient:
                version, weights = pipe.recv()
            while pipe.poll():
                version, weights = pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return


def record(settings, server, clusters, per_cluster, spread, seed, enough):
    """Like a run in virtual time; ends all processes that it began."""
    count = clusters * per_cluster
    costs = Costs(clusters, per_cluster, spread, np.random.default_rng([seed, count]))
    slower = costs.slower / costs.slower.min()
    context, pipes, started = mp.get_context("spawn"), [], []
    try:
        for i in range(count):
            ours, theirs = context.Pipe()
            arguments = (theirs, settings, seed, i, slower[i], server.mode == "sync")
            started.append(context.Process(target=work, args=arguments, daemon=True))
            started[-1].start()
            theirs.close()
            pipes.append(ours)
        return serve(server, pipes, per_cluster, enough).sort()
    finally:
        for process in started:
            process.terminate()
            process.join()


def serve(server, pipes, per_cluster, enough):
    """Answers until there is enough; time begins with the first weights, each worker with its first model."""
    number = {pipe: i for i, pipe in enumerate(pipes)}
    greeted, log, zero = set(), Log(), None
    while not enough(log):
        for pipe in wait(pipes):
            message, i = pipe.recv(), number[pipe]
            if i not in greeted:
                zero = zero or time.monotonic()
                greeted.add(i)
                pipe.send((0, server.first(message)))
                continue
            moment, version, gradient, steps, reward = message
            age = server.version - version
            accepted, answered = server.update(i, gradient, reward)
            log.add(moment - zero, i // per_cluster, i, steps, reward, gradient, accepted, age)
            for other in answered:
                pipes[other].send((server.version, server.weights))
    return log
