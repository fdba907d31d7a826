//! Foreign files: the examples of every importer, damaged, read as their own and as other types. After an error no output is left.

use std::path::{Path, PathBuf};

use pktgen_workload::trace::{self, IMPORTERS, ImportOptions};

use super::Samples;
use super::mutate::Random;
use crate::support::example_groups;

pub fn prepare(folder: &Path) -> Samples {
    let groups = example_groups();
    let names: Vec<String> = (0..groups.len()).map(|n| n.to_string()).collect();
    for (name, group) in names.iter().zip(groups) {
        std::fs::create_dir_all(folder.join(name)).expect("writable");
        for file in group {
            let own = folder.join(name).join(file.file_name().expect("a name"));
            std::fs::copy(file, own).expect("an example");
        }
    }
    Samples::of(folder, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn attempt(samples: &Samples, random: &mut Random) {
    let which = random.below(samples.groups.len());
    let path = samples.change(which, random);
    let group: Vec<PathBuf> = samples.groups[which].iter().map(|(path, _)| path.clone()).collect();
    let one = vec![path];
    let flags = [
        ImportOptions::default(),
        ImportOptions { split: Some(9036), by_group: random.below(2) == 0, ..Default::default() },
    ];
    for options in &flags {
        convert(samples, &group, None, options);
    }
    for importer in IMPORTERS {
        let options = &flags[usize::from(importer.flags().contains(&"--split"))];
        convert(samples, &one, Some(importer.name()), options);
    }
    samples.restore(which);
}

fn convert(samples: &Samples, inputs: &[PathBuf], format: Option<&str>, options: &ImportOptions) {
    let out = samples.folder.join("out.parquet");
    let partial = samples.folder.join("out.parquet.pktgen.partial");
    let _ = std::fs::remove_file(&out);
    let done = trace::convert(inputs, &out, format, options, "none").is_ok();
    assert_eq!((out.exists(), partial.exists()), (done, false), "{inputs:?} as {format:?}");
}
