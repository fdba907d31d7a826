use std::sync::Arc;

use pktgen_core::arrow::array::{
    BooleanArray, Float32Array, Int64Array, ListArray, UInt8Array, UInt16Array, UInt32Array,
};
use pktgen_core::record::{Fault, Note, STREAMS};

use super::*;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    let fields: Vec<Field> = columns.iter().map(field).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, column)| column).collect())
        .unwrap()
}

/// Columns that were added later and are at the end if a run has them.
const NEW: [(&str, &str); 2] = [(SENT, "heat"), (RECEIVED, "heat")];

#[test]
fn the_layout_has_every_column_of_the_schema() {
    for stream in STREAMS {
        let (_, known) = LAYOUT.iter().find(|(name, _)| *name == stream.name).expect(stream.name);
        for column in stream.columns {
            let renamed = RENAMED.iter().find(|(of, from, _)| *of == stream.name && *from == column.name);
            let moved = MOVED.iter().find(|(of, from, _)| *of == stream.name && *from == column.name);
            let name = renamed.or(moved).map_or(column.name, |(_, _, to)| to);
            let new = NEW.contains(&(stream.name, name));
            assert!(
                new != known.contains(&name),
                "{}.{}: add it to LAYOUT, RENAMED or MOVED",
                stream.name,
                column.name
            );
        }
    }
}

#[test]
fn rows_are_sorted_by_value_and_cells_are_exact() {
    let list = ListArray::from_iter_primitive::<UInt32Type, _, _>([Some(vec![Some(1), Some(2)]), Some(vec![]), None]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("t_ps", Arc::new(Int64Array::from(vec![10, -2, 9]))),
        ("reward", Arc::new(Float32Array::from(vec![Some(0.1), None, Some(1e-7)]))),
        ("sent", Arc::new(BooleanArray::from(vec![true, false, true]))),
        ("action", Arc::new(UInt8Array::from(vec![0, 4, 250]))),
        ("words", Arc::new(list)),
    ];
    let names: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let lines = rows(BOOKS, &names, &batch(columns)).unwrap();
    assert_eq!(
        lines,
        ["books\t-2\t-\tfalse\tdropped\t[]", "books\t9\t1e-7\ttrue\t250\t-", "books\t10\t0.1\ttrue\tqueued\t[1, 2]"]
    );
}

#[test]
fn every_float_reads_back_to_the_same_bits() {
    for bits in (0..u32::MAX).step_by(40_503_013) {
        let value = f32::from_bits(bits);
        let columns: Vec<(&str, ArrayRef)> = vec![("reward", Arc::new(Float32Array::from(vec![value])))];
        let lines = rows(SENT, &["reward".to_owned()], &batch(columns)).unwrap();
        let back: f32 = lines[0].strip_prefix("sent\t").unwrap().parse().unwrap();
        assert!(back.to_bits() == bits || value.is_nan(), "{value:?} is written as {}", lines[0]);
    }
}

#[test]
fn the_order_of_columns_and_rows_in_a_file_makes_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second): (ArrayRef, ArrayRef) =
        (Arc::new(Int64Array::from(vec![3, 1])), Arc::new(UInt8Array::from(vec![0, 1])));
    let (third, fourth): (ArrayRef, ArrayRef) =
        (Arc::new(Int64Array::from(vec![1, 3])), Arc::new(UInt8Array::from(vec![1, 0])));
    let mut parts = Vec::new();
    for columns in [vec![("t_ps", first), ("action", second)], vec![("action", fourth), ("t_ps", third)]] {
        let (batch, path) = (batch(columns), folder.path().join("books.parquet"));
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        parts.push(stream(&path, BOOKS, &["t_ps", "action"]).unwrap());
    }
    assert_eq!(parts[0], parts[1]);
    assert_eq!(parts[0].head, "columns\tbooks\tt_ps\taction");
    assert_eq!(parts[0].lines, ["books\t1\tmerged", "books\t3\tqueued"]);
    assert_eq!(parts[0].digest(), parts[1].digest());
}

#[test]
fn what_has_a_column_of_its_own_is_printed_where_it_was() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("cluster", Arc::new(UInt16Array::from(vec![None, None, Some(7)]))),
        ("job", Arc::new(UInt16Array::from(vec![Some(3), Some(4), None]))),
        ("newest_seq", Arc::new(UInt32Array::from(vec![10, 11, 12]))),
        ("heat", Arc::new(UInt8Array::from(vec![None, Some(0), None]))),
        ("part", Arc::new(UInt32Array::from(vec![None, Some(0), Some(5)]))),
        ("last", Arc::new(BooleanArray::from(vec![None, Some(true), Some(false)]))),
    ];
    let known = ["cluster", "newest_seq"];
    let whole = laid_out(RECEIVED, &batch(columns.clone()), &known).unwrap();
    let names = ["cluster", "newest_seq", "heat"].map(str::to_owned);
    assert!(whole.schema().fields().iter().map(|field| field.name()).eq(&names));
    let lines = rows(RECEIVED, &names, &whole).unwrap();
    assert_eq!(lines, ["received\t3\t10\t-", "received\t4\t2147483648\thot", "received\t7\t5\t-"]);
    // Its own column in another stream stays, and a new column that is empty is omitted.
    let columns = columns.into_iter().filter(|(name, _)| ["part", "heat"].contains(name)).collect();
    let first = batch(columns).slice(0, 1);
    let whole = laid_out(PAYLOADS, &first, &["part"]).unwrap();
    assert_eq!(whole.schema().field(0).name(), "part");
    assert_eq!(whole.num_columns(), 1);
}

#[test]
fn metrics_are_lines_without_time_on_the_wall() {
    let lines = [
        Line::new("sent", "updates", 4.0),
        Line::new("aom_mean", "ns", 0.1).with("flow", "cluster").with("id", 3),
        Line::new("loss", "share", None),
        Line::new("study_time", "ns", 123.0),
    ];
    assert_eq!(
        metrics(&lines).lines,
        ["metric\taom_mean\tflow=cluster id=3\tns\t0.1", "metric\tloss\t\tshare\t-", "metric\tsent\t\tupdates\t4.0"]
    );
}

#[test]
fn verdicts_are_codes_with_their_fields() {
    let validity = Validity {
        faults: vec![
            Fault::WrongSums { packets: 2 },
            Fault::InPart { part: "device".into(), fault: Box::new(Fault::Interrupted {}) },
        ],
        notes: vec![Note::Duplicates { packets: 3 }],
    };
    assert_eq!(
        verdict(&validity, &["goal_missed"]).lines,
        [
            "valid\tfalse",
            "fault\tin_part\t{\"fault\":{\"code\":\"interrupted\"},\"part\":\"device\"}",
            "fault\twrong_sums\t{\"packets\":2}",
            "note\tduplicates\t{\"packets\":3}",
            "remark\tgoal_missed"
        ]
    );
}
