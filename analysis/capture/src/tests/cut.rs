//! Tests of captures that kept the beginning of packets only.

use super::*;

/// A result of Trio-ML with 32 values to a group of workers.
fn result(block: u32) -> Vec<u8> {
    let (head, values) = (12, 32u8);
    let mut frame = vec![block as u8 + 1; HEAD + head + usize::from(values) * 4];
    Template::new((SERVER_IP, 12_000), (0xefc0_0000, 12_000), frame.len()).emit(&mut frame);
    frame[HEAD] = 1;
    frame[HEAD + 1..HEAD + 5].copy_from_slice(&block.to_be_bytes());
    // No flags, the source that opened the block, three sources, the generation, and the number of values.
    frame[HEAD + 5..HEAD + head].copy_from_slice(&[0, 1, 3, 0, 7, 0, values]);
    frame
}

/// Analyses captures of the same ten results, which kept so many bytes of each.
fn kept(lengths: &[usize]) -> Measured {
    let dir = tempfile::tempdir().unwrap();
    let file = |(n, length): (usize, &usize)| {
        let path = dir.path().join(format!("{n}.pcapng"));
        let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcapng)).unwrap();
        for block in 0..10 {
            let frame = result(block);
            let bytes = &frame[..frame.len().min(*length)];
            writer.packet(0, i64::from(block) * 1_000_000, bytes, frame.len() as u32).unwrap();
        }
        writer.finish().unwrap();
        path
    };
    let paths: Vec<PathBuf> = lengths.iter().enumerate().map(file).collect();
    analysed(&CapturePlan::new(all().protocols.formats, paths, Vec::new()))
}

/// Copies are told from other sums by the first values: what is digested of two copies must be the same part.
#[test]
fn copies_of_results_that_were_kept_to_different_lengths_are_not_counted() {
    const WHOLE: usize = 2000;
    // The headers have 54 bytes, and 64 of values are digested.
    for lengths in [&[WHOLE][..], &[WHOLE, WHOLE], &[WHOLE, 118], &[70], &[70, 70]] {
        let measured = kept(lengths);
        let of = |metric| value(&measured.lines, metric);
        assert_eq!((of("received"), of("merged")), (Some(10.0), Some(30.0)), "{lengths:?}");
        // Contributions were not captured: nothing shows whether some were sent again.
        let note = measured.notes.iter().find(|note| note.note == "copies_unclear");
        assert_eq!(note.is_some(), lengths.len() > 1, "{:?}", measured.notes);
        assert!(note.is_none_or(|note| note.text.starts_with("10 results of trio_ml equal")), "{note:?}");
    }
    for lengths in [&[WHOLE, 70][..], &[117, 118], &[70, 80]] {
        let measured = kept(lengths);
        let is_counted = |line: &Line| ["received", "merged", "elements_per_s"].contains(&&*line.metric);
        assert!(!measured.lines.iter().any(is_counted), "{lengths:?}: {:?}", measured.lines);
        let note = measured.notes.iter().find(|note| note.note == "deliveries_unknown").expect("a note");
        assert!(note.text.contains("results of trio_ml were kept to different lengths"), "{}", note.text);
    }
}
