//! The files in traces/examples are generated here; `UPDATE_EXAMPLES=1` rewrites them.

use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use pktgen_core::arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch};
use pktgen_core::arrow::datatypes::Float64Type;
use pktgen_core::arrow::ipc::writer::FileWriter;

use super::*;
use pktgen_wire::pcap::Form;

/// Three workers in two clusters, a few updates with two gradients each.
const CSV: &str = "\
t_us,worker,cluster,reward,values
0,0,0,-12.5,0.25 -0.5
1.5,1,0,-3,0.125 1
2.25,2,1,,-1 0.0625
101.5,1,0,-2.75,0.5 0.5
120,0,0,-11,\"1.5; -0.75\"
133.125,2,1,4,-0.25 2
";

fn columns() -> RecordBatch {
    let values = [[0.25, -0.5], [0.125, 1.0], [-1.0, 0.0625], [0.5, 0.5], [1.5, -0.75], [-0.25, 2.0]];
    let lists = values.map(|pair| Some(pair.map(Some)));
    let whole = |numbers: [i64; 6]| -> ArrayRef { Arc::new(Int64Array::from(numbers.to_vec())) };
    let rewards = [Some(-12.5), Some(-3.0), None, Some(-2.75), Some(-11.0), Some(4.0)];
    RecordBatch::try_from_iter([
        ("t_ps", whole([0, 1_500_000, 2_250_000, 101_500_000, 120_000_000, 133_125_000])),
        ("worker", whole([0, 1, 2, 1, 0, 2])),
        ("cluster", whole([0, 0, 1, 0, 0, 1])),
        ("reward", Arc::new(Float64Array::from(rewards.to_vec())) as ArrayRef),
        ("values", Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists)) as ArrayRef),
    ])
    .unwrap()
}

/// Writes all examples into a folder.
fn make(folder: &Folder) -> [&'static str; 6] {
    let batch = columns();
    let mut arrow = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    arrow.write(&batch).unwrap();
    arrow.finish().unwrap();
    let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    let files = [
        ("updates.csv", CSV.into()),
        ("updates.arrow", arrow.into_inner().unwrap()),
        ("updates.parquet", parquet.into_inner().unwrap()),
        ("ranks.0.et", chakra::file(chakra::layers(0))),
        ("ranks.1.et", chakra::file(chakra::layers(7))),
    ];
    files.iter().for_each(|(name, bytes)| std::fs::write(folder.path(name), bytes).unwrap());
    pcap::olaf(&folder.path("olaf.pcapng"), Form::Pcapng);
    [files[0].0, files[1].0, files[2].0, files[3].0, files[4].0, "olaf.pcapng"]
}

#[test]
fn examples_are_what_this_makes() {
    let folder = Folder::new();
    let checked_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/examples");
    for name in make(&folder) {
        let fresh = std::fs::read(folder.path(name)).unwrap();
        if std::env::var_os("UPDATE_EXAMPLES").is_some() {
            std::fs::create_dir_all(&checked_in).unwrap();
            std::fs::write(checked_in.join(name), &fresh).unwrap();
        }
        let there = std::fs::read(checked_in.join(name)).unwrap_or_default();
        assert!(
            there == fresh,
            "traces/examples/{name} is another; run with UPDATE_EXAMPLES=1 and review the difference"
        );
    }
}

#[test]
fn tables_of_every_form_say_the_same() {
    let folder = Folder::new();
    make(&folder);
    let of = |name| folder.import(&[name], &ImportOptions::default()).unwrap().0;
    let expected = of("updates.csv");
    assert_eq!(expected.len(), 6);
    assert_eq!(expected[3].0.t_gen, 101_500_000);
    assert_eq!((of("updates.arrow"), of("updates.parquet")), (expected.clone(), expected));
}
