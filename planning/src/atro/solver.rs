//! Runs a solver of integer programs: CBC by default, or HiGHS, distinguished by the command's name.

use std::path::Path;
use std::process::{Command, Stdio};

use pktgen_core::{Error, Result};

/// The default command, in Debian's package coinor-cbc.
pub const DEFAULT: &str = "cbc";

/// The answer of a solver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MilpReply {
    /// Proved optimal, with the value of the objective.
    Optimal(f64),
    /// Proved to have no solution.
    Infeasible,
    /// Time limit reached.
    Unknown,
}

/// A link with flows from a switch, to another switch or to the server (`None`).
pub(super) type SwitchLink = (usize, Option<usize>);

/// Solves the program in `file` within `seconds`; leaves the answer in a file beside it.
pub fn solve(command: &str, file: &Path, seconds: u32) -> Result<MilpReply> {
    run(command, file, seconds).map(|(reply, _)| reply)
}

/// Does the same and returns the links that carry flows.
pub(super) fn solve_flows(command: &str, file: &Path, seconds: u32) -> Result<(MilpReply, Vec<SwitchLink>)> {
    run(command, file, seconds).map(|(reply, text)| (reply, flows(&text)))
}

fn run(command: &str, file: &Path, seconds: u32) -> Result<(MilpReply, String)> {
    let answer = file.with_extension("answer");
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or(DEFAULT);
    let mut process = Command::new(program);
    process.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if program.contains("highs") {
        process.arg("--time_limit").arg(seconds.to_string()).arg("--solution_file").arg(&answer).arg(file);
    } else {
        process.arg(file).arg("-seconds").arg(seconds.to_string()).args(["-solve", "-solution"]).arg(&answer);
    }
    let status = process.status().map_err(|error| {
        Error::Host(format!(
            "cannot run the solver \"{program}\": {error}; install CBC with `apt-get install coinor-cbc`, or name another"
        ))
    })?;
    let text = std::fs::read_to_string(&answer).map_err(|error| {
        Error::Host(format!(
            "the solver \"{program}\" ended with {status} and wrote no answer ({error}); name CBC or HiGHS (--solver), or \
             leave the solver out"
        ))
    })?;
    let reply = read(&text).ok_or_else(|| {
        let shown: String = text.chars().take(200).collect();
        Error::Host(format!(
            "the solver \"{program}\" ended with {status} and an answer that is not understood: {shown}"
        ))
    })?;
    Ok((reply, text))
}

/// Returns the nonzero variables y (flows between switches) and t (flows to the server) of an answer: a name, then a value.
fn flows(text: &str) -> Vec<SwitchLink> {
    let link = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| !word.starts_with("y_") && !word.starts_with("t_"));
        let (name, value) = (words.next()?, words.next()?.parse::<f64>().ok()?);
        let mut numbers = name.split('_').skip(1).map(|number| number.parse::<usize>().ok());
        let from = numbers.next()??;
        let to = if name.starts_with("y_") { Some(numbers.next()??) } else { None };
        (value > 0.5).then_some((from, to))
    };
    text.lines().filter_map(link).collect()
}

/// Parses the first lines of the answer of CBC or HiGHS.
fn read(text: &str) -> Option<MilpReply> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    let verdict = if first == "Model status" { lines.next()? } else { first };
    if verdict.starts_with("Infeasible") || verdict.starts_with("Integer infeasible") {
        return Some(MilpReply::Infeasible);
    }
    if verdict.starts_with("Stopped") || verdict.starts_with("Time limit") {
        return Some(MilpReply::Unknown);
    }
    let value = |line: &str| line.rsplit(' ').next().and_then(|word| word.parse().ok());
    match verdict.strip_prefix("Optimal") {
        // CBC maximises by minimising the negative, and reports that value.
        Some(rest) if rest.contains("objective value") => value(rest).map(|value: f64| MilpReply::Optimal(value.abs())),
        Some(_) => lines.find(|line| line.starts_with("Objective")).and_then(value).map(MilpReply::Optimal),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        assert_eq!(read("Optimal - objective value -42.00000000\n 0 w_0"), Some(MilpReply::Optimal(42.0)));
        assert_eq!(read("Infeasible - objective value 0.0"), Some(MilpReply::Infeasible));
        assert_eq!(read("Stopped on time - objective value 3"), Some(MilpReply::Unknown));
        let highs = "Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective 17\n";
        assert_eq!(read(highs), Some(MilpReply::Optimal(17.0)));
        assert_eq!(read("nonsense"), None);
        let cbc = "Optimal - objective value 4\n  0 w_0  4  0\n  3 y_0_1  2  0\n  4 y_1_0  1e-9  0\n  9 t_1  3  0\n";
        assert_eq!(flows(cbc), [(0, Some(1)), (1, None)]);
        assert_eq!(flows("# Columns 2\ny_12_3 1\nt_3 0\n"), [(12, Some(3))]);
    }

    #[test]
    fn a_solver_without_an_answer_is_named_with_its_exit_code() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("atro.lp");
        std::fs::write(&file, "").unwrap();
        let error = solve("false", &file, 1).unwrap_err();
        let parts = ["\"false\" ended with exit status: 1", "wrote no answer", "name CBC or HiGHS", "--solver"];
        assert!(error.exit_code() == 3 && parts.iter().all(|part| error.to_string().contains(part)), "{error}");
    }

    #[test]
    fn a_missing_solver_is_named_with_the_remedy() {
        let error = solve("no-such-solver", Path::new("/nowhere.lp"), 1).unwrap_err();
        assert!(error.exit_code() == 3 && error.to_string().contains("coinor-cbc"), "{error}");
    }
}
