"""What the papers claim about figures without numbers, as questions to our reports: each answers with whether it holds, and ours.

A claim is (place, claim, question); a question gets the rows of a report, labels with medians by metric.
"""

from collections import defaultdict


def groups(rows, axis, where=None):
    """Rows by all labels but `axis`, as {value of the axis: medians}."""
    found = defaultdict(dict)
    for labels, medians in rows:
        if where is None or where(labels):
            rest = tuple(sorted((key, value) for key, value in labels.items() if key != axis))
            found[rest][labels[axis]] = medians
    return found


def number(text):
    """The number in a label, as 40 of 40Gbps."""
    return float("".join(c for c in text if c.isdigit() or c == "."))


def tally(answers):
    answers = list(answers)
    return bool(answers) and all(answers), f"at {sum(answers)} of {len(answers)} points"


def speedup_grows(rows):
    """Above 1, and the larger the slower the output."""
    curves = groups(rows, "topology.rate", lambda labels: labels["variant"] == "Olaf").values()
    found = [[at[rate]["speedup"] for rate in sorted(at, key=number, reverse=True)] for at in curves]
    holds = all(curve[0] > 1 and all(a < b for a, b in zip(curve, curve[1:])) for curve in found)
    every = [value for curve in found for value in curve]
    return holds, f"{min(every):.2f} to {max(every):.2f}"


def by(rows, axis, metric, where=lambda labels: True):
    """Medians of a metric by the value of an axis."""
    return {labels[axis]: medians[metric] for labels, medians in rows if where(labels) and metric in medians}


def modes_in_order(rows):
    at = by(rows, "variant", "reward_by_time/100%")
    found = [at[mode] for mode in ["asynchronous", "periodic", "synchronous"]]
    return found[0] > found[1] > found[2], " > ".join(f"{value:.0f}" for value in found)


def workers_save_iterations(rows):
    at = by(rows, "workload.workers_per_cluster", "updates_to_reward")
    found = [at[count] for count in sorted(at, key=number)]
    return all(a > b for a, b in zip(found, found[1:])), ", ".join(f"{value:.0f}" for value in found)


def congestion_costs_reward(step_per):
    """No loss (within 5 %) from Olaf up, Olaf at either rate above FIFO at 40 Gbit/s, and that above FIFO at 20 Gbit/s."""

    def question(rows):
        of = lambda variant: by(rows, "topology.rate", "reward_end",
                                lambda labels: (labels["variant"], labels["endpoint.step_per"]) == (variant, step_per))
        none, olaf, fifo = (of(variant) for variant in ["no loss", "Olaf", "FIFO"])
        least = min(olaf.values())
        holds = min(none.values()) >= 0.95 * max(olaf.values()) and least > fifo["40Gbps"] > fifo["20Gbps"]
        return holds, (f"no loss {none['20Gbps']:.0f}, Olaf {olaf['40Gbps']:.0f} and {olaf['20Gbps']:.0f}, "
                       f"FIFO {fifo['40Gbps']:.0f} and {fifo['20Gbps']:.0f}")

    return question


def own_group_only(flow):
    """S1's age falls as SW1 widens; the largest of S2 is less than 1.15 times the least."""

    def question(rows):
        at = sorted((number(l["topology.alpha"]), m) for l, m in rows if l["variant"] == "Olaf_TC")
        one, two = ([m[f"aom_mean/{flow}/{group}"] / 1e6 for _, m in at] for group in ["S1", "S2"])
        holds = all(a > b for a, b in zip(one, one[1:])) and max(two) < 1.15 * min(two)
        return holds, f"S1 {one[0]:.0f} to {one[-1]:.0f} ms, S2 {min(two):.0f} to {max(two):.0f} ms"

    return question


def recovery(rows):
    worst = max(medians["recovery_over_timeout_max"] for _, medians in rows)
    return worst <= 2, f"at most {worst:.3f} timeouts"


def rate_flattens(rows):
    """Never falls by more than 1 % as the window grows, and gains less at the last step than at the first."""
    holds, most = True, 0
    for at in groups(rows, "endpoint.window").values():
        curve = [at[window]["elements_per_s"] for window in sorted(at, key=number)]
        holds = holds and all(b > 0.99 * a for a, b in zip(curve, curve[1:])) and curve[1] / curve[0] > curve[-1] / curve[-2]
        most = max(most, *curve)
    return holds, f"up to {most / 1e9:.2f} × 10⁹ gradients/s"


def best(rows, ranked, place, loads=None):
    """At how many points `ranked` has the place (0: the least utilisation); equals share it."""
    answers = []
    where = lambda labels: labels["variant"] != "all blue" and (loads is None or labels["study.loads"] == loads)
    for at in groups(rows, "variant", where).values():
        values = {name: medians["utilisation_ratio"] for name, medians in at.items()}
        answers.append(sum(value < values[ranked] - 1e-12 for value in values.values()) <= place)
    return tally(answers)


def top_worsens(rows):
    answers = []
    for at in groups(rows, "study.capacity", lambda labels: labels["variant"] == "Top").values():
        curve = [at[capacity]["utilisation_ratio"] for capacity in sorted(at, key=number)]
        answers.append(curve[0] < curve[-1])
    return tally(answers)


def time_by_k(rows):
    """Four times as long per doubling of k is quadratic; here: at least three times."""
    at = {labels["study.k"]: medians["study_time"] for labels, medians in rows if labels["study.size"] == "2048"}
    factor = (at["128"] / at["4"]) ** (1 / 5)
    return factor >= 3, f"{factor:.2f} times as long for twice k, 2048 switches"


def word_count(rows):
    answers = []
    for at in groups(rows, "study.use_case").values():
        answers.append(at["word_count"]["bytes_over_all_blue"] <= at["parameter_server"]["bytes_over_all_blue"])
    return tally(answers)


FIGURE_7 = [("Figure 7, a picture", "speedup above 1, growing as the output gets slower", speedup_grows)]
SHAPES = {
    "olaf/figure7": FIGURE_7,
    "olaf/figure7-looped": FIGURE_7,
    "olaf/figure2": [("Figure 2, a picture", "asynchronous above periodic above synchronous", modes_in_order)],
    "olaf/figure3": [("Figure 3, a picture", "more workers, fewer iterations to a reward", workers_save_iterations)],
    "olaf/figure8": [
        ("Figure 8, a picture", "no loss, Olaf, FIFO 40, FIFO 20; a step per update", congestion_costs_reward("update")),
        ("Figure 8, a picture", "no loss, Olaf, FIFO 40, FIFO 20; a step per packet", congestion_costs_reward("packet")),
    ],
    "olaf/figure10": [
        ("Figure 10, a picture", f"S1's age per {flow} falls as SW1 widens, S2's stays", own_group_only(flow))
        for flow in ["worker", "cluster"]
    ],
    "trio/figure14": [("Figure 14, text", "servers recover within twice the timeout", recovery)],
    "trio/figure16": [("Figure 16, a picture", "the rate grows with the window and flattens", rate_flattens)],
    "soar/figure6": [
        ("Figure 6, text", "SOAR is best everywhere", lambda rows: best(rows, "SOAR", 0)),
        ("Figure 6, text", "Max is second under the power law", lambda rows: best(rows, "Max", 1, "power_law")),
        ("Figure 6, text", "Level is second under uniform loads", lambda rows: best(rows, "Level", 1, "uniform")),
    ],
    "soar/figure7": [
        ("Figure 7, a picture", "SOAR is best everywhere", lambda rows: best(rows, "SOAR", 0)),
        ("Figure 7, text", "Top gets worse as capacity grows", top_worsens),
    ],
    "soar/figure8": [("Figure 8, text", "time is quadratic in k", time_by_k)],
    "soar/figure9": [
        ("Figure 9, text", "word count is nearer to all blue than the parameter server", word_count),
    ],
}
