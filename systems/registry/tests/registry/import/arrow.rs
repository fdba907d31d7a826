//! Arrow IPC written by the arrow crate: round trips, and damage at any place.

use std::sync::Arc;

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pktgen_core::arrow::array::{
    ArrayRef, Float64Array, Int16Array, ListArray, NullArray, RecordBatch, StringArray, UInt64Array,
};
use pktgen_core::arrow::buffer::OffsetBuffer;
use pktgen_core::arrow::datatypes::{DataType, Field};
use pktgen_core::arrow::ipc::writer::{FileWriter, StreamWriter};

use super::*;
use pktgen_workload::trace::Writer;

/// Returns one of our traces as record batches, read by a crate other than the one that writes it here.
fn batches(folder: &Folder, story: &[(Update, Vec<f32>)]) -> Vec<RecordBatch> {
    let mut writer = Writer::create(&folder.path("t.parquet")).unwrap();
    story.iter().for_each(|(update, values)| writer.push(update, values).unwrap());
    writer.finish("recorded", Notes::new(), "CC0-1.0").unwrap();
    let file = std::fs::File::open(folder.path("t.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().with_batch_size(70).build().unwrap();
    reader.map(|batch| batch.unwrap()).collect()
}

fn file_of(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn stream_of(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn column<T: pktgen_core::arrow::array::Array + 'static>(name: &'static str, array: T) -> (&'static str, ArrayRef) {
    (name, Arc::new(array))
}

#[test]
fn files_and_streams_come_back_exactly() {
    let story = story(500);
    let folder = Folder::new();
    let batches = batches(&folder, &story);
    assert!(batches.len() > 3);
    for (name, bytes) in
        [("a.arrow", file_of(&batches)), ("a.arrows", stream_of(&batches)), ("plain", stream_of(&batches))]
    {
        let folder = Folder::with(name, bytes);
        let (imported, notes) = folder.import(&[name], &ImportOptions::default()).unwrap();
        assert_eq!(imported, story, "{name}");
        assert_eq!(notes["importer"], "arrow");
    }
    // A file's footer gives the places of its batches: some writers begin with a schema in a form of their own.
    let mut ours = file_of(&batches);
    assert!(ours[8..64].iter().all(|byte| *byte == 0) && ours[64] == 0xff);
    ours[8..80].fill(0x5a);
    let folder = Folder::with("a.feather", ours);
    assert_eq!(folder.import(&["a.feather"], &ImportOptions::default()).unwrap().0, story);
    // Slices of a batch give the same result as the batch.
    let parts: Vec<_> = (0..7).map(|i| batches[0].slice(i * 10, 10)).collect();
    let (imported, _) = Folder::with("a.ipc", file_of(&parts)).import(&["a.ipc"], &ImportOptions::default()).unwrap();
    assert_eq!(imported, story[..70]);
}

#[test]
fn columns_are_named_that_do_not_fit() {
    let times = || column("t_ps", UInt64Array::from(vec![0, 5, 9]));
    let workers = || column("worker", Int16Array::from(vec![0, 1, 0]));
    let clusters = |values: [i16; 3]| column("cluster", Int16Array::from(values.to_vec()));
    for (columns, words) in [
        (vec![times(), workers()], &["column \"cluster\" is missing", "it has t_ps, worker"][..]),
        (vec![times(), workers(), clusters([0, 0, -1])], &["column \"cluster\", row 2: -1 is not from 0 to 65535"]),
        (vec![times(), workers(), clusters([0, 0, 1])], &["row 2: worker 0 is in clusters 0 and 1"]),
        (
            vec![times(), workers(), clusters([0; 3]), column("reward", Float64Array::from(vec![0.0, 1e300, 0.0]))],
            &["column \"reward\", row 1: 1000000"],
        ),
        (
            vec![times(), workers(), clusters([0; 3]), column("seq", StringArray::from(vec!["a", "b", "c"]))],
            &["column \"seq\" has type Utf8; it must be a whole number"],
        ),
    ] {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        Folder::with("a.arrow", file_of(&[batch])).refuses(&["a.arrow"], &ImportOptions::default(), words);
    }
}

/// Some tools write a column without a single value with a type of its own.
#[test]
fn columns_without_a_value_are_absent() {
    let import = |more: Vec<(&'static str, ArrayRef)>| {
        let times = column("t_ps", UInt64Array::from(vec![0, 5, 9]));
        let workers = column("worker", Int16Array::from(vec![0, 1, 0]));
        let clusters = column("cluster", Int16Array::from(vec![0, 0, 0]));
        let all = [times, workers, clusters].into_iter().chain(more);
        let batch = RecordBatch::try_from_iter_with_nullable(all.map(|(name, array)| (name, array, true))).unwrap();
        Folder::with("a.arrow", file_of(&[batch])).import(&["a.arrow"], &ImportOptions::default()).unwrap()
    };
    let without = import(Vec::new());
    assert_eq!(without.0.len(), 3);
    let same = |column: (&'static str, ArrayRef)| {
        let name = column.0;
        let (updates, mut notes) = import(vec![column]);
        assert_eq!(updates, without.0, "{name}");
        // Inputs of other bytes have other hashes.
        notes.insert("from_sha256".to_owned(), without.1["from_sha256"].clone());
        assert_eq!(notes, without.1, "{name}");
    };
    for name in ["seq", "bytes", "reward", "keys", "values", "iteration"] {
        same(column(name, NullArray::new(3)));
    }
    for name in ["keys", "values"] {
        let field = Arc::new(Field::new("item", DataType::Null, true));
        let (offsets, values) = (OffsetBuffer::from_lengths([0; 3]), Arc::new(NullArray::new(0)));
        same(column(name, ListArray::new(field, offsets, values, None)));
    }
}

#[test]
fn claims_are_held_against_the_length_and_cuts_are_seen() {
    let folder = Folder::new();
    let bytes = file_of(&batches(&folder, &story(40)));
    let plain = ImportOptions::default();
    let refuses = |bytes: &[u8], words: &[&str]| Folder::with("a.arrow", bytes).refuses(&["a.arrow"], &plain, words);
    for cut in [0, 3, 8, 12, 66, 100, bytes.len() / 2, bytes.len() - 1] {
        refuses(&bytes[..cut], &["a.arrow: "]);
    }
    refuses(&bytes[..bytes.len() - 1], &["does not end as an Arrow file does", "truncated"]);
    // The footer's length, followed by the length of the first batch's body in the footer.
    let end = bytes.len() - 10;
    let mut claim = bytes.clone();
    for size in [i32::MAX, -1] {
        claim[end..end + 4].copy_from_slice(&size.to_le_bytes());
        refuses(&claim, &[&format!("byte {end}: a footer of {size} bytes")]);
    }
    let start = end - i32::from_le_bytes(*bytes[end..].first_chunk().unwrap()) as usize;
    let footer = pktgen_core::arrow::ipc::root_as_footer(&bytes[start..end]).unwrap();
    let body = footer.recordBatches().unwrap().get(0).bodyLength();
    let place = start + bytes[start..end].windows(8).position(|w| w == body.to_le_bytes()).unwrap();
    for length in [1i64 << 60, -1] {
        let mut claim = bytes.clone();
        claim[place..place + 8].copy_from_slice(&length.to_le_bytes());
        refuses(&claim, &[&format!("byte {start}: a message of "), &format!(" and {length} bytes at byte ")]);
    }
    // A stream: the head of the first message, followed by the length of the first batch's body.
    let stream = stream_of(&batches(&Folder::new(), &story(40)));
    let mut claim = stream.clone();
    for size in [i32::MAX, -1] {
        claim[4..8].copy_from_slice(&size.to_le_bytes());
        let folder = Folder::with("a.arrows", claim.clone());
        folder.refuses(&["a.arrows"], &plain, &[&format!("byte 0: a message with a head of {size} bytes")]);
    }
    let at = 8 + i32::from_le_bytes(*stream[4..].first_chunk().unwrap()) as usize;
    let head = i32::from_le_bytes(*stream[at + 4..].first_chunk().unwrap()) as usize;
    let body = root_body(&stream[at + 8..at + 8 + head]);
    let place = at + 8 + stream[at + 8..at + 8 + head].windows(8).position(|w| w == body.to_le_bytes()).unwrap();
    let mut claim = stream.clone();
    claim[place..place + 8].copy_from_slice(&(1i64 << 60).to_le_bytes());
    let folder = Folder::with("a.arrows", claim);
    folder.refuses(&["a.arrows"], &plain, &[&format!("byte {at}: a message with a body of 1152921504606846976 bytes")]);
}

#[test]
fn what_follows_the_end_of_a_stream_is_refused() {
    let story = story(40);
    let stream = stream_of(&batches(&Folder::new(), &story));
    let plain = ImportOptions::default();
    for more in [&stream[..], b"junk and more junk", b"junk", &[0u8; 8]] {
        let what = format!("byte {}: {} bytes after the end of the stream", stream.len(), more.len());
        Folder::with("a.arrows", [&stream[..], more].concat()).refuses(&["a.arrows"], &plain, &[&what]);
    }
    // Padding of the end marker.
    let padded = [&stream[..], &[0u8; 4]].concat();
    let (imported, notes) = Folder::with("a.arrows", padded).import(&["a.arrows"], &plain).unwrap();
    assert_eq!(imported, story);
    assert!(!notes.contains_key("end"), "{notes:?}");
}

fn root_body(head: &[u8]) -> i64 {
    pktgen_core::arrow::ipc::root_as_message(head).unwrap().bodyLength()
}
