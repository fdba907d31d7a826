//! `pktgen report NEW --baseline OLD`, and `pktgen report A B C`: compares implementations.

use std::path::{Path, PathBuf};

use pktgen_compare::history::Runs;
use pktgen_compare::{Comparison, Rules, Side, extensions};
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_records::Options;

use crate::args::Report;
use crate::commands::report::{analysed, check_files, one_line, remember};
use crate::ui::Ui;

/// Returns the rules given by flags, or the built-in ones.
pub(super) fn rules(args: &Report) -> Result<Rules> {
    args.rules.as_deref().map_or_else(|| Ok(Rules::built_in()), Rules::load)
}

/// Compares runs. Returns the exit code: 1 if a run is invalid or the verdict is worse, with `--strict` also if it is "cannot tell".
pub(super) fn run(args: &Report, options: Options, ui: &Ui) -> Result<u8> {
    let rules = rules(args)?;
    args.out.iter().try_for_each(|path| extension(path).map(drop))?;
    // The baseline comes first; it may be among the others, too.
    let mut dirs: Vec<&PathBuf> = args.baseline.iter().collect();
    let others = args.runs.iter().filter(|run| args.baseline.as_ref().is_none_or(|baseline| !same(baseline, run)));
    dirs.extend(others);
    for (i, dir) in dirs.iter().enumerate() {
        if dirs[..i].iter().any(|other| same(other, dir)) {
            return Err(Error::config(format!("{} is given twice", dir.display())));
        }
    }
    let home = dirs.last().map_or(Path::new("."), |dir| dir.as_path());
    // A ranking without a baseline does not replace a comparison with one.
    let name = if args.baseline.is_some() { "compare" } else { "rank" };
    let beside = || extensions().map(|extension| home.join(format!("{name}.{extension}"))).collect();
    let files: Vec<PathBuf> = if args.out.is_empty() { beside() } else { args.out.clone() };
    check_files(&files, args)?;
    let names = names(&dirs);
    let mut sides = Vec::new();
    for (dir, name) in dirs.iter().zip(names) {
        let history = args.history.as_ref().filter(|_| args.runs.iter().any(|run| same(run, dir)));
        let runs = history.map(|_| Runs::of(dir, options.no_verify)).transpose()?;
        let sweep = analysed(dir, options, ui)?;
        if let Some((file, runs)) = history.zip(runs) {
            remember((dir, runs), &sweep, file, ui)?;
        }
        sides.push(Side { name, sweep });
    }
    let comparison = Comparison::of(&sides, args.baseline.as_ref().map(|_| 0), &rules)?;
    for path in &files {
        let text = extension(path).map(|extension| comparison.render(&extension))?;
        let text = text.ok_or_else(|| unknown(path))??;
        write_whole(path, text)?;
    }
    match comparison.render("json") {
        Some(json) if ui.json() => ui.result(&one_line(&json?)),
        _ => {
            let see = files.first().map_or(String::new(), |path| path.display().to_string());
            ui.result(comparison.summary(&see).trim_end());
        }
    }
    comparison.implementations.iter().for_each(|one| ui.note(&format!("{}: {}", one.name, one.made.line())));
    files.iter().for_each(|path| ui.note(&format!("comparison: {}", path.display())));
    Ok(u8::from(comparison.fails(args.strict)))
}

/// Whether two paths denote the same folder.
fn same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Returns names of folders: their last parts if these differ, otherwise the whole paths.
fn names(dirs: &[&PathBuf]) -> Vec<String> {
    let last = |dir: &PathBuf| dir.file_name().map(|name| name.to_string_lossy().into_owned());
    let short: Vec<Option<String>> = dirs.iter().map(|dir| last(dir)).collect();
    let unique = |i: usize| short[i].is_some() && short.iter().filter(|name| **name == short[i]).count() == 1;
    let all = (0..dirs.len()).all(unique);
    let name = |(dir, short): (&&PathBuf, Option<String>)| match short {
        Some(short) if all => short,
        _ => dir.display().to_string(),
    };
    dirs.iter().zip(short.clone()).map(name).collect()
}

/// Returns the extension of the path, which selects the format.
fn extension(path: &Path) -> Result<String> {
    let asked = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    if extensions().any(|known| known == asked) { Ok(asked) } else { Err(unknown(path)) }
}

fn unknown(path: &Path) -> Error {
    let known: Vec<String> = extensions().map(|extension| format!(".{extension}")).collect();
    Error::config(format!("--out {}: the extension is not one of {}", path.display(), known.join(", ")))
}
