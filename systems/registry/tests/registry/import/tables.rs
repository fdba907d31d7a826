//! Parquet: foreign widths, missing columns, and refused inputs.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, GzipLevel, ZstdLevel};
use ::parquet::file::properties::WriterProperties;
use pktgen_core::arrow::array::{
    ArrayRef, Float32Array, Float64Array, Int8Array, Int64Array, LargeListArray, ListArray, RecordBatch, StringArray,
    UInt16Array, UInt32Array, UInt64Array,
};
use pktgen_core::arrow::datatypes::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int64Type, UInt64Type};

#[expect(non_camel_case_types, reason = "as the crate half calls it")]
type f16 = <Float16Type as ArrowPrimitiveType>::Native;

use super::*;
use pktgen_workload::trace::{Reader, TraceManifest, check};
use pktgen_workload::workload::Update;

/// A folder with a foreign file.
struct Foreign {
    folder: tempfile::TempDir,
}

impl Foreign {
    fn parquet(columns: &[(&str, ArrayRef)]) -> Self {
        Foreign::compressed(columns, Compression::UNCOMPRESSED)
    }

    fn compressed(columns: &[(&str, ArrayRef)], codec: Compression) -> Self {
        let foreign = Foreign { folder: tempfile::tempdir().unwrap() };
        let batch = RecordBatch::try_from_iter(columns.iter().cloned()).unwrap();
        let file = File::create(foreign.path("in.parquet")).unwrap();
        let properties = WriterProperties::builder().set_compression(codec).build();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        foreign
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn updates(&self, bytes: u32) -> Result<Vec<(Update, Vec<f32>)>> {
        let output = self.path("out.parquet");
        let options = ImportOptions { bytes, ..Default::default() };
        convert(&[self.path("in.parquet")], &output, None, &options, "CC0-1.0")?;
        check(&output)?;
        let block = Reader::open(&output)?.next_block()?.unwrap();
        Ok(block.updates.iter().enumerate().map(|(i, update)| (*update, block.values(i).to_vec())).collect())
    }
}

fn array<T: pktgen_core::arrow::array::Array + 'static>(array: T) -> ArrayRef {
    Arc::new(array)
}

/// Two workers, three updates.
fn small() -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("t_ps", array(UInt64Array::from(vec![1, 2, 3]))),
        ("cluster", array(Int64Array::from(vec![0, 0, 0]))),
        ("worker", array(Int8Array::from(vec![0, 1, 0]))),
    ]
}

fn with(name: &'static str, column: ArrayRef) -> Foreign {
    let mut columns = small();
    columns.retain(|(other, _)| *other != name);
    columns.push((name, column));
    Foreign::parquet(&columns)
}

#[test]
fn any_width_and_missing_columns_are_taken() {
    let updates = Foreign::parquet(&small()).updates(300).unwrap();
    let seen: Vec<_> = updates.iter().map(|(u, v)| (u.t_gen, u.worker, u.seq, u.bytes, u.reward, v.len())).collect();
    assert_eq!(seen, [(1, 0, 0, 300, None, 0), (2, 1, 0, 300, None, 0), (3, 0, 1, 300, None, 0)]);
    let lists = [Some(vec![Some(0.5), Some(-2.0)]), None, Some(vec![Some(1.0)])];
    let wide = LargeListArray::from_iter_primitive::<Float64Type, _, _>(lists.clone());
    let narrow =
        ListArray::from_iter_primitive::<Float32Type, _, _>(lists.map(|list| {
            list.map(|list| list.into_iter().map(|x: Option<f64>| x.map(|x| x as f32)).collect::<Vec<_>>())
        }));
    for column in [array(wide), array(narrow)] {
        let updates = with("values", column).updates(300).unwrap();
        let seen: Vec<_> = updates.into_iter().map(|(u, v)| (u.bytes, v)).collect();
        assert_eq!(seen, [(80, vec![0.5, -2.0]), (300, vec![]), (76, vec![1.0])]);
    }
    let foreign = with("reward", array(Float64Array::from(vec![Some(0.1), None, Some(3.0)])));
    let rewards = foreign.updates(300).unwrap();
    assert_eq!(rewards.iter().map(|(u, _)| u.reward).collect::<Vec<_>>(), [Some(0.1), None, Some(3.0)]);
    let told = TraceManifest::load(&foreign.path("out.parquet")).unwrap().unwrap().details;
    assert_eq!(told["rounded"], "to 32 bits: 1 of the numbers");
    assert_eq!(told["bytes"], "300 for 3 updates without a size, keys or values (--bytes)");
    let halves = [Some(vec![Some(f16::from_f32(0.5))]), None, None];
    let column = array(ListArray::from_iter_primitive::<Float16Type, _, _>(halves));
    assert_eq!(with("values", column).updates(300).unwrap()[0].1, [0.5]);
    let foreign = with("colour", array(StringArray::from(vec!["a", "b", "c"])));
    foreign.updates(300).unwrap();
    let manifest = TraceManifest::load(&foreign.path("out.parquet")).unwrap().unwrap();
    assert_eq!(manifest.details["ignored_columns"], "colour");
}

#[test]
fn compressions_are_read_or_named() {
    let (gzip, zstandard) = (Compression::GZIP(GzipLevel::default()), Compression::ZSTD(ZstdLevel::default()));
    for codec in [Compression::SNAPPY, gzip, Compression::LZ4, Compression::LZ4_RAW, zstandard] {
        assert_eq!(Foreign::compressed(&small(), codec).updates(300).unwrap().len(), 3, "{codec}");
    }
    // The path of a column, its compression, as the footer has them.
    let foreign = Foreign::parquet(&small());
    let mut bytes = std::fs::read(foreign.path("in.parquet")).unwrap();
    let place = bytes.windows(6).rposition(|part| part == b"t_ps\x15\0").unwrap() + 5;
    bytes[place] = 4 << 1;
    std::fs::write(foreign.path("in.parquet"), bytes).unwrap();
    for message in [foreign.updates(300).unwrap_err(), check(&foreign.path("in.parquet")).unwrap_err()] {
        let message = message.to_string();
        assert!(message.contains("in.parquet: it is compressed with Brotli") && message.contains("gzip"), "{message}");
    }
}

/// Imports recorded pairs as a foreign file: they are unchanged, bit for bit.
#[test]
fn pairs_of_key_and_gradient_come_back_exactly() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sparse-recorded.parquet");
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.parquet");
    convert(std::slice::from_ref(&recorded), &output, None, &ImportOptions::default(), "CC0-1.0").unwrap();
    let (mut before, mut after) = (Reader::open(&recorded).unwrap(), Reader::open(&output).unwrap());
    let mut pairs = 0;
    while let Some(block) = before.next_block().unwrap() {
        let other = after.next_block().unwrap().unwrap();
        assert_eq!(block.updates, other.updates);
        for i in 0..block.updates.len() {
            assert_eq!((block.keys(i), block.values(i)), (other.keys(i), other.values(i)), "{i}");
            pairs += block.keys(i).len();
        }
    }
    assert!(pairs > 400_000, "{pairs}");
}

#[test]
fn what_does_not_fit_is_named_by_column_and_row() {
    let integers = |values: [i64; 3]| array(Int64Array::from(values.to_vec()));
    for (name, column, part) in [
        ("cluster", integers([0, 70_000, 0]), "column \"cluster\", row 1: 70000 is not from 0 to 65535"),
        ("worker", integers([0, 1, -1]), "column \"worker\", row 2: -1 is not from 0"),
        ("t_ps", array(UInt64Array::from(vec![1, 2, u64::MAX])), "column \"t_ps\", row 2: 18446744073709551615"),
        ("t_ps", array(Int64Array::from(vec![Some(1), None, Some(2)])), "column \"t_ps\", row 1: no value"),
        (
            "t_ps",
            array(StringArray::from(vec!["1", "2", "3"])),
            "column \"t_ps\" has type Utf8; it must be a whole number",
        ),
        ("t_ps", integers([2, 1, 3]), "row 1: time 1 ps is before 2 ps"),
        ("worker", integers([0, 2, 0]), "dense from 0"),
        ("cluster", integers([0, 0, 1]), "row 2: worker 0 is in clusters 0 and 1"),
        ("seq", integers([0, 0, 2]), "row 2: worker 0 has seq 2 after 1 updates"),
        ("bytes", integers([256, 10_000, 256]), "row 1: 10000 bytes; frames have"),
        ("reward", array(Float64Array::from(vec![0.0, 1e300, 0.0])), "column \"reward\", row 1"),
        ("reward", array(Float32Array::from(vec![0.0, 0.0, f32::NAN])), "column \"reward\", row 2: NaN"),
        ("values", integers([1, 2, 3]), "column \"values\" has type Int64; it must be a list of numbers"),
        ("keys", integers([1, 2, 3]), "column \"keys\" has type Int64; it must be a list of whole numbers"),
        (
            "keys",
            array(ListArray::from_iter_primitive::<Int64Type, _, _>([None, Some(vec![Some(-4)]), None])),
            "column \"keys\", row 1: -4 is not from 0",
        ),
        (
            "keys",
            array(ListArray::from_iter_primitive::<Int64Type, _, _>([None, Some(vec![Some(4)]), None])),
            "row 1: 1 keys for 0 values",
        ),
        (
            "values",
            array(ListArray::from_iter_primitive::<Float32Type, _, _>([None, Some(vec![None]), None])),
            "column \"values\", row 1: a list lacks a value",
        ),
    ] {
        let foreign = with(name, column);
        let message = foreign.updates(300).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
        assert_eq!(std::fs::read_dir(foreign.folder.path()).unwrap().count(), 1, "{part}: only the input is there");
    }
    let message = Foreign::parquet(&small()[1..]).updates(300).unwrap_err().to_string();
    assert!(message.contains("column \"t_ps\" is missing; it has cluster, worker"), "{message}");
}

/// The types are those of a trace; rows are more than a block holds.
#[test]
fn what_a_trace_lacks_is_named_by_column_and_row() {
    const ROWS: u32 = 10_000;
    let whole = || {
        vec![
            ("t_ps", array(Int64Array::from_iter_values(0..i64::from(ROWS)))),
            ("cluster", array(UInt16Array::from(vec![0; ROWS as usize]))),
            ("worker", array(UInt32Array::from(vec![0; ROWS as usize]))),
            ("seq", array(UInt32Array::from_iter_values(0..ROWS))),
            ("bytes", array(UInt32Array::from(vec![256; ROWS as usize]))),
        ]
    };
    let of = |name: &'static str, column: ArrayRef| {
        let mut columns = whole();
        columns.retain(|(other, _)| *other != name);
        columns.push((name, column));
        let foreign = Foreign::parquet(&columns);
        check(&foreign.path("in.parquet")).map(|info| info.updates).map_err(|e| e.to_string())
    };
    let but = |row: u32| (0..ROWS).map(move |i| (i != row).then_some(i));
    // A row without a list is a row without values.
    let floats = |row: u32, lacks: Option<f32>| {
        let lists = (0..ROWS).map(|i| (i >= row).then(|| vec![Some(0.5), if i == row { lacks } else { Some(1.0) }]));
        array(ListArray::from_iter_primitive::<Float32Type, _, _>(lists))
    };
    let keys = (0..ROWS).map(|i| (i == 8200).then(|| vec![Some(7), None]));
    let keys = array(ListArray::from_iter_primitive::<UInt64Type, _, _>(keys));
    assert_eq!(of("values", floats(9000, Some(1.0))), Ok(u64::from(ROWS)));
    for (name, column, part) in [
        ("t_ps", array(but(9000).map(|t| t.map(i64::from)).collect::<Int64Array>()), "\"t_ps\", row 9000: no value"),
        ("seq", array(but(1).collect::<UInt32Array>()), "\"seq\", row 1: no value"),
        ("values", floats(9000, None), "\"values\", row 9000: a list lacks a value"),
        ("keys", keys, "\"keys\", row 8200: a list lacks a value"),
        ("reward", array(Float64Array::from(vec![0.5; ROWS as usize])), "\"reward\" has an unexpected type"),
    ] {
        let message = of(name, column).unwrap_err();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn rules_hold_for_csv_and_files_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("in.csv"), "t_ps,cluster,worker,seq,reward\n5,0,0,0,1\n4,0,0,1,NaN\n").unwrap();
    let refuses = |output: &str, part: &str| {
        let convert = convert(&[path("in.csv")], &path(output), None, &ImportOptions::default(), "CC0-1.0");
        let message = convert.unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    };
    refuses("out.parquet", "line 3 (row 1): column \"reward\": \"NaN\" is not a finite number");
    std::fs::write(path("in.csv"), "t_ps,cluster,worker,seq,reward\n5,0,0,0,1\n4,0,0,1,1\n").unwrap();
    refuses("out.parquet", "line 3: row 1: time 4 ps is before 5 ps");
    refuses("out.csv", ".parquet");
    refuses("in.csv", "another output");
    assert!(std::fs::read_to_string(path("in.csv")).unwrap().starts_with("t_ps"));
}
