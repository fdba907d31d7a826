//! CSV: columns in any order, units of time, lists, and refused inputs.

use std::fmt::Write;

use super::*;

fn plain() -> ImportOptions {
    ImportOptions::default()
}

#[test]
fn what_is_written_as_csv_comes_back_exactly() {
    let story = story(300);
    let mut wide = "t_ps,cluster,worker,seq,reward\r\n".to_owned();
    let mut lists = "\u{feff}values,iteration,worker,seq,colour,cluster,t_us,reward,bytes\n".to_owned();
    for (i, (u, values)) in story.iter().enumerate() {
        let list = |between: &str| values.iter().map(f32::to_string).collect::<Vec<_>>().join(between);
        let reward = u.reward.unwrap();
        let _ = write!(wide, "{},{},{},{},{reward},{}\r\n", u.t_gen, u.cluster, u.worker, u.seq, list(","));
        let cell = if i % 2 == 0 { format!("\"{}\"", list("; ")) } else { list(" ") };
        let (us, ps) = (u.t_gen / 1_000_000, u.t_gen % 1_000_000);
        let _ = writeln!(
            lists,
            "{cell},,{},{},\"a \"\"b\"\",\nc\",{},{us}.{ps:06},{reward},{}",
            u.worker, u.seq, u.cluster, u.bytes
        );
    }
    let (imported, notes) = Folder::with("a.csv", lists).import(&["a.csv"], &plain()).unwrap();
    assert_eq!(imported, story);
    assert_eq!(notes["ignored_columns"], "colour");
    assert_eq!(notes["importer"], "csv");
    // Without a column of sizes, a frame has exactly the room that its values need.
    let (imported, _) = Folder::with("a.csv", wide).import(&["a.csv"], &plain()).unwrap();
    let snug = story.into_iter().map(|(u, v)| (Update { bytes: 72 + 4 * v.len() as u32, ..u }, v)).collect::<Vec<_>>();
    assert_eq!(imported, snug);
}

#[test]
fn numbers_are_counted_and_optional_columns_may_be_absent_or_empty() {
    let text = "worker,t_s,cluster,reward,values,keys\n0,0,1,,,\n1,1e-3,1,2,1 2,\n0,0.5,1,,,\n";
    let (imported, notes) = Folder::with("a.csv", text).import(&["a.csv"], &plain()).unwrap();
    let seen: Vec<_> = imported.iter().map(|(u, v)| (u.t_gen, u.worker, u.seq, u.reward, u.bytes, v.len())).collect();
    let expected =
        [(0, 0, 0, None, 256, 0), (1_000_000_000, 1, 0, Some(2.0), 80, 2), (500_000_000_000, 0, 1, None, 256, 0)];
    assert_eq!(seen, expected);
    assert_eq!((notes["seq"].as_str(), notes["time"].as_str()), ("counted per worker", "t_s, rounded to picoseconds"));
    assert_eq!(notes["bytes"], "256 for 2 updates without a size, keys or values (--bytes)");
}

/// Columns of other names are gradients also before and behind columns that are known; with `values` they are ignored.
#[test]
fn gradients_have_columns_beside_known_ones() {
    let head = "t_ps,cluster,worker,seq,reward";
    let text = format!("{head},g0,bytes,g1,iteration\n1,0,0,0,1,0.5,84,0.25,7\n");
    let (imported, notes) = Folder::with("a.csv", text).import(&["a.csv"], &plain()).unwrap();
    let (update, values) = &imported[0];
    assert_eq!((update.bytes, update.iteration, &values[..]), (84, Some(7), &[0.5f32, 0.25][..]));
    assert!(!notes.contains_key("ignored_columns"), "{notes:?}");
    let text = format!("{head},bytes\n1,0,0,0,1,84\n");
    let (imported, _) = Folder::with("a.csv", text).import(&["a.csv"], &plain()).unwrap();
    assert_eq!((imported[0].0.bytes, imported[0].1.len()), (84, 0));
    let text = format!("{head},g0,values\n1,0,0,0,1,0.5,1 2\n");
    let (imported, notes) = Folder::with("a.csv", text).import(&["a.csv"], &plain()).unwrap();
    assert_eq!((&imported[0].1[..], notes["ignored_columns"].as_str()), (&[1.0f32, 2.0][..], "g0"));
}

/// Space around a quoted field, quotes within others, and a mark before the header.
#[test]
fn quotes_that_are_in_place_are_taken() {
    let text = "\u{feff}\"t_ps\",cluster,worker,note,\"values\"\r\n0,0,0,5\" disk,\"1 2\"\t \r\n\
                1,0,0,\"a \"\"b\"\"\n,\" ,\"\"\n2,0,0, \"x,\"0.5 -3\"";
    let (imported, notes) = Folder::with("a.csv", text).import(&["a.csv"], &plain()).unwrap();
    let values: Vec<_> = imported.iter().map(|(_, values)| values.as_slice()).collect();
    assert_eq!(values, [&[1.0f32, 2.0][..], &[], &[0.5, -3.0]]);
    assert_eq!(notes["ignored_columns"], "note");
}

#[test]
fn keys_stay_with_their_values() {
    let text = "t_ps,cluster,worker,keys,values\n0,0,0,18446744073709551615;3,1 -2\n1,0,0,,\n";
    let folder = Folder::with("a.csv", text);
    let (imported, _) = folder.import(&["a.csv"], &plain()).unwrap();
    // A key and a value take 8 bytes.
    assert_eq!(imported.iter().map(|(u, v)| (u.bytes, v.len())).collect::<Vec<_>>(), [(76, 2), (256, 0)]);
    let block = Reader::open(&folder.path("out.parquet")).unwrap().next_block().unwrap().unwrap();
    assert_eq!((block.keys(0), block.values(0), block.keys(1)), (&[u64::MAX, 3][..], &[1.0, -2.0][..], &[][..]));
}

/// Blank lines and line breaks within quotes count, and "\r\n" is one line end.
#[test]
fn lines_are_counted_with_every_line_end() {
    let head = "t_ps,cluster,worker,note";
    for end in ["\n", "\r\n", "\r"] {
        for (rows, words) in [
            (&["x,0,0,"][..], "line 2 (row 0)"),
            (&["0,0,0,", "x,0,0,"], "line 3 (row 1)"),
            (&["0,0,0,", "", "", "x,0,0,"], "line 5 (row 1)"),
            (&["0,0,0,\"a", "b\"", "x,0,0,"], "line 4 (row 1)"),
            (&["5,0,0,", "", "4,0,0,"], "line 4: row 1: time 4 ps is before 5 ps"),
            (&["5,0,0,", "", "6,0,0,\"a\"b"], "line 4: text follows the closing quote"),
            (&["5,0,0,", "", "6,0,0,\"a"], "line 4: the quote that begins a field is not closed"),
        ] {
            let text = [&[head][..], rows].concat().join(end) + end;
            Folder::with("a.csv", text).refuses(&["a.csv"], &plain(), &[words]);
        }
        let text = format!("{end}{end}t_ps,cluster{end}0,0{end}");
        Folder::with("a.csv", text).refuses(&["a.csv"], &plain(), &["line 3: the header is \"t_ps,cluster\""]);
        let text = [format!("{head}{end}{end}0,0,0,").as_bytes(), b"\xff"].concat();
        Folder::with("a.csv", text).refuses(&["a.csv"], &plain(), &["line 3 (row 0): ", "UTF-8"]);
        let text = [end.as_bytes(), b"\xff"].concat();
        Folder::with("a.csv", text).refuses(&["a.csv"], &plain(), &["no header: line 2: ", "UTF-8"]);
        // More than is read ahead.
        let mut text = head.to_owned() + end;
        for t in 0..2000 {
            let _ = write!(text, "{t},0,0,\"a{end}b\"{end}{end}");
        }
        Folder::with("a.csv", text + "x,0,0,").refuses(&["a.csv"], &plain(), &["line 6002 (row 2000)"]);
    }
}

#[test]
fn what_is_wrong_is_named_by_line_row_and_column() {
    let good = "t_ns,cluster,worker,seq,bytes,reward,values,iteration\n0,0,0,0,256,1,,\n1,0,1,0,256,1,,\n";
    let with = |line: &str| format!("{good}{line}\n");
    for (text, words) in [
        (with("x,0,0,1,256,1,,"), &["line 4 (row 2)", "\"t_ns\": \"x\" is not a time", "12.5"][..]),
        (with("-2,0,0,1,256,1,,"), &["\"t_ns\": \"-2\"", "from 0 to 9223372036854775807 ps"]),
        (with("9e30,0,0,1,256,1,,"), &["\"t_ns\": \"9e30\" is too late"]),
        (with("2,65536,0,1,256,1,,"), &["line 4", "\"cluster\": \"65536\" is not a whole number from 0 to 65535"]),
        (with("2,0,4294967296,1,256,1,,"), &["\"worker\": \"4294967296\" is not a whole number from 0 to 4294967295"]),
        (with("2,0,,1,256,1,,"), &["\"worker\": \"\" is not"]),
        (with("2,0,0,1.5,256,1,,"), &["\"seq\": \"1.5\""]),
        (with("2,0,0,1,-3,1,,"), &["\"bytes\": \"-3\""]),
        (with("2,0,0,1,9037,1,,"), &["line 4: row 2: 9037 bytes; frames have 76 to 9036"]),
        (with("2,0,0,1,256,inf,,"), &["\"reward\": \"inf\" is not a finite number"]),
        (with("2,0,0,1,256,1,1 x 3,"), &["\"values\": \"x\""]),
        (with("2,0,0,1,256,1,,-1"), &["\"iteration\": \"-1\""]),
        (with("2,0,0,1,256,1,"), &["line 4 (row 2): 7 columns; the header has 8"]),
        (with("2,0,0,1,256,1,,,9"), &["9 columns; the header has 8"]),
        (with("0.5,0,0,1,256,1,,"), &["line 4: row 2: time 500 ps is before 1000 ps"]),
        (with("2,0,0,2,256,1,,"), &["line 4: row 2: worker 0 has seq 2 after 1 updates"]),
        (with("2,1,0,1,256,1,,"), &["line 4: row 2: worker 0 is in clusters 0 and 1"]),
        (with("2,0,9,0,256,1,,"), &["dense from 0"]),
        ("t_ps,cluster,worker\n0.5,0,0\n".into(), &["line 2", "\"t_ps\": \"0.5\" is finer than a picosecond"]),
        // Cut within its last number but one.
        (
            "t_ps,cluster,worker,seq,reward,v0,v1,v2\n2,0,0,0,0.5,1,2.\n".into(),
            &["line 2", "7 columns; the header has 8"],
        ),
        ("t_ps,cluster,worker,seq,reward\n2,0,0,0\n".into(), &["line 2", "4 columns; there must be at least 5"]),
        ("t_ps,cluster,worker,keys\n1,0,0,4\n".into(), &["line 2: row 0: 1 keys for 0 values"]),
        (
            "t_ps,cluster,worker,keys,values\n1,0,0,4;-1,1 1\n".into(),
            &["line 2 (row 0): column \"keys\": \"-1\" is not"],
        ),
        ("t_ps,cluster,seq\n1,0,0\n".into(), &["line 1", "\"t_ps,cluster,seq\"", "must have", "worker"]),
        ("t,cluster,worker\n1,0,0\n".into(), &["line 1", "t_ps, t_ns, t_us, t_ms or t_s"]),
        ("t_ps,t_s,cluster,worker\n1,1,0,0\n".into(), &["line 1", "several columns of times"]),
        ("t_ps,cluster,worker,worker\n1,0,0,0\n".into(), &["line 1", "column \"worker\" twice"]),
        ("t_ps,cluster,worker\n".into(), &["the trace is empty"]),
        (String::new(), &["line 1", "header"]),
        (with("2,0,0,1,256,1,\"1 2,\n3,0,0,2,256,1,,"), &["line 4: the quote that begins a field is not closed"]),
        (with("2,0,0,1,256,1,,\""), &["line 4: the quote that begins a field is not closed"]),
        (
            with("2,0,0,1,256,1,\"1 2,\n3,0,0,2,256,1,\"1 2\","),
            &["line 5: text follows the closing quote of a field that begins in line 4"],
        ),
        (with("2,0,0,1,256,1,\"1\"2,"), &["line 4: text follows the closing quote"]),
        ("t_ps,cluster,worker,\"note\n1,0,0,\n".into(), &["line 1: the quote that begins a field is not closed"]),
        // What is wrong before comes first.
        (with("x,0,0,1,256,1,,\n2,0,0,1,256,1,\"1\"2,"), &["line 4 (row 2)", "\"t_ns\": \"x\""]),
    ] {
        Folder::with("a.csv", text).refuses(&["a.csv"], &plain(), words);
    }
    Folder::with("a.csv", b"t_ps,cluster,worker\n0,0,\xff\n").refuses(&["a.csv"], &plain(), &["line 2", "UTF-8"]);
}
