pub use polars::prelude;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, Int64Array, PrimitiveArray, RecordBatch, UInt16Array, UInt32Array, UInt64Array};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use polars::prelude::*;

const SENT: u64 = 10_000_000;
const RECEIVED: u64 = 6_000_000;

/// Whole columns in memory, or batch by batch: both streams are sorted by packet.
pub fn run(folder: &Path, how: &str) -> DataFrame {
    let read = |name: &str, columns: &[&str]| batches(&folder.join(name), columns).map(frame);
    let sent = read("sent.parquet", &["packet", "t_gen_ps", "cluster", "bytes"]);
    let received = read("received.parquet", &["packet", "t_recv_ps"]).map(IntoLazy::lazy).collect::<Vec<_>>();
    let as_is = UnionArgs { rechunk: false, ..Default::default() };
    let received = concat(received, as_is).expect("frames");
    if how != "batches" {
        let sent = concat(sent.map(IntoLazy::lazy).collect::<Vec<_>>(), as_is).expect("frames");
        return crate::query(sent, received).collect().expect("a result");
    }
    let received = received.collect().expect("a frame");
    let part = |sent: DataFrame| {
        let packets = sent.column("packet").expect("a column").u64().expect("numbers");
        let (least, most) = (packets.min().expect("rows"), packets.max().expect("rows"));
        let side = received.clone().lazy().filter(col("packet").gt_eq(lit(least)).and(col("packet").lt_eq(lit(most))));
        crate::query(sent.lazy(), side).collect().expect("a result").lazy()
    };
    concat(sent.map(part).collect::<Vec<_>>(), UnionArgs::default())
        .expect("frames")
        .group_by([col("cluster")])
        .agg([col("n").sum(), col("latency").sum(), col("worst").max()])
        .sort(["cluster"], SortMultipleOptions::default())
        .collect()
        .expect("a result")
}

fn batches(path: &Path, columns: &[&str]) -> impl Iterator<Item = RecordBatch> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("a file")).expect("Parquet");
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
    let reader: ParquetRecordBatchReader = builder.with_projection(mask).with_batch_size(1 << 18).build().expect("a reader");
    reader.map(|batch| batch.expect("a batch"))
}

fn frame(batch: RecordBatch) -> DataFrame {
    use arrow_schema::DataType as Type;
    let rows = batch.num_rows();
    let (schema, arrays, _) = batch.into_parts();
    let columns = schema.fields().iter().zip(arrays).map(|(field, array)| {
        let name = PlSmallStr::from_str(field.name());
        match field.data_type() {
            Type::Int64 => Int64Chunked::from_vec(name, values::<Int64Type>(array)).into_column(),
            Type::UInt64 => UInt64Chunked::from_vec(name, values::<UInt64Type>(array)).into_column(),
            Type::UInt32 => UInt32Chunked::from_vec(name, values::<UInt32Type>(array)).into_column(),
            Type::UInt16 => UInt16Chunked::from_vec(name, values::<UInt16Type>(array)).into_column(),
            other => unreachable!("{other}"),
        }
    });
    DataFrame::new(rows, columns.collect()).expect("a frame")
}

/// Moved: nobody else holds the buffer.
fn values<T: ArrowPrimitiveType>(array: ArrayRef) -> Vec<T::Native> {
    let own: PrimitiveArray<T> = array.as_any().downcast_ref::<PrimitiveArray<T>>().expect("this type").clone();
    drop(array);
    own.into_parts().1.into_inner().into_vec().expect("nobody else's")
}

/// Writes the two streams.
pub fn make(folder: &Path) {
    write(&folder.join("sent.parquet"), SENT, |first, count| {
        let rows = first..first + count;
        let of = |offset: u64| rows.clone().map(move |row| (row, mixed(row + offset)));
        vec![
            ("packet", Arc::new(UInt64Array::from_iter_values(rows.clone())) as ArrayRef),
            ("t_gen_ps", Arc::new(Int64Array::from_iter_values(of(0).map(|(row, mixed)| (row * 51_200 + mixed % 40_000) as i64)))),
            ("cluster", Arc::new(UInt16Array::from_iter_values(of(0).map(|(_, mixed)| (mixed % 9) as u16)))),
            ("worker", Arc::new(UInt32Array::from_iter_values(of(0).map(|(_, mixed)| (mixed % 27) as u32)))),
            ("bytes", Arc::new(UInt32Array::from_iter_values(of(7).map(|(_, mixed)| 128 + 128 * (mixed % 2) as u32)))),
        ]
    });
    write(&folder.join("received.parquet"), RECEIVED, |first, count| {
        let of = || (first..first + count).map(|row| (row * SENT / RECEIVED, mixed(row)));
        let time = |(packet, mixed): (u64, u64)| (packet * 51_200 + 1_000_000 + mixed % 90_000) as i64;
        vec![
            ("packet", Arc::new(UInt64Array::from_iter_values(of().map(|(packet, _)| packet))) as ArrayRef),
            ("t_recv_ps", Arc::new(Int64Array::from_iter_values(of().map(time)))),
        ]
    });
}

fn write(path: &Path, rows: u64, columns: impl Fn(u64, u64) -> Vec<(&'static str, ArrayRef)>) {
    let batch = |first: u64| RecordBatch::try_from_iter(columns(first, (rows - first).min(1 << 16))).expect("a batch");
    let packed = WriterProperties::builder().set_compression(Compression::ZSTD(Default::default())).build();
    let file = File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch(0).schema(), Some(packed)).expect("a writer");
    for first in (0..rows).step_by(1 << 16) {
        writer.write(&batch(first)).expect("written");
    }
    writer.close().expect("written");
}

fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    value ^ (value >> 29)
}
