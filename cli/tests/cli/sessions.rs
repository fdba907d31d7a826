//! Commands in the documents behave as the documents show.
//!
//! In blocks of `console`, what follows `$ ` are commands of one shell, and the lines below them what they print on stdout and
//! stderr. A block after `<!-- file: NAME -->` is a file that the reader saves. `UPDATE_DOCS=1 cargo test --release --workspace
//! --test cli sessions::` writes what they print anew.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::root;
use pktgen_testing::{Need, skip, undisturbed};

/// Marks the end of a command's output: no command prints it.
const END: char = '\u{1e}';

/// The shell of a session, which may depend on a need.
struct Shell {
    /// Command prefix of `bash`.
    before: &'static [&'static str],
    /// Commands that it runs first.
    prelude: &'static str,
}

const PLAIN: Shell = Shell { before: &[], prelude: "" };
/// Root of namespaces of its own, in which `ip netns` sees and leaves nothing of the host's; all that it started ends with it.
const ROOT: Shell = Shell {
    before: &["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"],
    prelude: "mount --make-rprivate / && mount -t tmpfs tmpfs /run || exit 1\n",
};

impl Shell {
    /// Runs a script in a folder; returns its output.
    fn run(&self, folder: &Path, script: &str) -> String {
        let binary = Path::new(env!("CARGO_BIN_EXE_pktgen")).parent().expect("its folder").display();
        let path = format!("{binary}:{}", std::env::var("PATH").unwrap_or_default());
        let words = [self.before, &["bash", "-c"]].concat();
        let output = Command::new(words[0])
            .args(&words[1..])
            .arg(format!("{}exec 2>&1\n{script}", self.prelude))
            .current_dir(folder)
            .env("PATH", path)
            .env("LC_ALL", "C.UTF-8")
            // Tests may run as root, on few cores.
            .envs(
                ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"]
                    .map(|k| (k, "1")),
            )
            .output()
            .expect("bash runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs commands one after the other; returns the output of each. The exit code of one is `$?` of the next.
    fn answers(&self, folder: &Path, commands: &[&str]) -> Vec<String> {
        let ends = format!("\nended=$?; printf '{END}'; (exit $ended)\n");
        let script: String = commands.iter().map(|command| format!("{command}{ends}")).collect();
        let said = self.run(folder, &script);
        let mut answers: Vec<_> = said.split(END).map(str::to_owned).collect();
        assert_eq!(answers.pop().as_deref(), Some(""), "all commands ended: {said}");
        assert_eq!(answers.len(), commands.len(), "each command prints one answer: {said}");
        answers
    }
}

/// Returns a folder with the files that commands name relative to the repository's root.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["configs", "scripts", "traces"] {
        let there = fs::canonicalize(root().join(name)).expect("a folder of the repository");
        std::os::unix::fs::symlink(there, folder.path().join(name)).expect("a link");
    }
    folder
}

/// Saves the files that the page instructs its reader to save.
fn save_files(text: &str, folder: &Path) {
    for part in text.split("<!-- file: ").skip(1) {
        let (name, rest) = part.split_once(" -->").expect("the end of the mark");
        let block = rest.split("```").nth(1).expect("a block after the mark");
        let (_, content) = block.split_once('\n').expect("the language of the block");
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for the file");
        fs::write(path, content).expect("writable");
    }
}

/// Returns the page with the current output of its commands, and the number of commands.
fn rewrite(text: &str, shell: &Shell, folder: &Path) -> (String, usize) {
    let (mut kept, mut commands, mut inside) = (Vec::new(), Vec::new(), false);
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        }
        let command = line.strip_prefix("$ ").filter(|_| inside);
        commands.extend(command);
        if command.is_some() || !inside || line.starts_with("```") {
            kept.push((line, command.is_some()));
        }
    }
    save_files(text, folder);
    let mut answers = shell.answers(folder, &commands).into_iter();
    let mut fresh = String::new();
    for (line, is_command) in kept {
        fresh += &format!("{line}\n");
        if is_command {
            let answer = answers.next().expect("an answer to each command");
            fresh += &answer;
            if !answer.is_empty() && !answer.ends_with('\n') {
                fresh.push('\n');
            }
        }
    }
    (fresh, commands.len())
}

/// Removes differences between runs in real time: numbers, their units, the widths of columns.
fn words(text: &str) -> String {
    let is_unit = |word: &str| {
        let word = word.trim_matches(['[', ']', ',', ';']);
        ["ns", "µs", "ms", "s", "/s", "k/s", "M/s", "kbit/s", "Mbit/s", "Gbit/s"].contains(&word)
    };
    let word = |word: &str| if word.contains(|c: char| c.is_ascii_digit()) { "#".to_owned() } else { word.to_owned() };
    let line = |line: &str| {
        let kept = line.split_whitespace().filter(|word| !is_unit(word)).map(word);
        kept.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Compares a page with the actual output, or rewrites it.
fn check(page: &str, shell: &Shell, mut alike: impl FnMut(&str, &str) -> bool) {
    let path = root().join(page);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{page}: {e}"));
    let folder = folder();
    let (fresh, commands) = rewrite(&text, shell, folder.path());
    assert!(commands >= 5, "{page}: there are commands to check");
    if alike(&text, &fresh) {
        return;
    }
    assert!(
        std::env::var_os("UPDATE_DOCS").is_some(),
        "{page} shows an old output; run with UPDATE_DOCS=1 and review the difference:\n{fresh}"
    );
    fs::write(path, fresh).expect("writable");
}

#[test]
fn sharding_goes_as_shown() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        return skip(Need::Mpirun, "docs/sharding.md", "mpirun does not run");
    }
    check("docs/sharding.md", &PLAIN, |old, new| old == new);
}

#[test]
fn comparing_goes_as_shown() {
    check("docs/tutorials/compare.md", &PLAIN, |old, new| old == new);
}

#[test]
fn captures_go_as_shown() {
    if pktgen_testing::installed(Need::Tcpdump, "docs/tutorials/captures.md") {
        check("docs/tutorials/captures.md", &PLAIN, |old, new| old == new);
    }
}

/// In real time numbers differ; words, including verdicts, do not.
#[test]
fn a_device_goes_as_shown() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = "docs/tutorials/device.md";
    let said = Command::new(ROOT.before[0])
        .args(&ROOT.before[1..])
        .args(["bash", "-c", &format!("{}ip netns add host", ROOT.prelude)])
        .current_dir(folder.path())
        .output();
    match said {
        Err(why) => skip(Need::Netns, page, why),
        Ok(said) if !said.status.success() => skip(Need::Netns, page, String::from_utf8_lossy(&said.stderr)),
        Ok(_) => {
            _ = undisturbed(&format!("the verdict of {page}"), |_| {
                let mut told = None;
                check(page, &ROOT, |old, new| {
                    told = (!undecided(old, new)).then_some(());
                    told.is_none() || words(old) == words(new)
                });
                told
            })
        }
    }
}

/// Whether the pages differ only in that five seeds of a disturbed machine decide nothing.
fn undecided(old: &str, new: &str) -> bool {
    let judged = |line: &&str| line.contains(" against forwards: ") || line.starts_with("lanes AoM mean, cluster ");
    let rest = |text: &str| words(&text.lines().filter(|line| !judged(line)).collect::<Vec<_>>().join("\n"));
    new.contains(" against forwards: CANNOT TELL;") && rest(old) == rest(new)
}

#[test]
fn words_differ_where_verdicts_do() {
    let said = "A against B: BETTER; 1 better. AoM −38.6 % [−43.1, −33.7]\nAoM  all  3.502 ms  900 µs";
    let again = "A against B: BETTER; 2 better. AoM −9 % [−12, −3]\nAoM     all  3.5 ms  1.1 ms";
    assert_eq!(words(said), words(again));
    assert_ne!(words(said), words(&said.replace("BETTER", "WORSE")));
}

/// Commands in blocks of `sh` exit with 0, in one folder that has the files that they name.
#[test]
fn commands_of_the_front_page_run() {
    let text = fs::read_to_string(root().join("README.md")).expect("the page");
    let blocks = text.split("```sh\n").skip(1).map(|part| part.split("```").next().expect("the end of a block"));
    let commands: Vec<&str> = blocks.flat_map(str::lines).filter(|line| !line.trim().is_empty()).collect();
    assert!(commands.len() >= 10, "there are commands to run: {commands:?}");
    let folder = folder();
    // Captures as a reader has them: of a run on wires, at the server and where workers send.
    let wires = "pktgen -q replay configs/olaf/table1-wires.toml --set transport.kind=virtual --set sweep.seeds=1 \
                 --set capture.pcap=true --no-report --out wires";
    let copies = "cp wires/Olaf,rate=20Mbps,seed=1/capture.pcapng server.pcapng; \
                  cp wires/Olaf,rate=20Mbps,seed=1/sent.pcapng workers.pcapng";
    PLAIN.run(folder.path(), &format!("{wires}; {copies}"));
    let (made, run): (Vec<&str>, Vec<&str>) = commands.iter().partition(|command| command.starts_with("make "));
    let others: Vec<_> = run.iter().map(|command| format!("({command}\n); echo exit $?")).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    for (command, said) in others.iter().zip(PLAIN.answers(folder.path(), &others)) {
        assert!(said.ends_with("exit 0\n"), "{command}: {said}");
    }
    // Other tests run what make builds.
    for command in made {
        let target = command.split_whitespace().nth(1).expect("a target");
        let known = Command::new("make").args(["-n", target]).current_dir(root()).output().expect("make runs");
        assert!(known.status.success(), "{command}: {}", String::from_utf8_lossy(&known.stderr));
    }
}

/// The highest rate is searched of one run, which the page must name.
#[test]
fn the_search_on_the_page_of_commands_runs() {
    let page = fs::read_to_string(root().join("docs/commands.md")).expect("the page");
    let of_search = |line: &&str| line.starts_with("pktgen replay configs/") && line.contains(" --find-rate");
    let line = page.lines().find(of_search).expect("a search of a shipped experiment");
    let (command, _) = line.split_once(" #").expect("its comment");
    let short = format!("{command} --from 2000 --to 2000 --trial 500ms --trials 1; echo exit $?");
    let said = PLAIN.run(folder().path(), &short);
    assert!(said.ends_with("exit 0\n") || said.ends_with("exit 1\n"), "{command}: {said}");
}

/// A command on the page of commands that names a shipped experiment is complete, and its experiment opens.
#[test]
fn commands_with_shipped_experiments_open_them() {
    let page = fs::read_to_string(root().join("docs/commands.md")).expect("the page");
    let named = page.lines().filter(|line| line.starts_with("pktgen ") && line.contains(" configs/"));
    let commands: Vec<&str> = named.map(|line| line.split(" #").next().expect("a command").trim_end()).collect();
    assert!(commands.len() >= 10, "there are commands to check: {commands:?}");
    for command in &commands {
        let is_placeholder = |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
        assert!(!command.split_whitespace().any(is_placeholder), "{command}: a value of its own experiment");
    }
    // A trace that an earlier command makes is not there.
    let opens = |command: &&&str| command.starts_with("pktgen replay ") && !command.contains("workload.trace=");
    let prints = |command: &&str| {
        let shown = command.replace(" --print-config", "");
        format!("({shown} --print-config); echo exit $?")
    };
    let printed: Vec<String> = commands.iter().filter(opens).map(prints).collect();
    let printed: Vec<&str> = printed.iter().map(String::as_str).collect();
    for (command, said) in printed.iter().zip(PLAIN.answers(folder().path(), &printed)) {
        assert!(said.ends_with("exit 0\n"), "{command}: {said}");
    }
}
