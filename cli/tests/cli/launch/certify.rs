//! Certificates of devices that the experiment starts.

use super::*;

#[test]
fn a_launched_switch_is_certified_and_started_anew_for_each_clause() {
    let Some(bench) = prepare("launchcertify", "switchml", "command = [\"true\"]") else { return };
    let switch = "DEVICE --in e0 --protocol switchml --first 10.40.0.1 --workers 4 --group 239.40.0.0";
    let certify = |script: &str, name: &str, words: &[&str]| {
        bench.write("switchml", &format!("{}\nready = \"round\"\n", bench.sh_at(&["e0"], script)));
        let out = bench.folder.path().join(name).display().to_string();
        let words = [&["certify", "EXPERIMENT", "--json", "--out", &out], words].concat();
        bench.command(&words, &["target.check=false"]).output().expect("it runs")
    };
    let clauses = ["--clause", "switchml-sum", "--clause", "switchml-truncated", "--clause", "switchml-reuse"];
    let refused = certify(&format!("exec {switch}"), "refused", &clauses);
    assert!(refused.status.code() == Some(2) && said(&refused).contains("--allow-launch"), "{}", said(&refused));
    let allowed = [&clauses[..], &["--allow-launch"]].concat();
    let output = certify(&format!("exec {switch}"), "whole", &allowed);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(bench.left(), Vec::<String>::new());
    // One that ends by itself fails the clause under way; the next repeat finds another.
    let words = ["--clause", "switchml-sum", "--repeats", "150", "--allow-launch"];
    let dies = certify(&format!("{switch} & sleep 1.5; kill $!; exit 4"), "dies", &words);
    assert_eq!(dies.status.code(), Some(1), "{}", said(&dies));
    let lines = String::from_utf8_lossy(&dies.stdout).into_owned();
    assert!(lines.contains("the device: expected runs on, observed"), "{lines}{}", said(&dies));
    assert_eq!(bench.left(), Vec::<String>::new());
}
