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


def every(answers):
    """Whether all answers are yes, and there are some."""
    answers = list(answers)
    return bool(answers) and all(answers)


def tally(answers):
    answers = list(answers)
    return every(answers), f"at {sum(answers)} of {len(answers)} points"


def said(words, question):
    """A question that is asked in several ways: its answer says which."""

    def asked(rows):
        holds, ours = question(rows)
        return holds, f"{ours}, {words}"

    return asked


def curves_of(rows, variant, axis, metric):
    """A metric along an axis, from its largest value to its least, for each group of the other labels."""
    found = groups(rows, axis, lambda labels: labels.get("variant") == variant).values()
    return [[at[value][metric] for value in sorted(at, key=number, reverse=True)] for at in found]


def spread(curves):
    values = [value for curve in curves for value in curve]
    return f"{min(values):.2f} to {max(values):.2f}"


def speedup_above_1(rows):
    curves = curves_of(rows, "Olaf", "topology.rate", "speedup")
    return every(value > 1 for curve in curves for value in curve), spread(curves)


def speedup_grows(rows):
    """The larger the slower the output."""
    curves = curves_of(rows, "Olaf", "topology.rate", "speedup")
    return every(a < b for curve in curves for a, b in zip(curve, curve[1:])), spread(curves)


def by(rows, axis, metric, where=lambda labels: True):
    """Medians of a metric by the value of an axis."""
    return {labels[axis]: medians[metric] for labels, medians in rows if where(labels) and metric in medians}


def asynchronous_first(rows):
    """The order of the other two is not claimed.

    >>> row = lambda mode, reward: ({"variant": mode}, {"reward_by_time/100%": reward})
    >>> asynchronous_first([row("asynchronous", 150.0), row("periodic", 90.0), row("synchronous", 100.0)])
    (True, 'asynchronous 150, periodic 90, synchronous 100')
    """
    at = by(rows, "variant", "reward_by_time/100%")
    modes = ["asynchronous", "periodic", "synchronous"]
    found = [at[mode] for mode in modes]
    return found[0] > max(found[1:]), ", ".join(f"{mode} {value:.0f}" for mode, value in zip(modes, found))


def workers_save_iterations(rows):
    at = by(rows, "workload.workers_per_cluster", "updates_to_reward")
    found = [at[count] for count in sorted(at, key=number)]
    return every(a > b for a, b in zip(found, found[1:])), ", ".join(f"{value:.0f}" for value in found)


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
        holds = every(at["Olaf"][rate] > at["FIFO"][rate] for rate in at["FIFO"])
        pairs = [f"{at['Olaf'][rate]:.0f} to {at['FIFO'][rate]:.0f}" for rate in sorted(at["FIFO"], key=number, reverse=True)]
        return holds, f"{' and '.join(pairs)}, a step per {step_per}"

    return question


def group_ages(rows, variant, flow, group):
    """Ages of a group in ms, by growing α."""
    at = sorted((number(labels["topology.alpha"]), medians) for labels, medians in rows if labels["variant"] == variant)
    return [medians[f"aom_mean/{flow}/{group}"] / 1e6 for _, medians in at]


def narrows(flow, before, after):
    """The groups' ages differ less under `after` than under `before`.

    >>> row = lambda variant, s1, s2: ({"variant": variant}, {"aom_mean/cluster/S1": s1, "aom_mean/cluster/S2": s2})
    >>> rows = [row("FIFO", 100e6, 300e6), row("Olaf", 80e6, 200e6), row("Olaf_TC", 80e6, 201e6)]
    >>> narrows("cluster", "FIFO", "Olaf")(rows), narrows("cluster", "Olaf", "Olaf_TC")(rows)
    ((True, '200.0 to 120.0 ms, per cluster'), (False, '120.0 to 121.0 ms, per cluster'))
    """

    def question(rows):
        at = {labels["variant"]: abs(medians[f"aom_mean/{flow}/S2"] - medians[f"aom_mean/{flow}/S1"]) / 1e6 for labels, medians in rows
              if labels["variant"] in (before, after)}
        return at[after] < at[before], f"{at[before]:.1f} to {at[after]:.1f} ms, per {flow}"

    return question


def falls(flow, group):
    def question(rows):
        ages = group_ages(rows, "Olaf_TC", flow, group)
        return every(a > b for a, b in zip(ages, ages[1:])), f"{ages[0]:.0f} to {ages[-1]:.0f} ms, per {flow}"

    return question


def stays(variant, flow, group):
    """The largest is less than 1.15 times the least."""

    def question(rows):
        ages = group_ages(rows, variant, flow, group)
        return max(ages) < 1.15 * min(ages), f"{min(ages):.0f} to {max(ages):.0f} ms, per {flow}"

    return question


def removed(variant, flow):
    """Where SW1 is the slower, S1's age is at most 5 % above S2's.

    >>> row = lambda alpha, s1: ({"variant": "Olaf", "topology.alpha": alpha}, {"aom_mean/cluster/S1": s1, "aom_mean/cluster/S2": 30e6})
    >>> removed("Olaf", "cluster")([row("0.1", 210e6), row("0.8", 31e6), row("1.0", 30e6)])
    (False, 'S1 1.03 to 7.00 times S2, Olaf, per cluster')
    """

    def question(rows):
        slower = [(labels, medians) for labels, medians in rows if number(labels["topology.alpha"]) < 1]
        ages = [group_ages(slower, variant, flow, group) for group in ("S1", "S2")]
        ratios = [first / second for first, second in zip(*ages)]
        return max(ratios) <= 1.05, f"S1 {min(ratios):.2f} to {max(ratios):.2f} times S2, {variant}, per {flow}"

    return question


def not_penalized(flow, group):
    """A group's age under Olaf_TC is at most 1.15 times Olaf's at each α.

    >>> row = lambda variant, age: ({"variant": variant, "topology.alpha": "0.1"}, {"aom_mean/worker/S2": age})
    >>> not_penalized("worker", "S2")([row("Olaf", 60e6), row("Olaf_TC", 90e6)])
    (False, '1.50 to 1.50 times as long, per worker')
    """

    def question(rows):
        ratios = [late / own for late, own in zip(group_ages(rows, "Olaf_TC", flow, group), group_ages(rows, "Olaf", flow, group))]
        return max(ratios) <= 1.15, f"{min(ratios):.2f} to {max(ratios):.2f} times as long, per {flow}"

    return question


def below(metric, variant, other, axes=()):
    """A metric of a variant is below that of another at every point.

    >>> row = lambda variant, alpha, fairness: ({"variant": variant, "alpha": alpha}, {"fairness": fairness})
    >>> rows = [row("FIFO", "0.1", 0.6), row("Olaf", "0.1", 0.7), row("FIFO", "1.0", 0.99978), row("Olaf", "1.0", 0.99976)]
    >>> below("fairness", "FIFO", "Olaf")(rows), below("fairness", "FIFO", "Olaf", [("alpha", ("0.1",))])(rows)
    ((False, 'at 1 of 2 points'), (True, 'at 1 of 1 points'))
    """

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
    answers, most = [], 0
    for at in groups(rows, "endpoint.window").values():
        curve = [at[window]["elements_per_s"] for window in sorted(at, key=number)]
        answers += [b > 0.99 * a for a, b in zip(curve, curve[1:])] + [curve[1] / curve[0] > curve[-1] / curve[-2]]
        most = max(most, *curve)
    return every(answers), f"up to {most / 1e9:.2f} × 10⁹ gradients/s"


def not_shorter_with_twice_the_pool(rows):
    """SwitchML's iterations with stragglers are shorter by less than 2 %; longer ones are no contradiction."""
    at = {(labels["variant"], labels["workload.model"], labels["workload.straggler_probability"]): medians["iteration_time_mean"]
          for labels, medians in rows}
    found = [value / at["SwitchML", model, p] for (variant, model, p), value in at.items() if variant == "SwitchML, twice the pool" and p != "0.0"]
    return every(ratio > 0.98 for ratio in found), f"{min(found):.3f} to {max(found):.3f} times as long with twice the pool"


def near_ideal(rows):
    """Within 10 % of the ideal."""
    found = [medians["over_ideal"] for labels, medians in rows if labels["variant"] == "Trio-ML"]
    return max(found) <= 1.1, f"{min(found):.2f} to {max(found):.2f} times the ideal"


SIZES = ["64", "128", "256", "512", "1024"]


def plateau(suffix):
    """Rises, and gains least at the last doubling, less than 10 %."""

    def question(rows):
        rates = by(rows, "variant", "aggregation_rate")
        curve = [rates[size + suffix] for size in SIZES]
        gains = [b / a for a, b in zip(curve, curve[1:])]
        return gains[0] > 1.1 > gains[-1] > 1 and min(gains) == gains[-1], f"times {', '.join(f'{gain:.2f}' for gain in gains)} per doubling, {suffix.strip() or 'as built'}"

    return question


def larger(suffix):
    def question(rows):
        rates = by(rows, "variant", "aggregation_rate")
        return tally(rates[a + suffix] < rates[b + suffix] for a, b in zip(SIZES, SIZES[1:]))

    return question


def not_linear(suffix):
    """Latency grows with the packet, and somewhere takes less than 1.9 times as long for twice the gradients.

    >>> rows = lambda *latencies: [({"variant": size}, {"aggregation_latency_mean": time}) for size, time in zip(SIZES, latencies)]
    >>> not_linear("")(rows(10.0, 20.0, 40.0, 80.0, 160.0))
    (False, 'times 2.00, 2.00, 2.00, 2.00 per doubling, as built')
    >>> not_linear("")(rows(10.0, 15.0, 25.0, 45.0, 85.0))[0]
    True
    """

    def question(rows):
        latencies = by(rows, "variant", "aggregation_latency_mean")
        curve = [latencies[size + suffix] for size in SIZES]
        gains = [b / a for a, b in zip(curve, curve[1:])]
        return 1 < min(gains) < 1.9, f"times {', '.join(f'{gain:.2f}' for gain in gains)} per doubling, {suffix.strip() or 'as built'}"

    return question


def latency_grows(rows):
    """Never falls by more than 1 % as the window grows, and has grown at the end."""
    answers = []
    for at in groups(rows, "endpoint.window").values():
        curve = [at[window]["aggregation_latency_mean"] for window in sorted(at, key=number)]
        answers += [b > 0.99 * a for a, b in zip(curve, curve[1:])] + [curve[-1] > curve[0]]
    return tally(answers)


def window_4096(rows):
    """At 4096 at least 95 % of the highest rate, and at most twice the latency of a window a sixteenth of it."""
    found = list(groups(rows, "endpoint.window").values())
    rates = [at["4096"]["elements_per_s"] / max(point["elements_per_s"] for point in at.values()) for at in found]
    slower = [at["4096"]["aggregation_latency_mean"] / at["256"]["aggregation_latency_mean"] for at in found]
    return min(rates) >= 0.95 and max(slower) <= 2, f"{min(rates):.2f} of the highest rate, {max(slower):.1f} times the latency of 256"


# ---- Libra


def libra_best(rows):
    found = groups(rows, "variant").values()
    return tally(at[other]["throughput_ratio"] < 1 for at in found for other in ("PS-lite", "SwitchML"))


def switchml_below(rows):
    """Below PS-lite for some model, and least beside it for DeepLight."""
    ratios = {labels["workload.model"]: {} for labels, _ in rows}
    for labels, medians in rows:
        if labels["workload.workers"] == "32" and labels["variant"] in ("PS-lite", "SwitchML"):
            ratios[labels["workload.model"]][labels["variant"]] = medians["throughput_ratio"]
    found = {model: at["SwitchML"] / at["PS-lite"] for model, at in ratios.items()}
    least = min(found, key=found.get)
    return min(found.values()) < 1 and least == "deeplight", f"{found[least]:.4f} of PS-lite for {least}, the least"


def grows_with_workers(*others):
    """Libra's lead over each of the others, from step to step."""

    def question(rows):
        answers = []
        for at in groups(rows, "workload.workers", lambda labels: labels["variant"] in others).values():
            gains = [1 / at[workers]["throughput_ratio"] for workers in sorted(at, key=number)]
            answers += [a < b for a, b in zip(gains, gains[1:])]
        holds, found = tally(answers)
        return holds, f"over {' and '.join(others)} {found}"

    return question


def switchml_doubles(rows):
    """Within 15 % of twice, at the calibration that published values stand beside."""
    where = lambda labels: (labels["topology.delay"], labels["endpoint.service_rate"]) == ("200us", "25000000")
    found = [at["SwitchML, 2 MB"]["useful_elements_per_s"] / at["SwitchML, 1 MB"]["useful_elements_per_s"]
             for at in groups(rows, "variant", where).values()]
    return every(1.7 <= ratio <= 2.3 for ratio in found), f"{min(found):.2f} to {max(found):.2f} times"


def more_sensitive(curve):
    """SwitchML gains more by twice the memory than Libra by twice the hot parameters, at the same calibration.

    >>> labels = {"topology.delay": "200us", "endpoint.service_rate": "25000000", "workload.curve": "empirical", "workload.model": "oa"}
    >>> row = lambda variant, ratio: ({**labels, "variant": variant}, {"throughput_ratio": ratio})
    >>> more_sensitive("empirical")([row("SwitchML, 1 MB", 0.2), row("SwitchML, 2 MB", 0.4), row("Libra, 60,000 hot", 1.07)])
    (True, 'SwitchML 2.00, Libra 1.07 times (OA), curve empirical')
    """

    def question(rows):
        where = lambda labels: (labels["topology.delay"], labels["endpoint.service_rate"], labels["workload.curve"]) == ("200us", "25000000", curve)
        found = {dict(rest)["workload.model"]: {name: medians["throughput_ratio"] for name, medians in at.items() if "throughput_ratio" in medians}
                 for rest, at in groups(rows, "variant", where).items()}
        gains = {model: (at["SwitchML, 2 MB"] / at["SwitchML, 1 MB"], at["Libra, 60,000 hot"]) for model, at in found.items()}
        shown = ", ".join(f"SwitchML {switchml:.2f}, Libra {libra:.2f} times ({model.upper()})" for model, (switchml, libra) in gains.items())
        return every(switchml > libra for switchml, libra in gains.values()), f"{shown}, curve {curve}"

    return question


def limited(curve):
    """80,000 hot parameters gain at most 10 % over 30,000."""

    def question(rows):
        at = {(labels["workload.model"], labels["variant"]): medians["throughput_ratio"] for labels, medians in rows
              if labels["workload.curve"] == curve and "throughput_ratio" in medians}
        found = [at[model, "80,000 hot"] for model in ("oa", "se")]
        return max(found) <= 1.1, f"{found[0]:.3f} (OA), {found[1]:.3f} (SE), curve {curve}"

    return question


def more_for_oa(rows):
    at = groups(rows, "study.model").values()
    return tally(found["oa"]["recirculations_sum"] > found["se"]["recirculations_sum"] for found in at)


def delay_grows(rows):
    at = by(rows, "study.workers", "negotiation_delay")
    curve = [at[workers] for workers in sorted(at, key=number)]
    return tally(a < b for a, b in zip(curve, curve[1:]))


def same_for_both(*metrics):
    """Each of the metrics differs by less than 5 % between the two variants of Olaf.

    >>> rows = [({"variant": "Olaf"}, {"loss": 0.046, "age": 100.0}), ({"variant": "Olaf_TC"}, {"loss": 0.038, "age": 101.0})]
    >>> same_for_both("age")(rows)
    (True, "Olaf_TC's age 1.01 times Olaf's")
    >>> same_for_both("loss", "age")(rows)
    (False, "Olaf_TC's loss 0.83 times, age 1.01 times Olaf's")
    """

    def question(rows):
        found = {metric: by(rows, "variant", metric) for metric in metrics}
        ratios = {metric: at["Olaf_TC"] / at["Olaf"] for metric, at in found.items()}
        times = ", ".join(f"{metric} {ratio:.2f} times" for metric, ratio in ratios.items())
        return every(abs(ratio - 1) < 0.05 for ratio in ratios.values()), f"Olaf_TC's {times} Olaf's"

    return question


def means_rise(rows):
    """Updates per packet on average, of Olaf."""
    at = by(rows, "topology.rate", "aggregation_mean", lambda labels: labels["variant"] == "Olaf")
    curve = [at[rate] for rate in sorted(at, key=number, reverse=True)]
    return every(a < b for a, b in zip(curve, curve[1:])), f"means of {', '.join(f'{mean:.1f}' for mean in curve)}"


def packets_of_olaf(rows):
    """From the fastest output to the slowest, the share of packets with at most n updates, by n."""
    at = by(rows, "topology.rate", "aggregation_cdf", lambda labels: labels["variant"] == "Olaf")
    most = max(max(shares) for shares in at.values())

    def filled(shares):
        found = [0.0]
        for count in range(1, most + 1):
            found.append(shares.get(count, found[-1]))
        return found

    return [filled(at[rate]) for rate in sorted(at, key=number, reverse=True)]


def shifts_right(rows):
    """At every number of updates, a slower output has no larger share of packets with at most as many."""
    curves = packets_of_olaf(rows)
    answers = [a > b - 1e-9 for faster, slower in zip(curves, curves[1:]) for a, b in zip(faster[1:], slower[1:])]
    holds, text = tally(answers)
    return holds, text.replace("points", "numbers of updates")


def saturates(rows):
    """Nine in ten packets of the fastest output carry fewer updates than those of the others."""
    least = [next(count for count, share in enumerate(curve) if share >= 0.9) for curve in packets_of_olaf(rows)]
    return least[0] < min(least[1:]), f"nine in ten packets carry at most {', '.join(map(str, least))} updates"


def many_carry_several(rows):
    """At least half of the packets of the slower outputs carry more than one update."""
    several = [1 - curve[1] for curve in packets_of_olaf(rows)[1:]]
    return min(several) >= 0.5, f"{' and '.join(f'{share:.0%}' for share in several)} carry more than one"


# ---- ATRO: rates by scheme


RATE = "allreduce_rate_gbps"


def atro_first(rows):
    rates = by(rows, "variant", RATE)
    return tally(rates["ATRO"] > rate for name, rate in rates.items() if name != "ATRO")


def faster_in_leaf_spine(schemes):
    def question(rows):
        return tally(at[f"{scheme}, leaf-spine"][RATE] > at[f"{scheme}, fat tree"][RATE]
                     for at in groups(rows, "variant").values() for scheme in schemes)

    return question


def neither_network(rows):
    """Each of the two is ahead at some point."""
    holds, shown = faster_in_leaf_spine(["SPAR"])(rows)
    ahead = [at["SPAR, leaf-spine"][RATE] > at["SPAR, fat tree"][RATE] for at in groups(rows, "variant").values()]
    return not holds and any(ahead), f"the leaf-spine is ahead {shown}"


def rates_by_aggregators(rows):
    found = defaultdict(dict)
    for labels, medians in rows:
        found[labels["variant"]][number(labels["study.aggregators"])] = medians[RATE]
    return {name: [at[count] for count in sorted(at)] for name, at in found.items()}


def rates_grow(rows):
    return tally(a < b for curve in rates_by_aggregators(rows).values() for a, b in zip(curve, curve[1:]))


def atro_grows_most(rows):
    """In Gbit/s, from the least to the largest number of aggregators."""
    gains = {name: curve[-1] - curve[0] for name, curve in rates_by_aggregators(rows).items()}
    others = max(gain for name, gain in gains.items() if name != "ATRO")
    return gains["ATRO"] > others, f"by {gains['ATRO']:.0f} Gbit/s, the others by up to {others:.0f}"


# ---- SOAR: shares of all red, by strategy

RIVALS = ["Top", "Max", "Level"]


def utilisations(rows, where=lambda labels: True):
    """For each point: its labels, and the share of all red of each strategy."""
    found = groups(rows, "variant", lambda labels: labels["variant"] != "all blue" and where(labels))
    return [(dict(rest), {name: medians["utilisation_ratio"] for name, medians in at.items()}) for rest, at in found.items()]


def best(ranked, place, where=lambda labels: True):
    """Has one of `ranked` the place (0: the least utilisation) at each point? Equals share it."""

    def question(rows):
        found = [at for _, at in utilisations(rows, where)]
        return tally(any(sum(other < at[name] - 1e-12 for other in at.values()) <= place for name in ranked) for at in found)

    return question


def steps(axis, variants, rises, where=lambda labels: True):
    """Utilisation of strategies along an axis, step by step."""

    def question(rows):
        answers = []
        for variant in variants:
            for at in groups(rows, axis, lambda labels: labels["variant"] == variant and where(labels)).values():
                curve = [at[value]["utilisation_ratio"] for value in sorted(at, key=number)]
                answers += [a < b if rises else a > b for a, b in zip(curve, curve[1:])]
        return tally(answers)

    return question


def top_suffers_most(suffered):
    """From constant to exponential rates, no other strategy suffers more than Top: by `suffered` of both utilisations."""

    def question(rows):
        at = {(labels["study.loads"], labels["study.k"], labels["study.rates"]): found for labels, found in utilisations(rows)}
        answers = []
        for loads, k, rates in at:
            if rates == "exponential":
                lost = {name: suffered(at[loads, k, "constant"][name], at[loads, k, rates][name]) for name in at[loads, k, rates]}
                answers.append(lost["Top"] >= max(lost.values()))
        return tally(answers)

    return question


def lead(at):
    """By how much of all red SOAR is below the second."""
    return min(at[name] for name in RIVALS) - at["SOAR"]


# Figure 7's rows: workloads at a capacity of 4, capacities with 32 workloads.
TOP_ROW = lambda labels: labels["study.capacity"] == "4"
BOTTOM_ROW = lambda labels: labels["study.workloads"] == "32"


def lead_by_rates(rows):
    at = {(labels["study.rates"], labels["study.workloads"], labels["study.capacity"]): lead(found)
          for labels, found in utilisations(rows, lambda labels: TOP_ROW(labels) or BOTTOM_ROW(labels))}
    found = [[at[rates, *rest] for rates in ["constant", "linear", "exponential"]] for rates, *rest in at if rates == "constant"]
    return tally(leads[0] > leads[1] > leads[2] for leads in found)


def lead_of_small(rows):
    """For each rates: is the mean lead at a capacity of 4 and less, with 32 workloads and more, above that of all other points?"""
    answers = []
    for rates in ["constant", "linear", "exponential"]:
        found = utilisations(rows, lambda labels: labels["study.rates"] == rates)
        small = lambda labels: number(labels["study.capacity"]) <= 4 and number(labels["study.workloads"]) >= 32
        parts = [[lead(at) for labels, at in found if small(labels) == wanted] for wanted in (True, False)]
        answers.append(every(parts) and sum(parts[0]) / len(parts[0]) > sum(parts[1]) / len(parts[1]))
    return tally(answers)


def gather_times(rows, variant):
    return {(labels["study.size"], labels["study.k"]): medians["gather_time"] for labels, medians in rows if labels["variant"] == variant}


def growth(variant, holds, axis):
    """How much longer Gather takes for twice k, or twice n, on average over the axis at the other's largest."""

    def question(rows):
        at = gather_times(rows, variant)
        first, last, doublings = {"k": (("2048", "4"), ("2048", "128"), 5), "n": (("256", "128"), ("2048", "128"), 3)}[axis]
        factor = (at[last] / at[first]) ** (1 / doublings)
        return holds(factor), f"{factor:.2f} times as long for twice {axis}, {variant}"

    return question


def longest(limit, where):
    def question(rows):
        found = max(value for key, value in gather_times(rows, "as printed").items() if where(*key)) / 1e9
        return found <= limit, f"{found:.2g} s as printed"

    return question


def of_use_cases(holds):
    """A relation between the medians of word count and of the parameter server at each point; None where `at` has one of them only."""
    return lambda rows: tally(holds(at.get("word_count"), at.get("parameter_server")) for at in groups(rows, "study.use_case").values())


def skew_helps(rows):
    return tally(at["power_law"]["utilisation_ratio"] < at["uniform"]["utilisation_ratio"] for at in groups(rows, "study.loads").values())


# Workers unlike each other, the reading that counts, and alike.
TABLE_1 = ["olaf/table1-unlike", "olaf/table1"]
# Made gradients, and traces: one that is looped, and one that was recorded.
FIGURE_7 = ["olaf/figure7", "olaf/figure7-looped", "olaf/figure7-recorded"]
# Figure 10 where SW1 is slower than SW2: with both alike there is no difference to reduce.
CONGESTED = [("topology.alpha", ("0.1", "0.2", "0.4", "0.6", "0.8"))]
# By the id of a claim: the configs that answer it, and the question. The first is the claim's own; more are variants.
SHAPES = {
    "olaf/figure2/asynchronous-first": [("olaf/figure2", asynchronous_first)],
    "olaf/figure3/workers": [("olaf/figure3", workers_save_iterations)],
    "olaf/section8/aom-lower": [
        (config, below("aom_mean/cluster", "Olaf", "FIFO", [("topology.rate", ("40Gbps", "20Gbps"))])) for config in TABLE_1
    ],
    "olaf/section8/fifo-rate": [(config, rises("aom_mean/cluster", "topology.rate", "FIFO", lambda labels: labels["topology.rate"] != "5Gbps", down=True)) for config in TABLE_1],
    "olaf/section8/fifo-slots": [("olaf/slots", rises("aom_mean/cluster", "target.slots", "FIFO"))],
    "olaf/figure7/above-1": [(config, speedup_above_1) for config in FIGURE_7],
    "olaf/figure7/grows": [(config, speedup_grows) for config in FIGURE_7],
    "olaf/figure8/rate": [("olaf/figure8", same_reward("update")), ("olaf/figure8", same_reward("packet"))],
    "olaf/figure8/order": [("olaf/figure8", olaf_above_fifo("update")), ("olaf/figure8", olaf_above_fifo("packet"))],
    "olaf/figure6/order": [(config, question) for question in [shifts_right, means_rise] for config in TABLE_1],
    "olaf/figure6/40/majority": [(config, saturates) for config in TABLE_1],
    "olaf/figure6/5/many": [(config, many_carry_several) for config in TABLE_1],
    "olaf/table2/olaf-tc/same": [
        ("olaf/table2", same_for_both("loss", "aom_mean/cluster", "aom_fairness/cluster")),
        ("olaf/table2", same_for_both("aom_mean/worker/S1", "aom_mean/worker/S2")),
    ],
    "olaf/table2/olaf-lower": [("olaf/table2", below("aom_mean/cluster", "Olaf", "FIFO"))],
    "olaf/table3/olaf-narrows": [("olaf/table3", narrows(flow, "FIFO", "Olaf")) for flow in ["cluster", "worker"]],
    "olaf/table3/tc-narrows": [("olaf/table3", narrows(flow, "Olaf", "Olaf_TC")) for flow in ["cluster", "worker"]],
    "olaf/figure10/fifo/s2": [("olaf/figure10", stays("FIFO", flow, "S2")) for flow in ["cluster", "worker"]],
    "olaf/figure10/olaf-tc/s1": [("olaf/figure10", falls(flow, "S1")) for flow in ["cluster", "worker"]],
    "olaf/figure10/olaf-tc/s2": [("olaf/figure10", stays("Olaf_TC", flow, "S2")) for flow in ["cluster", "worker"]],
    "olaf/figure10/olaf-tc/uncongested": [("olaf/figure10", not_penalized(flow, "S2")) for flow in ["cluster", "worker"]],
    "olaf/figure10/olaf/disadvantage": [("olaf/figure10", removed(variant, flow)) for variant in ["Olaf", "Olaf_TC"] for flow in ["cluster", "worker"]],
    "olaf/figure10/olaf/discrepancy": [("olaf/figure10", below("aom_fairness/groups", "FIFO", "Olaf", CONGESTED))],
    "trio/figure13/switchml-grows": [("trio/figure13", rises("iteration_time_mean", "workload.straggler_probability", "SwitchML"))],
    "trio/figure16/throughput": [("trio/figure16", rate_flattens)],
    "libra/figure16/packaging": [("libra/figure16", below("recirculations_sum", "heat, Algorithm 1", "heat, rank order"))],
    "libra/figure16/oa-above-se": [("libra/figure16", more_for_oa)],
    "libra/figure17/grows": [("libra/figure17", delay_grows)],
    "libra/table2/integer/r2/low": [
        ("libra/table2", said("random bits", below("sum_precision_exp_mean", "Integer", "Tables", [("study.data", ("bits",))]))),
        ("libra/table2", said("uniform numbers", below("sum_precision_mean", "Integer", "Tables", [("study.data", ("uniform",))]))),
    ],
    "trio/figure13/pool": [("trio/figure13", not_shorter_with_twice_the_pool)],
    "trio/figure13/trio-ideal": [("trio/figure13", near_ideal)],
    "trio/figure15/plateau": [("trio/figure15", plateau(" fitted")), ("trio/figure15", plateau(""))],
    "trio/figure15/larger": [("trio/figure15", said("fitted", larger(" fitted"))), ("trio/figure15", said("as built", larger("")))],
    "trio/figure15/not-linear": [("trio/figure15", not_linear(" fitted")), ("trio/figure15", not_linear(""))],
    "trio/figure16/latency": [("trio/figure16", latency_grows)],
    "trio/figure16/window": [("trio/figure16", window_4096)],
    "libra/figure12/best": [("libra/figure12", libra_best)],
    "libra/figure12/switchml": [("libra/figure12", switchml_below)],
    "libra/figure12/workers": [("libra/figure12", grows_with_workers("PS-lite", "SwitchML")), ("libra/figure12", grows_with_workers("PS-lite"))],
    "libra/figure13/switchml/doubles": [("libra/figure13", switchml_doubles)],
    "libra/figure13/switchml/sensitive": [("libra/figure13", more_sensitive("empirical")), ("libra/figure13", more_sensitive("fitted"))],
    "libra/figure14/limited": [("libra/figure14", limited("empirical")), ("libra/figure14", limited("fitted"))],
    "soar/figure6/best": [("soar/figure6", best(["SOAR"], 0))],
    "soar/figure6/k": [("soar/figure6", steps("study.k", ["SOAR", *RIVALS], False))],
    "soar/figure6/power-law/second": [("soar/figure6", best(["Max"], 1, lambda labels: labels["study.loads"] == "power_law"))],
    "soar/figure6/uniform/second": [("soar/figure6", best(["Level"], 1, lambda labels: labels["study.loads"] == "uniform"))],
    # The sentence is of benefits: of the saving. The utilisation itself rises most elsewhere.
    "soar/figure6/top": [
        ("soar/figure6", said("of the saving", top_suffers_most(lambda before, after: 1 - (1 - after) / (1 - before)))),
        ("soar/figure6", said("of the utilisation", top_suffers_most(lambda before, after: after - before))),
    ],
    "soar/figure7/best": [("soar/figure7", best(["SOAR"], 0))],
    "soar/figure7/workloads": [("soar/figure7", steps("study.workloads", ["SOAR", *RIVALS], True, TOP_ROW))],
    "soar/figure7/rates": [("soar/figure7", lead_by_rates)],
    "soar/figure7/exponential/second": [("soar/figure7", best(["Max"], 1, lambda labels: labels["study.rates"] == "exponential"))],
    "soar/figure7/constant/second": [("soar/figure7", best(["Level", "Top"], 1, lambda labels: labels["study.rates"] == "constant"))],
    "soar/figure7/capacity/most": [("soar/figure7", steps("study.capacity", ["SOAR", "Max", "Level"], False, BOTTOM_ROW))],
    "soar/figure7/capacity/top": [
        ("soar/figure7", said("capacities from 16 on", steps("study.capacity", ["Top"], True, lambda labels: BOTTOM_ROW(labels) and number(labels["study.capacity"]) >= 16))),
        ("soar/figure7", said("all capacities", steps("study.capacity", ["Top"], True, BOTTOM_ROW))),
    ],
    "soar/figure7/small": [("soar/figure7", lead_of_small)],
    "soar/theorem/time": [("soar/figure8", growth("as printed", lambda factor: factor <= 4.4, "k"))],
    "soar/figure8/quadratic": [("soar/figure8", growth(variant, lambda factor: factor >= 2.5, "k")) for variant in ["as printed", "pruned"]],
    "soar/figure8/linear": [("soar/figure8", growth("as printed", lambda factor: 1.8 <= factor <= 2.5, "n"))],
    "soar/figure8/large": [("soar/figure8", longest(300, lambda n, k: (n, k) == ("2048", "128")))],
    "soar/figure8/moderate": [("soar/figure8", longest(30, lambda n, k: n != "2048" or k != "128"))],
    "soar/figure9/utilisation": [("soar/figure9", of_use_cases(lambda words, server: words["utilisation_ratio"] == server["utilisation_ratio"]))],
    "soar/figure9/skew": [("soar/figure9", skew_helps)],
    "soar/figure9/server-bytes": [("soar/figure9", of_use_cases(lambda _, server: abs(server["bytes_ratio"] - server["utilisation_ratio"]) < 0.05))],
    "soar/figure9/count-bytes": [("soar/figure9", of_use_cases(lambda words, _: words["bytes_ratio"] > words["utilisation_ratio"]))],
    "soar/figure9/count-all-blue": [("soar/figure9", of_use_cases(lambda words, _: words["bytes_over_all_blue"] <= 1.2))],
    "atro/figure3/best": [("atro/figure3", atro_first)],
    "atro/figure4/networks": [("atro/figure4", faster_in_leaf_spine(["ARO", "PARING"]))],
    "atro/figure4/spar": [("atro/figure4", neither_network)],
    "atro/figure5/grows": [("atro/figure5", rates_grow)],
    "atro/figure5/most": [("atro/figure5", atro_grows_most)],
    "soar/figure9/server-all-blue": [("soar/figure9", of_use_cases(lambda words, server: server["bytes_over_all_blue"] > words["bytes_over_all_blue"]))],
}
