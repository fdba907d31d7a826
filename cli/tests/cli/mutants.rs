//! `devices/mutate`: the same seed generates the same wrong devices, each has one change, and all of them compile.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use crate::support::{root, text};
use pktgen_testing::{Need, skip};

/// Returns the output of a draw: the lines of its list, and its sources by name.
fn drawn(seed: &str, count: usize) -> Option<(Vec<Vec<String>>, Vec<String>)> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("mutants");
    let mut command = Command::new(root().join("devices/mutate"));
    command.args(["--seed", seed, "--count", &count.to_string(), "--out"]).arg(&out);
    let output = match command.output() {
        Ok(output) => output,
        Err(why) => {
            skip(Need::Python, "mutants", why);
            return None;
        }
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
    let list = read(&out.join("mutants.tsv"));
    let lines: Vec<Vec<String>> =
        list.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    let sources = (1..=count).map(|i| read(&out.join(format!("{i:04}.c")))).collect();
    Some((lines, sources))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn a_seed_draws_the_same_mutants_and_each_is_one_change() {
    const COUNT: usize = 4;
    let Some((lines, sources)) = drawn("one", COUNT) else { return };
    assert_eq!(drawn("one", COUNT), Some((lines.clone(), sources.clone())));
    assert_ne!(drawn("other", COUNT).expect("drawn").1, sources);
    let own = read(&root().join("devices/bench/aggregate.c"));
    let counted: Vec<_> = lines.iter().filter(|line| line[7] == "counts").collect();
    assert_eq!(counted.len(), COUNT);
    for (line, source) in counted.iter().zip(&sources) {
        let row: usize = line[2].parse().expect("a line");
        let (ours, theirs): (Vec<_>, Vec<_>) = (own.lines().collect(), source.lines().collect());
        assert_eq!(ours[..row - 1], theirs[..row - 1], "{line:?}");
        assert_ne!(&own, source, "{line:?}");
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let after = if line[6] == "(nothing)" { "" } else { &line[6] };
        assert!(flat(source).contains(after), "{line:?}");
    }
    assert_eq!(sources.iter().collect::<HashSet<_>>().len(), COUNT);
}

/// Every operator applies somewhere in the source.
#[test]
fn every_operator_of_the_page_is_listed() {
    let output = match Command::new(root().join("devices/mutate")).arg("--list").output() {
        Ok(output) => output,
        Err(why) => return skip(Need::Python, "mutants", why),
    };
    let list = text(&output.stdout);
    let found: HashSet<_> = list.lines().filter_map(|line| line.split('\t').nth(3)).collect();
    let page = read(&root().join("docs/mutants.md"));
    let operators = page.split("| operator |").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a table");
    let named: HashSet<_> = operators
        .lines()
        .skip(2)
        .flat_map(|line| line.split('|').nth(1).into_iter().flat_map(|names| names.split('`').skip(1).step_by(2)))
        .collect();
    assert_eq!(found, named);
    // The whole condition is switched off, not the last of its alternatives.
    let chosen: Vec<_> = list.lines().filter(|line| line.split('\t').nth(3) == Some("choose")).collect();
    assert!(chosen.iter().all(|line| line.ends_with(") && 0") || line.ends_with(") || 1")), "{chosen:?}");
    assert!(chosen.iter().any(|line| line.contains("\t(said < 8 || ")), "{chosen:?}");
}

/// A certificate that had no end: neither found nor missed, whatever the other certificates of the mutant cannot decide.
#[test]
fn a_mutant_whose_certificate_has_no_end_is_not_judged() {
    let script = r#"
import importlib.machinery, importlib.util, pathlib, sys, types
loader = importlib.machinery.SourceFileLoader("certify_mutants", sys.argv[1])
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("certify_mutants", loader))
loader.exec_module(module)
args = types.SimpleNamespace(protocol="switchml", patience="1ms", silence="1ms", repeats=1, pktgen="pktgen", out=pathlib.Path("none"))
module.LONGEST_S = 0.05
end = module.judged(["sh", "-c", "exec sleep 60"], args, "none", [], [])
assert end == ([], [module.NO_END], True), end
made = {"0": ([], [module.NO_END], True), "1": ([], ["a-clause"], True)}
module.certified = lambda network, program, args, out, sets: made[out.name.split("-")[1]]
assert module.verdict_of(None, None, args, "0001") == ("not judged", module.NO_END)
made["1"] = (["a-clause"], [], True)
assert module.verdict_of(None, None, args, "0001") == ("found", "a-clause")
"#;
    let command = root().join("devices/certify-mutants");
    match Command::new("python3").args(["-B", "-c", script]).arg(command).output() {
        Ok(output) => assert!(output.status.success(), "{}", text(&output.stderr)),
        Err(why) => skip(Need::Python, "mutants that are not judged", why),
    }
}
