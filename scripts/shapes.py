"""What the papers claim without numbers (docs/published), as questions to our reports: each answers with whether it holds, and ours.

A question gets the rows of a report: labels with medians by metric.
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


def curves_of(rows, variant, axis, metric):
    """A metric along an axis, from its largest value to its least, for each group of the other labels."""
    found = groups(rows, axis, lambda labels: labels.get("variant") == variant).values()
    return [[at[value][metric] for value in sorted(at, key=number, reverse=True)] for at in found]


def spread(curves):
    every = [value for curve in curves for value in curve]
    return f"{min(every):.2f} to {max(every):.2f}"


def speedup_above_1(rows):
    curves = curves_of(rows, "Olaf", "topology.rate", "speedup")
    return all(value > 1 for curve in curves for value in curve), spread(curves)


def speedup_grows(rows):
    """The larger the slower the output."""
    curves = curves_of(rows, "Olaf", "topology.rate", "speedup")
    return all(a < b for curve in curves for a, b in zip(curve, curve[1:])), spread(curves)


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


def rewards(rows, step_per):
    """Rewards at the end by variant and rate."""
    of = lambda variant: by(rows, "topology.rate", "reward_end",
                            lambda labels: (labels["variant"], labels["endpoint.step_per"]) == (variant, step_per))
    return {variant: of(variant) for variant in ["Olaf", "FIFO"]}


def same_reward(step_per):
    """Olaf's rewards at the two rates are within 5 %."""

    def question(rows):
        olaf = rewards(rows, step_per)["Olaf"]
        holds = min(olaf.values()) >= 0.95 * max(olaf.values())
        return holds, f"{olaf['40Gbps']:.0f} and {olaf['20Gbps']:.0f}, a step per {step_per}"

    return question


def olaf_above_fifo(step_per):
    def question(rows):
        at = rewards(rows, step_per)
        holds = all(at["Olaf"][rate] > at["FIFO"][rate] for rate in at["FIFO"])
        pairs = [f"{at['Olaf'][rate]:.0f} to {at['FIFO'][rate]:.0f}" for rate in sorted(at["FIFO"], key=number, reverse=True)]
        return holds, f"{' and '.join(pairs)}, a step per {step_per}"

    return question


def group_ages(rows, variant, flow, group):
    """Ages of a group in ms, by growing α."""
    at = sorted((number(labels["topology.alpha"]), medians) for labels, medians in rows if labels["variant"] == variant)
    return [medians[f"aom_mean/{flow}/{group}"] / 1e6 for _, medians in at]


def falls(flow, group):
    def question(rows):
        ages = group_ages(rows, "Olaf_TC", flow, group)
        return all(a > b for a, b in zip(ages, ages[1:])), f"{ages[0]:.0f} to {ages[-1]:.0f} ms, per {flow}"

    return question


def stays(variant, flow, group):
    """The largest is less than 1.15 times the least."""

    def question(rows):
        ages = group_ages(rows, variant, flow, group)
        return max(ages) < 1.15 * min(ages), f"{min(ages):.0f} to {max(ages):.0f} ms, per {flow}"

    return question


def below(metric, variant, other, axes=()):
    """A metric of a variant is below that of another at every point."""

    def question(rows):
        where = lambda labels: labels["variant"] in (variant, other) and all(labels[key] in values for key, values in axes)
        found = [at for at in groups(rows, "variant", where).values()]
        answers = [at[variant][metric] < at[other][metric] for at in found]
        return tally(answers)

    return question


def rises(metric, axis, variant, where=lambda labels: True, down=False):
    """A metric of a variant rises (falls) with an axis, step by step, for all other labels."""

    def question(rows):
        answers = []
        own = lambda labels: labels.get("variant") == variant and where(labels)
        for at in groups(rows, axis, own).values():
            curve = [at[value][metric] for value in sorted(at, key=number, reverse=down)]
            answers += [a < b for a, b in zip(curve, curve[1:])]
        return tally(answers)

    return question


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


# By the id of a claim: the configs that answer it, and the question. The first is the claim's own; more are variants.
SHAPES = {
    "olaf/figure2/asynchronous-first": [("olaf/figure2", modes_in_order)],
    "olaf/figure3/workers": [("olaf/figure3", workers_save_iterations)],
    "olaf/section8/aom-lower": [("olaf/table1", below("aom_mean/cluster", "Olaf", "FIFO", [("topology.rate", ("40Gbps", "20Gbps"))]))],
    "olaf/section8/fifo-rate": [("olaf/table1", rises("aom_mean/cluster", "topology.rate", "FIFO", down=True))],
    "olaf/figure7/above-1": [("olaf/figure7", speedup_above_1), ("olaf/figure7-looped", speedup_above_1)],
    "olaf/figure7/grows": [("olaf/figure7", speedup_grows), ("olaf/figure7-looped", speedup_grows)],
    "olaf/figure8/rate": [("olaf/figure8", same_reward("update")), ("olaf/figure8", same_reward("packet"))],
    "olaf/figure8/order": [("olaf/figure8", olaf_above_fifo("update")), ("olaf/figure8", olaf_above_fifo("packet"))],
    "olaf/table2/olaf-lower": [("olaf/table2", below("aom_mean/cluster", "Olaf", "FIFO"))],
    "olaf/table3/tc-narrows": [("olaf/table3", below("aom_fairness/groups", "Olaf", "Olaf_TC"))],
    "olaf/figure10/fifo/s2": [("olaf/figure10", stays("FIFO", "cluster", "S2"))],
    "olaf/figure10/olaf-tc/s1": [("olaf/figure10", falls(flow, "S1")) for flow in ["cluster", "worker"]],
    "olaf/figure10/olaf-tc/s2": [("olaf/figure10", stays("Olaf_TC", flow, "S2")) for flow in ["cluster", "worker"]],
    "olaf/figure10/olaf/discrepancy": [("olaf/figure10", below("aom_fairness/groups", "FIFO", "Olaf"))],
    "trio/figure13/switchml-grows": [("trio/figure13", rises("iteration_time_mean", "workload.straggler_probability", "SwitchML"))],
    "trio/figure16/throughput": [("trio/figure16", rate_flattens)],
    "soar/figure6/best": [("soar/figure6", lambda rows: best(rows, "SOAR", 0))],
    "soar/figure6/power-law/second": [("soar/figure6", lambda rows: best(rows, "Max", 1, "power_law"))],
    "soar/figure6/uniform/second": [("soar/figure6", lambda rows: best(rows, "Level", 1, "uniform"))],
    "soar/figure7/best": [("soar/figure7", lambda rows: best(rows, "SOAR", 0))],
    "soar/figure7/capacity/top": [("soar/figure7", top_worsens)],
    "soar/figure8/quadratic": [("soar/figure8", time_by_k)],
    "soar/figure9/count-all-blue": [("soar/figure9", word_count)],
}
