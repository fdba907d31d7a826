//! Outputs shown in the documentation are produced by commands, not typed.
//!
//! A block that follows `<!-- output: ARGS -->` is what `pktgen ARGS` prints on stdout; `ARGS && ARGS` run one after the other,
//! and the last is shown; ` | head -N` shows the first N lines. `UPDATE_DOCS=1 cargo test
//! --release --workspace --test cli docs::` writes the blocks anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const DOCUMENTS: &[&str] = &[
    "README.md",
    "docs/components.md",
    "docs/experiments.md",
    "docs/doctor.md",
    "docs/import.md",
    "docs/traces.md",
    "docs/wireshark.md",
];

fn run(args: &str) -> String {
    if let Some((args, lines)) = args.split_once(" | head -") {
        let lines = lines.parse().expect("a number of lines");
        return run(args).lines().take(lines).collect::<Vec<_>>().join("\n");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Commands in the documents name files relative to the repository's root.
    for name in ["configs", "traces"] {
        std::os::unix::fs::symlink(fs::canonicalize(root.join(name)).expect("a folder"), folder.path().join(name))
            .expect("a link");
    }
    let mut shown = String::new();
    for args in args.split(" && ") {
        let output = Command::new(env!("CARGO_BIN_EXE_pktgen"))
            .current_dir(folder.path())
            .args(args.split_whitespace())
            .output()
            .expect("the binary runs");
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        shown = String::from_utf8(output.stdout).expect("UTF-8").trim_end().to_owned();
    }
    shown
}

/// Returns the document with every block replaced by the output of its command, and the number of blocks.
fn rewrite(text: &str) -> (String, usize) {
    let (mut out, mut rest, mut blocks) = (String::new(), text, 0);
    while let Some(start) = rest.find("<!-- output: ") {
        let args_end = start + rest[start..].find(" -->").expect("the end of the mark");
        let args = &rest[start + "<!-- output: ".len()..args_end];
        let open =
            args_end + rest[args_end..].find("```text\n").expect("a text block after the mark") + "```text\n".len();
        let close = open + rest[open..].find("```").expect("the end of the block");
        out.push_str(&rest[..open]);
        out.push_str(&run(args));
        out.push('\n');
        rest = &rest[close..];
        blocks += 1;
    }
    out.push_str(rest);
    (out, blocks)
}

#[test]
fn shown_outputs_are_what_the_commands_print() {
    let mut blocks = 0;
    for document in DOCUMENTS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(document);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{document}: {e}"));
        let (fresh, found) = rewrite(&text);
        blocks += found;
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, fresh).expect("writable");
        } else {
            assert!(text == fresh, "{document} shows an old output; run with UPDATE_DOCS=1 and review the difference");
        }
    }
    assert!(blocks >= 2, "there are outputs to check");
}

#[test]
fn the_page_of_commands_has_an_example_of_every_command() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/commands.md");
    let page = fs::read_to_string(page).expect("the document");
    let help = run("--help");
    let (_, commands) = help.split_once("Commands:\n").expect("a list of commands");
    let commands = commands.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    // `completions` is hidden.
    let names: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).chain(["completions"]).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        assert!(page.contains(&format!("\npktgen {name} ")) || page.contains(&format!("; pktgen {name} ")), "{name}");
    }
}

#[test]
fn the_settings_page_is_what_list_prints() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
    let fresh = format!("{}\n", run("list --keys --markdown"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, &fresh).expect("writable");
    }
    let shown = fs::read_to_string(&page).expect("docs/settings.md");
    assert!(shown == fresh, "docs/settings.md is old; run with UPDATE_DOCS=1 and review the difference");
    let unsaid: Vec<_> = fresh.lines().filter(|line| line.ends_with("|  |") || line.contains("| a value |")).collect();
    assert!(unsaid.is_empty(), "keys without a meaning or a range: {unsaid:?}");
}

/// Returns the keys of the sections of an experiment's text, as written at the beginning of lines.
fn written_keys(text: &str) -> Vec<(&str, &str)> {
    let (mut section, mut keys) = ("", Vec::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.strip_suffix(']').unwrap_or_default();
        } else if let Some((key, _)) = line.split_once(" = ")
            && key.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
        {
            keys.push((section, key));
        }
    }
    keys
}

/// Every section, and every key of the shipped experiments, is on the page of settings. Keys of `[verify]` have their own page.
#[test]
fn the_settings_page_has_all_sections_and_written_keys() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/settings.md")).expect("docs/settings.md");
    let has = |section: &str, key: &str| {
        let rest = page.split_once(&format!("\n## [{section}]\n")).map_or("", |(_, rest)| rest);
        rest.split("\n## [").next().is_some_and(|own| own.contains(&format!("\n| `{key}` |")))
    };
    let on_page = |section: &str| section != "verify";
    for name in pktgen_core::config::SECTIONS.iter().filter(|name| on_page(name)) {
        assert!(has("top level", name) || page.contains(&format!("\n## [{name}]\n")), "{name}");
    }
    let unshipped = "[workload]\nmoves = []\n[schedule]\nstop = \"1s\"\npps = 1\nspeed = 2\n[format]\nudp_checksum = true\nlanes_window = 1\n\
                     [target]\nprofile = \"x\"\n[capture]\nuntil = \"1s\"\ngoal = 1\n[calibrate]\ntargets = []\n";
    let mut texts = vec![unshipped.to_owned()];
    let mut folders = vec![root.join("configs")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "toml") {
                texts.push(fs::read_to_string(&path).expect("UTF-8"));
            }
        }
    }
    for (section, key) in texts.iter().flat_map(|text| written_keys(text)) {
        let is_experiment = pktgen_core::config::SECTIONS.contains(&section) && on_page(section);
        assert!(!is_experiment || has(section, key), "docs/settings.md: [{section}] has no {key}");
    }
}

/// Returns the names in a page's tables of counters that are maxima.
fn counters_listed(page: &str) -> Vec<String> {
    let tables = page.split("\n| counter | of |\n| --- | --- |\n").skip(1);
    let rows = tables.flat_map(|table| table.lines().take_while(|line| line.starts_with('|')));
    let cells = rows.filter_map(|row| row.split('|').nth(1)).flat_map(|cell| cell.split('`').skip(1).step_by(2));
    cells.map(str::to_owned).collect()
}

/// Counters that are not sums are listed in docs/records.md or on the page of a system.
#[test]
fn counters_with_another_rule_than_sums_are_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pages = fs::read_dir(root.join("docs")).expect("docs").map(|page| page.expect("an entry").path());
    let pages = pages.filter(|page| page.extension().is_some_and(|end| end == "md"));
    let listed: BTreeSet<String> =
        pages.flat_map(|page| counters_listed(&fs::read_to_string(page).expect("a page"))).collect();
    let mut declared = BTreeSet::new();
    let mut folders = vec![root.join("replay/engine/src"), root.join("replay/realtime/src"), root.join("systems")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).expect("a source file");
                let names = text.split("Counter::largest(\"").skip(1).filter_map(|rest| rest.split('"').next());
                declared.extend(names.map(str::to_owned));
            }
        }
    }
    assert!(declared.len() > 5, "there are such counters: {declared:?}");
    assert_eq!(declared, listed, "declared in replay and systems; listed in docs/records.md or the page of a system");
}

/// Pages whose paths must exist. In a table under `file in FOLDER` they are relative to that folder, otherwise to the root.
const MAPS: &[&str] = &["ARCHITECTURE.md", "docs/glossary.md"];

/// Returns the code spans of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns whether this code span is a path, not a command, a key or a name.
fn is_path(span: &str) -> bool {
    let file = [".rs", ".md", ".py", ".json", ".toml"].iter().any(|ending| span.ends_with(ending));
    !span.contains(' ') && (span.contains('/') || file)
}

#[test]
fn paths_that_maps_of_the_code_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut missing, mut count) = (Vec::new(), 0);
    for page in MAPS {
        let text = fs::read_to_string(root.join(page)).unwrap_or_else(|e| panic!("{page}: {e}"));
        let mut folder = root.clone();
        for line in text.lines() {
            if let Some(named) = line.strip_prefix("| file in `").and_then(|rest| rest.split('`').next()) {
                folder = root.join(named);
            } else if !line.starts_with('|') {
                folder.clone_from(&root);
            }
            for span in spans(line).filter(|span| is_path(span)) {
                count += 1;
                let span = span.trim_end_matches("/*");
                if !folder.join(span).exists() && !root.join(span).exists() {
                    missing.push(format!("{page}: {span}"));
                }
            }
        }
    }
    assert!(count > 200, "there are paths to check: {count}");
    assert!(missing.is_empty(), "no such file or folder: {missing:#?}");
}

/// Functions and types named in a step of a walk are in the files of that step.
#[test]
fn names_in_walks_are_in_their_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the document");
    let (mut missing, mut count) = (Vec::new(), 0);
    for line in text.lines() {
        let is_step = line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        let Some((files, about)) = line.split_once("`: ").filter(|_| is_step) else { continue };
        let files: Vec<&str> = files.split('`').skip(1).step_by(2).collect();
        let read = |file: &&str| fs::read_to_string(root.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let code: String = files.iter().map(read).collect();
        let words: BTreeSet<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for span in spans(about) {
            let name = span.rsplit("::").next().unwrap_or(span);
            if name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                count += 1;
                if !words.contains(name) {
                    missing.push(format!("{span}: {}", files.join(" ")));
                }
            }
        }
    }
    assert!(count > 100, "there are names to check: {count}");
    assert!(missing.is_empty(), "in none of the files: {missing:#?}");
}
