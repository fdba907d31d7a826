//! Compares the dense workload, as an open loop and in a trace, with a naively computed list of all updates.

use std::sync::Arc;

use pktgen_core::config::Document;
use pktgen_core::record::NO_CLUSTER;
use pktgen_core::seed::Seed;
use pktgen_core::time::{HORIZON, MS, Time, US};
use pktgen_core::{Error, Result};
use pktgen_workload::dense::Dense;
use pktgen_workload::trace::{Reader, check, synthesise};
use pktgen_workload::workload::{self, Source, Update};
use proptest::prelude::*;

fn open(workload: &str, rest: &str) -> Result<Box<dyn Source>> {
    let mut document = Document::parse(&format!("[workload]\nkind = \"dense\"\n{workload}\n{rest}"), "x.toml")?;
    let source = workload::open(&mut document, Seed(3))?.source;
    document.finish(&[])?;
    Ok(source)
}

fn dense(workload: &str) -> Arc<Dense> {
    open(workload, "").unwrap().known().dense().expect("what endpoints drive")
}

fn refusal(workload: &str) -> String {
    match open(workload, "") {
        Err(Error::Config(message)) => message,
        Err(other) => panic!("{workload}: {other}"),
        Ok(_) => panic!("{workload}: not refused"),
    }
}

/// Returns all updates of a source, with gradients as bits.
fn drain(source: &mut dyn Source) -> Vec<(Update, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(update) = source.peek().copied() {
        let mut values = vec![0; (update.bytes as usize).saturating_sub(72)];
        source.take(&mut values);
        all.push((update, values));
    }
    source.take(&mut [0; 8]);
    all
}

/// The definition: lists each worker's computations and sleeps one after the other, then sorts the updates.
fn naive(dense: &Dense) -> Vec<(Update, Vec<u8>)> {
    let mut all = Vec::new();
    for worker in 0..dense.workers() {
        let (mut t_gen, mut seq): (Time, u32) = (0, 0);
        for iteration in 0..dense.iterations() {
            t_gen += dense.compute_of(worker, iteration);
            if let Some(typical) = dense.typical() {
                let factors: f64 = dense.stragglers().delays(worker, iteration).iter().sum();
                t_gen += (factors * typical as f64).round() as Time;
            }
            for block in 0..dense.blocks() {
                let mut floats = vec![0.0; dense.elements_of(block).into()];
                dense.floats(worker, iteration, block, &mut floats);
                let values: Vec<_> = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
                let bytes = 72 + values.len() as u32;
                let cluster = (worker / dense.workers_per_job()) as u16;
                let iteration = Some(iteration);
                all.push((Update { t_gen, cluster, worker, seq, bytes, reward: None, iteration }, values));
                seq += 1;
            }
        }
    }
    all.sort_by_key(|(u, _)| (u.t_gen, u.worker, u.seq));
    all
}

#[test]
fn defaults_are_six_workers_on_resnet50() {
    let dense = dense("");
    assert_eq!((dense.model(), dense.jobs(), dense.workers(), dense.iterations()), ("resnet50", 1, 6, 100));
    assert_eq!((dense.blocks(), dense.elements_per_packet(), dense.elements_of(24_958)), (24_959, 1024, 40));
    assert_eq!((dense.elements_total(), dense.compute(), dense.typical()), (25_557_032, 100 * MS, None));
    assert!(dense.stragglers().is_none());
    let source = open("", "").unwrap();
    assert_eq!(
        (source.known().frame_max, source.population().len(), source.population().clusters()),
        (72 + 4096, 6, 1)
    );
}

#[test]
fn keys_are_read_and_scale_is_a_share() {
    let dense = dense(
        "model = \"vgg11\"\nscale = 0.001\nworkers = 4\njobs = 2\niterations = 3\nelements = 256\ncompute = \"20us\"\n\
         typical = \"50us\"\nstragglers = \"each\"\nstraggler_probability = 1.0\nstraggler_delay = [3, 3.5]\ndelay_points = 5",
    );
    assert_eq!((dense.model(), dense.workers(), dense.iterations()), ("vgg11", 8, 3));
    assert_eq!((dense.elements_total(), dense.blocks()), (132_863, 519));
    assert_eq!((dense.compute(), dense.typical(), dense.stragglers().points()), (20 * US, Some(50 * US), 5));
    assert!(dense.stragglers().delays(5, 2)[..5].iter().all(|d| (3.0..3.5).contains(d)));
    assert_eq!(self::dense("scale = 1e-300").blocks(), 1, "at least one packet");
    assert_eq!(self::dense("model = \"custom\"\nparameters = 5000").blocks(), 5);
    assert!(self::dense("stragglers = \"none\"\nstraggler_probability = 1.0").stragglers().is_none());
}

#[test]
fn bad_values_are_named_with_their_place() {
    for (text, part) in [
        ("model = \"resnet5\"", "did you mean \"resnet50\""),
        ("model = \"custom\"", "workload.parameters"),
        ("model = \"custom\"\nparameters = 0", "workload.parameters"),
        ("scale = 0.0", "workload.scale: 0 is not above 0"),
        ("scale = 1.5", "workload.scale: 1.5"),
        ("workers = 256", "workload.workers: 256 is not from 1 to 255"),
        ("jobs = 0", "workload.jobs: 0"),
        ("iterations = 65536", "workload.iterations: 65536 is not from 1 to 65535"),
        ("elements = 2246", "workload.elements: 2246 is not from 1 to 2245"),
        ("elements = 70000", "workload.elements"),
        ("blocks_max = 0", "workload.blocks_max: 0 is not from 1"),
        ("density = 1.5", "workload.density: 1.5 is not from 0 to 1"),
        ("delay_points = 0", "workload.delay_points: 0 is not from 1 to 8"),
        ("compute_jitter = 1.1", "workload.compute_jitter: 1.1"),
        ("straggler_probability = -0.1", "workload.straggler_probability: -0.1"),
        ("straggler_delay = [2.0, 0.5]", "workload.straggler_delay"),
        ("straggler_delay = [2.0]", "two numbers"),
        ("straggler_delay = 2.0", "two numbers"),
        ("stragglers = \"on\"", "did you mean \"one\""),
        ("iterations = 65535\nelements = 64", "workload.iterations: 65535 iterations of 399329 packets"),
        ("compute = \"600h\"", "workload.compute"),
        ("typical = \"2000h\"", "workload.typical"),
        ("modell = \"vgg11\"", "did you mean \"model\""),
    ] {
        let message = refusal(text);
        assert!(message.contains(part) && message.contains("x.toml"), "{text}: {message}");
    }
}

#[test]
fn what_changes_times_or_members_hides_the_closed_loop() {
    let small = "scale = 0.0001\niterations = 2\ncompute = \"1us\"\n";
    let driven = |keys: &str, rest: &str| open(&format!("{small}{keys}"), rest).unwrap().known().dense().is_some();
    assert!(driven("", ""));
    assert!(driven("background_rate = \"1Gbps\"", ""), "beside it, not instead");
    assert!(!driven("repeat = 2", ""));
    assert!(!driven("", "[schedule]\nspeed = 2.0"));
    assert!(!driven("", "[schedule]\nstop = \"1us\""));
    assert!(!driven("moves = [{ at = \"1us\", worker = 0, cluster = 1 }]", ""));
    let mut document = Document::parse("[workload]\n[schedule]\noffered = \"1Gbps\"\n", "x.toml").unwrap();
    assert!(workload::open(&mut document, Seed(1)).unwrap().source.known().dense().is_none(), "others have none");
}

#[test]
fn a_background_keeps_the_workers() {
    let text = "scale = 0.001\niterations = 2\ncompute = \"10us\"\nbackground_rate = \"1Gbps\"";
    let mut source = open(text, "").unwrap();
    let dense = source.known().dense().unwrap();
    assert_eq!(source.population().cluster_of, [0, 0, 0, 0, 0, 0, NO_CLUSTER, NO_CLUSTER, NO_CLUSTER, NO_CLUSTER]);
    let own: Vec<_> = drain(source.as_mut()).into_iter().filter(|(u, _)| u.cluster != NO_CLUSTER).collect();
    assert!(own == naive(&dense));
}

#[test]
fn the_end_of_time_is_a_reason() {
    let text = "scale = 1e-9\niterations = 3\ncompute = \"1us\"\nstragglers = \"each\"\nstraggler_probability = 1.0\n\
                straggler_delay = [100, 100]\ntypical = \"1h\"";
    let mut source = open(text, "").unwrap_or_else(|e| panic!("{e}"));
    let all = drain(source.as_mut());
    assert!(all.iter().all(|(u, _)| u.t_gen <= HORIZON), "nothing is generated after the end");
    let failure = source.failure().expect("a reason");
    assert!(failure.contains("26 days") && failure.contains("workload.typical"), "{failure}");
}

#[test]
fn packets_beyond_an_olaf_frame_end_with_it() {
    let mut source = open("model = \"custom\"\nparameters = 3000\nelements = 2245\niterations = 1", "").unwrap();
    assert_eq!((source.known().frame_max, source.known().dense().unwrap().elements_of(0)), (9036, 2245));
    let bytes: Vec<_> = drain(source.as_mut()).iter().map(|(u, _)| u.bytes).collect();
    assert_eq!(bytes[..2], [9036, 72 + 4 * 755]);
}

#[test]
fn a_trace_of_it_has_iterations_and_gradients() {
    let text = "scale = 0.0002\nworkers = 3\njobs = 2\niterations = 4\ncompute = \"30us\"\ncompute_jitter = 0.5";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dense.parquet");
    let mut source = open(text, "").unwrap();
    let expected = naive(&source.known().dense().unwrap());
    assert_eq!(expected.len(), 6 * 4 * 5);
    synthesise(source.as_mut(), &path, true, Default::default(), &mut |_| {}).unwrap();
    assert_eq!(check(&path).unwrap().problems, [""; 0]);
    let mut reader = Reader::open(&path).unwrap();
    let mut rows = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        for (i, update) in block.updates.iter().enumerate() {
            rows.push((*update, block.values(i).iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>()));
        }
    }
    assert!(rows == expected);
    assert_eq!(rows.iter().filter(|(u, _)| u.iteration == Some(3)).count(), 30);
    // The reverse: the trace can be replayed in place of the workload.
    let replayed = open(&format!("trace = \"{}\"", path.display()), "").unwrap();
    assert!(replayed.known().dense().is_none(), "a trace says nothing of computing");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_stream_is_the_sorted_list(
        workers in 1u32..5,
        jobs in 1u32..4,
        iterations in 1u32..6,
        elements in 1u32..40,
        parameters in 1u32..200,
        compute in 0u32..4,
        jitter in prop::sample::select(vec![0.0, 0.3, 1.0]),
        typical in prop::sample::select(vec!["", "typical = \"2us\"\n"]),
        pattern in prop::sample::select(vec!["one", "fixed", "each", "none"]),
    ) {
        // Computation in zero time also makes ties between iterations.
        let text = format!(
            "model = \"custom\"\nparameters = {parameters}\nworkers = {workers}\njobs = {jobs}\niterations = {iterations}\n\
             elements = {elements}\ncompute = \"{compute}us\"\ncompute_jitter = {jitter:.1}\n{typical}\
             stragglers = \"{pattern}\"\nstraggler_probability = 0.4"
        );
        let mut source = open(&text, "").unwrap();
        let dense = source.known().dense().unwrap();
        let all = drain(source.as_mut());
        prop_assert!(all == naive(&dense));
        prop_assert!(all.iter().all(|(u, _)| u.bytes <= source.known().frame_max));
        prop_assert!(all.is_sorted_by_key(|(u, _)| u.t_gen));
        prop_assert_eq!(source.failure(), None);
    }
}
