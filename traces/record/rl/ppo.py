"""A worker's iteration: an episode with the model that it holds, and the clipped PPO gradient of it."""

from dataclasses import dataclass

import numpy as np
from gymnasium.envs.box2d.lunar_lander import LunarLander

from net import Net, log_softmax

OBSERVATIONS, ACTIONS = 8, 4


class PolicyValue(Net):
    """One network for policy and value (§8.2 shares parameters to fit one packet).

    (32, 32) has 1509 parameters, one jumbo frame; (16,) has 229, (64, 64) 5061.
    """

    def __init__(self, hidden):
        super().__init__((OBSERVATIONS, *hidden, ACTIONS + 1))

    def judge(self, layers, x):
        """Logits of the actions, values of the states, and the inputs of every layer."""
        out, inputs = self.forward(layers, x)
        return out[..., :ACTIONS], out[..., ACTIONS], inputs


@dataclass(frozen=True)
class Settings:
    """PPO's constants, the usual ones; `limit` is LunarLander-v3's."""

    hidden: tuple = (32, 32)
    discount: float = 0.99
    trace_decay: float = 0.95
    clip: float = 0.2
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    # Returns are in the hundreds; values are learned in units in which they are near 1.
    reward_scale: float = 0.01
    # Passes over an episode. With one, no ratio leaves 1 and nothing is clipped; between passes the worker steps on.
    passes: int = 4
    local_rate: float = 0.05
    limit: int = 1000


@dataclass
class Episode:
    """What a worker saw and did in one episode."""

    observations: np.ndarray
    actions: np.ndarray
    log_probabilities: np.ndarray
    rewards: np.ndarray
    values: np.ndarray
    # Value of the state after the last step: 0 if the lander is down, an estimate if time was up.
    last_value: float

    @property
    def steps(self):
        """Its length."""
        return len(self.rewards)

    @property
    def reward(self):
        """r_i of §2.1: the episode's return, unscaled."""
        return float(self.rewards.sum())


def first_weights(settings, seed, number):
    """A worker's own first weights; the server takes those that come first (§2.1)."""
    return PolicyValue(settings.hidden).initial(np.random.default_rng([seed, number, 1]))


class Worker:
    """One agent: its environment and its random numbers, which a seed decides."""

    def __init__(self, settings, seed, number):
        self.settings = settings
        self.net = PolicyValue(settings.hidden)
        self.env = LunarLander()
        self.rng = np.random.default_rng([seed, number])

    def iterate(self, weights):
        """One iteration on `weights`: the gradient that goes to the server, and the episode."""
        episode = self.play(weights)
        return gradient(self.net, self.settings, weights, episode), episode

    def play(self, weights):
        """One episode under the stochastic policy of `weights`."""
        layers = self.net.layers(weights)
        seen, actions, logs, rewards, values = [], [], [], [], []
        state, _ = self.env.reset(seed=int(self.rng.integers(2**31)))
        down = False
        while not down and len(rewards) < self.settings.limit:
            logits, value, _ = self.net.judge(layers, state)
            log = log_softmax(logits)
            action = int((np.exp(log).cumsum() < self.rng.random()).sum())
            action = min(action, len(log) - 1)
            seen.append(state)
            state, reward, down, _, _ = self.env.step(action)
            actions.append(action)
            logs.append(log[action])
            rewards.append(reward)
            values.append(value)
        last = 0.0 if down else float(self.net.judge(layers, state)[1])
        return Episode(*(np.array(x) for x in (seen, actions, logs, rewards, values)), last)


def advantages(settings, episode):
    """Generalised advantage estimates, and the returns that values are to learn."""
    rewards = episode.rewards * settings.reward_scale
    after = np.append(episode.values[1:], episode.last_value)
    errors = rewards + settings.discount * after - episode.values
    found, running = np.zeros(len(errors)), 0.0
    for i in range(len(errors) - 1, -1, -1):
        running = errors[i] + settings.discount * settings.trace_decay * running
        found[i] = running
    return found, found + episode.values


def loss(net, settings, weights, episode, advantage, returns):
    """PPO's clipped loss of an episode, and its gradient."""
    layers = net.layers(weights)
    logits, values, inputs = net.judge(layers, episode.observations)
    rows, taken = np.arange(len(values)), episode.actions
    logs = log_softmax(logits)
    chances = np.exp(logs)
    ratio = np.exp(logs[rows, taken] - episode.log_probabilities)
    clipped = np.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    entropy = -(chances * logs).sum(axis=1)
    parts = (
        -np.minimum(ratio * advantage, clipped * advantage)
        + settings.value_weight * 0.5 * (values - returns) ** 2
        - settings.entropy_weight * entropy
    )
    # Where the clipped one is the smaller, the loss does not move with the weights.
    moving = ratio * advantage <= clipped * advantage
    d_log = -(moving * ratio * advantage)[:, None]
    d_logits = d_log * ((taken[:, None] == np.arange(logits.shape[1])) - chances)
    d_logits += settings.entropy_weight * chances * (logs + entropy[:, None])
    d_values = settings.value_weight * (values - returns)
    d_out = np.concatenate([d_logits, d_values[:, None]], axis=1) / len(values)
    return parts.mean(), net.backward(layers, inputs, d_out)


def gradient(net, settings, weights, episode):
    """The mean gradient of some passes over the episode, each a small step further on a copy of the weights."""
    advantage, returns = advantages(settings, episode)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    local, total = weights.copy(), np.zeros(net.size)
    for _ in range(settings.passes):
        _, step = loss(net, settings, local, episode, advantage, returns)
        local -= settings.local_rate * step
        total += step
    return total / settings.passes
