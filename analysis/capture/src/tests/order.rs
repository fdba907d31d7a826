//! Tests of sums whose contributions and results were captured in different clocks.

use super::*;

const US: i64 = 1_000_000;
const BLOCKS: u32 = 10;

/// Returns a packet of Trio-ML with 32 values: the contribution of a worker, or a result of three whose block the worker opened.
fn packet(is_result: bool, worker: u8, block: u32) -> Vec<u8> {
    let (head, values) = (12, 32u8);
    let mut frame = vec![block as u8 + 1; HEAD + head + usize::from(values) * 4];
    let ends = match is_result {
        true => [(SERVER_IP, 12_000), (0xefc0_0000, 12_000)],
        false => [(worker_ip(worker.into()), 12_000), (SERVER_IP, 12_000)],
    };
    Template::new(ends[0], ends[1], frame.len()).emit(&mut frame);
    frame[HEAD] = 1;
    frame[HEAD + 1..HEAD + 5].copy_from_slice(&block.to_be_bytes());
    // No flags, the source, the number of sources, the generation, and the number of values.
    let sources = if is_result { 3 } else { 1 };
    frame[HEAD + 5..HEAD + head].copy_from_slice(&[0, worker, sources, 0, 7, 0, values]);
    frame
}

/// Writes both sides without a note of their origin. Each block is opened by the first worker; its result comes twice, and that of the first
/// block later than others: counted from the first packet of each side, results of the others come before their contributions. `again` is
/// the block and the time in it at which the first worker sends its contribution again.
fn sides(dir: &Path, again: Option<(u32, i64)>) -> [PathBuf; 2] {
    let at = |block: u32| i64::from(block) * 1000 * US;
    let sent = (0..BLOCKS).flat_map(|block| (1..=3u8).map(move |worker| (block, worker)));
    let mut sent: Vec<_> =
        sent.map(|(block, worker)| (at(block) + i64::from(worker) * US, packet(false, worker, block))).collect();
    sent.extend(again.map(|(block, later)| (at(block) + later, packet(false, 1, block))));
    sent.sort_by_key(|(t, _)| *t);
    let results = (0..BLOCKS).flat_map(|block| {
        let copies = if block == 0 { [500, 600] } else { [400, 450] };
        copies.map(|later| (at(block) + later * US, packet(true, 1, block)))
    });
    let names = ["sent.pcap", "received.pcap"].map(|name| dir.join(name));
    write_unnoted(&names[0], &sent);
    write_unnoted(&names[1], &results.collect::<Vec<_>>());
    names
}

/// Writes frames of the year 2023.
fn write_unnoted(path: &Path, frames: &[(i64, Vec<u8>)]) {
    let options = WriterOptions { anchor_unix_ns: 1_700_000_000_000_000_000, ..WriterOptions::new(Form::Pcap) };
    let mut writer = Writer::create(path, options).unwrap();
    frames.iter().for_each(|(t, frame)| writer.packet(0, *t, frame, frame.len() as u32).unwrap());
    writer.finish().unwrap();
}

fn note<'a>(measured: &'a Measured, code: &str) -> Option<&'a str> {
    measured.notes.iter().find(|note| note.note == code).map(|note| &note.text[..])
}

const AGREE: Option<Offset> = Some(Offset { ps: 0, error_ps: 0 });

#[test]
fn contributions_are_known_in_whichever_order_the_sides_come() {
    let dir = tempfile::tempdir().unwrap();
    let names = sides(dir.path(), None);
    for offset in [None, AGREE] {
        let out = dir.path().join(format!("tables-{}", offset.is_some()));
        let tables = TablesPlan { dir: out.clone(), run: "run".into(), form: TableForm::Parquet };
        let measured = analysed(&CapturePlan { offset, tables: Some(tables), ..both(&names) });
        assert_eq!((note(&measured, "copies_unclear"), note(&measured, "deliveries_unknown")), (None, None));
        let of = |metric| value(&measured.lines, metric);
        assert_eq!((of("received"), of("merged"), of("missing")), (Some(10.0), Some(30.0), Some(0.0)));
        let again = analyze_tables(&out, all().protocols.formats, false, false).unwrap();
        assert!(again.lines == measured.lines && again.notes == measured.notes, "{:?}", again.notes);
    }
}

/// A contribution is sent again between two results of its block, or after both. Only related clocks show which it is.
#[test]
fn copies_of_a_contribution_that_was_sent_again_need_related_clocks() {
    let dir = tempfile::tempdir().unwrap();
    for (block, later, is_clear) in [(5, 420, false), (5, 700, true), (0, 550, false), (0, 700, true)] {
        let names = sides(dir.path(), Some((block, later * US)));
        let unrelated = analysed(&both(&names));
        let text = note(&unrelated, "deliveries_unknown").expect("a note");
        assert!(text.contains("do not say which transmission they are") && text.contains("--offset"), "{text}");
        let related = analysed(&CapturePlan { offset: AGREE, ..both(&names) });
        let text = note(&related, "deliveries_unknown");
        let is_advised = text.is_some_and(|text| text.contains("--offset"));
        assert_eq!((text.is_none(), is_advised), (is_clear, false), "{block} {later}: {text:?}");
        assert_eq!(note(&related, "copies_unclear"), None);
    }
}

/// Packets do not show which transmission they are: of one that two files have, the note says so, however far apart their clocks are.
/// Parts of one capture, and contributions that were sent again within a file, have no note.
#[test]
fn files_with_the_same_contributions_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["a.pcap", "b.pcap"].map(|name| dir.path().join(name));
    let sent: Vec<_> = (0..BLOCKS).map(|block| (i64::from(block) * 1000 * US, packet(false, 1, block))).collect();
    let again = |later: i64| sent.iter().map(move |(t, frame)| (t + later, frame.clone())).collect::<Vec<_>>();
    let (first, second) = (sent[..5].to_vec(), sent[5..].to_vec());
    let others = (0..BLOCKS).map(|block| (i64::from(block) * 1000 * US, packet(false, 2, block))).collect();
    let twice = [sent.clone(), again(30_000 * US)].concat();
    let alike = "10 contributions were in another of the senders' files before";
    for (place, (files, resent, said)) in [
        ([sent.clone(), again(0)], 10.0, Some(alike)),
        ([sent.clone(), again(700 * US)], 10.0, Some(alike)),
        ([sent.clone(), again(500_000 * US)], 10.0, Some(alike)),
        ([first, second], 0.0, None),
        ([twice, others], 10.0, None),
    ]
    .into_iter()
    .enumerate()
    {
        names.iter().zip(&files).for_each(|(name, frames)| write_unnoted(name, frames));
        let out = dir.path().join(format!("tables-{place}"));
        let tables = TablesPlan { dir: out.clone(), run: "run".into(), form: TableForm::Parquet };
        let plan = CapturePlan::new(all().protocols.formats, Vec::new(), names.to_vec());
        let measured = analysed(&CapturePlan { tables: Some(tables), ..plan });
        assert_eq!(value(&measured.lines, "retransmissions"), Some(resent));
        let text = note(&measured, "files_alike");
        assert!(
            text.is_some() == said.is_some() && text.unwrap_or_default().starts_with(said.unwrap_or_default()),
            "{text:?}"
        );
        let replayed = analyze_tables(&out, all().protocols.formats, false, false).unwrap();
        assert_eq!(note(&replayed, "files_alike"), text);
    }
}

/// The note names what is not given yet.
#[test]
fn unclear_copies_ask_for_what_was_not_given() {
    let dir = tempfile::tempdir().unwrap();
    let names = sides(dir.path(), None);
    let server = CapturePlan::new(all().protocols.formats, vec![names[1].clone()], Vec::new());
    // The capture of the first worker is not given.
    let others: Vec<_> = (0..BLOCKS).map(|block| (i64::from(block) * 1000 * US, packet(false, 2, block))).collect();
    write_unnoted(&names[0], &others);
    let behind = Some(Offset { ps: -1_000_000 * US, error_ps: 0 });
    for (plan, named, unnamed) in [
        (server, "--sent FILE shows whether any were", "--offset"),
        (both(&names), "of all workers", "--offset"),
        (CapturePlan { offset: behind, ..both(&names) }, "another --offset", "shows whether"),
    ] {
        let measured = analysed(&plan);
        let text = note(&measured, "copies_unclear").expect("a note");
        assert!(text.starts_with("10 results of trio_ml equal"), "{text}");
        assert!(text.contains(named) && !text.contains(unnamed), "{text}");
    }
}
