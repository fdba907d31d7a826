//! The experiments of the fence: every config at a small scale.

/// An experiment below `configs/`, and its settings.
pub type Case = (&'static str, &'static [&'static str]);

/// The same on wires: config, run of its sweep, settings, transports.
pub type OnWires = (&'static str, Option<&'static str>, &'static [&'static str], &'static [&'static str]);

/// In virtual time, with full records and captures.
pub const VIRTUAL: &[Case] = &[
    ("atro/figure3", &["sweep.seeds=1", "study.repetitions=2"]),
    ("atro/figure4", &["sweep.seeds=1", "study.repetitions=1", "sweep.axes.study.workers=[60, 90]"]),
    ("atro/figure5", &["sweep.seeds=1", "study.repetitions=1", "sweep.axes.study.aggregators=[2, 6]"]),
    (
        "libra/failover",
        &[
            "workload.iterations=4",
            "workload.scale=0.01",
            r#"sweep.axes.endpoint.heartbeat=["1ms"]"#,
            r#"target.fails_at="3ms""#,
        ],
    ),
    ("libra/figure12-packaging", &["workload.iterations=1", "workload.scale=0.01", "workload.workers=4"]),
    (
        "libra/figure12-sensitivity",
        &[
            "workload.iterations=1",
            "workload.scale=0.01",
            "sweep.axes.workload.workers=[4]",
            "sweep.axes.workload.pairs=[500]",
            "sweep.axes.endpoint.service_rate=[300000000, 0]",
        ],
    ),
    (
        "libra/figure12",
        &[
            "sweep.seeds=1",
            "workload.iterations=1",
            "workload.scale=0.01",
            "sweep.axes.workload.workers=[4]",
            r#"sweep.axes.workload.model=["oa", "deeplight"]"#,
        ],
    ),
    (
        "libra/figure13",
        &[
            "sweep.seeds=1",
            "workload.iterations=1",
            "workload.scale=0.01",
            "workload.workers=4",
            r#"sweep.axes.workload.model=["oa"]"#,
            r#"sweep.axes.topology.delay=["25us"]"#,
            "sweep.axes.endpoint.service_rate=[640000000]",
        ],
    ),
    (
        "libra/figure14",
        &[
            "sweep.seeds=1",
            "workload.iterations=1",
            "workload.scale=0.01",
            "workload.workers=4",
            r#"sweep.axes.workload.model=["se"]"#,
        ],
    ),
    ("libra/figure15", &["sweep.seeds=1", "study.updates=1e6", "sweep.axes.study.sample_rate=[0.02]"]),
    ("libra/figure16-registers", &["sweep.seeds=1", "study.batches=1", "sweep.axes.study.registers=[9, 32]"]),
    ("libra/figure16", &["sweep.seeds=1", "study.batches=1"]),
    ("libra/figure17", &[]),
    (
        "libra/figure18",
        &[
            "sweep.seeds=1",
            "workload.iterations=2",
            "workload.pairs=300",
            "workload.workers=4",
            r#"sweep.axes.workload.compute=["1ms"]"#,
            r#"sweep.axes.endpoint.timeout=["1ms"]"#,
        ],
    ),
    (
        "libra/recorded",
        &[
            "workload.iterations=2",
            r#"sweep.axes.topology.host_rate=["1Gbps"]"#,
            "sweep.axes.workload.hot=[203, 10142]",
        ],
    ),
    ("libra/repeat-writes", &["sweep.seeds=1", "workload.iterations=2", "workload.pairs=400", "workload.workers=4"]),
    (
        "libra/servers",
        &["workload.iterations=1", "workload.scale=0.01", "workload.workers=4", "sweep.axes.topology.servers=[1, 3]"],
    ),
    ("libra/table2", &["sweep.seeds=1", "study.pairs=1000"]),
    ("olaf/figure10", &["sweep.seeds=1", "workload.updates=5", "sweep.axes.topology.alpha=[0.4]"]),
    ("olaf/figure2", &["sweep.seeds=1", r#"capture.until="50ms""#]),
    ("olaf/figure3", &["sweep.seeds=1", "workload.updates=8", "sweep.axes.workload.workers_per_cluster=[1, 4]"]),
    (
        "olaf/figure7-looped",
        &[
            "sweep.seeds=1",
            "workload.clusters=5",
            "capture.goal=5",
            "workload.updates=5",
            r#"sweep.axes.topology.rate=["5Gbps", "40Gbps"]"#,
        ],
    ),
    (
        "olaf/figure7-recorded",
        &["capture.goal=1", r#"sweep.axes.topology.rate=["20Gbps"]"#, "sweep.axes.endpoint.timeout_rtts=[2.0]"],
    ),
    (
        "olaf/figure7",
        &[
            "sweep.seeds=1",
            "workload.clusters=5",
            "capture.goal=5",
            r#"sweep.axes.topology.rate=["5Gbps"]"#,
            "sweep.axes.endpoint.timeout_rtts=[2.0, 1000.0]",
        ],
    ),
    (
        "olaf/figure8",
        &["sweep.seeds=1", "workload.clusters=2", "workload.updates=6", r#"sweep.axes.topology.rate=["20Gbps"]"#],
    ),
    (
        "olaf/figure8-jumbo",
        &["sweep.seeds=1", "workload.clusters=2", "workload.updates=3", r#"sweep.axes.topology.rate=["20Gbps"]"#],
    ),
    ("olaf/slots", &["sweep.seeds=1", "workload.updates=20", "sweep.axes.target.slots=[4, 16]"]),
    ("olaf/table1-recorded", &[r#"sweep.axes.topology.rate=["20Gbps"]"#]),
    ("olaf/table1-unlike", &["sweep.seeds=1", "workload.updates=20", r#"sweep.axes.topology.rate=["20Gbps"]"#]),
    ("olaf/table1-wires", &["sweep.seeds=1", "workload.updates=10", r#"transport.kind="virtual""#]),
    ("olaf/table1", &["sweep.seeds=1..2", "workload.updates=20", r#"sweep.axes.topology.rate=["20Gbps"]"#]),
    ("olaf/table2", &["sweep.seeds=1", "workload.updates=10"]),
    (
        "olaf/table3-search",
        &[
            "sweep.seeds=1",
            "workload.updates=4",
            "sweep.axes.schedule.jitter=[0.1]",
            r#"sweep.axes.topology.root_rate=["600kbps"]"#,
            r#"sweep.axes.topology.leaf_rates=[["800kbps", "800kbps"]]"#,
        ],
    ),
    ("olaf/table3", &["sweep.seeds=1", "workload.updates=10"]),
    ("olaf/tables-delay", &["sweep.seeds=1", "workload.updates=10"]),
    (
        "olaf/tables-offsets",
        &[
            "sweep.seeds=1",
            "workload.updates=5",
            r#"sweep.axes.schedule.offset_sd=["3ms"]"#,
            "sweep.axes.schedule.offset_memory=[0.79]",
        ],
    ),
    ("soar/figure1", &["sweep.seeds=1"]),
    ("soar/figure2", &["sweep.seeds=1"]),
    ("soar/figure6", &["sweep.seeds=1", "study.size=64", "sweep.axes.study.k=[2, 16]"]),
    (
        "soar/figure7",
        &["sweep.seeds=1", "study.size=64", "sweep.axes.study.workloads=[4]", "sweep.axes.study.capacity=[1, 4]"],
    ),
    ("soar/figure8", &["sweep.seeds=1", "sweep.axes.study.size=[256]", "sweep.axes.study.k=[4, 16]"]),
    ("soar/figure9", &["sweep.seeds=1", "study.size=64", "sweep.axes.study.k=[2, 16]"]),
    ("wires/libra", &["workload.iterations=2", "workload.scale=0.005", r#"transport.kind="virtual""#]),
    ("wires/live", &["workload.updates=10", r#"transport.kind="virtual""#]),
    ("wires/pacing", &["workload.updates=50", r#"transport.kind="virtual""#]),
    ("wires/rates", &["workload.updates=10", r#"transport.kind="virtual""#, r#"transport.pacing="deadlines""#]),
    ("wires/switchml", &["workload.iterations=2", "workload.scale=0.001", r#"transport.kind="virtual""#]),
    ("wires/trio-ml", &["workload.iterations=2", "workload.scale=0.001", r#"transport.kind="virtual""#]),
];

/// Over capture files, one role after the other: config, run of its sweep, settings. The workers of these do not react.
pub const FILES: &[(&str, Option<&str>, &[&str])] = &[
    ("olaf/table1-wires", Some("FIFO,rate=20Mbps,seed=1"), &["workload.updates=10"]),
    ("olaf/table1-wires", Some("Olaf,rate=20Mbps,seed=1"), &["workload.updates=10"]),
    ("wires/live", None, &["workload.updates=10"]),
];

/// The same with a payload changed on its way to the server: invalid runs.
pub const DAMAGED: &[Case] = &[("wires/live", &["workload.updates=10"])];

/// Workers alone, over capture files.
pub const SENDERS: &[Case] = &[
    ("wires/pacing", &["workload.updates=50"]),
    ("wires/rates", &["workload.updates=10", r#"transport.pacing="deadlines""#, r#"schedule.offered="100Mbps""#]),
];

/// On wires. The timeouts are longer than any interruption of a role by the host.
pub const WIRES: &[OnWires] = &[
    (
        "olaf/table1-wires",
        Some("Olaf,rate=20Mbps,seed=1"),
        &["workload.updates=5", r#"transport.linger="1s""#],
        &["ring", "udp", "af_packet"],
    ),
    ("wires/live", None, &["workload.updates=5", r#"transport.linger="1s""#], &["ring", "udp", "af_packet"]),
    (
        "wires/switchml",
        None,
        &[
            r#"workload.model="custom""#,
            "workload.parameters=5120",
            "workload.iterations=2",
            r#"transport.linger="1s""#,
        ],
        &["ring", "af_packet"],
    ),
    (
        "wires/trio-ml",
        None,
        &[
            r#"workload.model="custom""#,
            "workload.parameters=5120",
            "workload.iterations=2",
            "workload.elements=256",
            r#"target.timeout="255ms""#,
            r#"transport.linger="1s""#,
        ],
        &["ring", "udp", "af_packet"],
    ),
    (
        "wires/libra",
        None,
        &[
            "workload.iterations=2",
            "workload.scale=0.002",
            r#"endpoint.timeout="5s""#,
            r#"target.result_timeout="1s""#,
            r#"transport.linger="1s""#,
        ],
        &["ring", "af_packet"],
    ),
];

/// Formal models: config and settings that limit their size.
pub const MODELS: &[Case] = &[
    ("verify/free-2x24", &["verify.updates=3", "verify.epsilon=\"100ms\""]),
    ("verify/free-3x24", &["verify.updates=2", "verify.epsilon=\"100ms\""]),
    ("verify/paper-100-100", &["verify.updates=3", "verify.slots=2"]),
    ("verify/paper-100-300", &["verify.updates=[4, 2]", "verify.slots=2"]),
];

/// Profiles of hardware, each with an experiment that fits it.
pub const PROFILES: &[(&str, &str, &[&str])] = &[
    ("hardware/alveo-u55c-olaf", "olaf/table1-wires", &[]),
    ("hardware/generic", "wires/live", &[]),
    ("hardware/mx480-trio-ml", "wires/trio-ml", &[]),
    ("hardware/tofino-libra", "wires/libra", &["workload.scale=0.001"]),
    ("hardware/tofino-switchml", "wires/switchml", &[]),
];

/// Rules of comparisons.
pub const RULES: &[&str] = &["rules/olaf"];
