//! One query by one of three stacks: `stacks FOLDER [HOW]` reads FOLDER/{sent,received}.parquet and prints a line of JSON;
//! `stacks make FOLDER` of stack c writes them.

use std::path::Path;
use std::time::Instant;

#[cfg_attr(feature = "a", path = "a.rs")]
#[cfg_attr(feature = "b", path = "b.rs")]
#[cfg_attr(feature = "c", path = "c.rs")]
mod stack;

use stack::prelude::*;

/// A scan with a filter, a join and a group-by.
fn query(sent: LazyFrame, received: LazyFrame) -> LazyFrame {
    let latency = col("t_recv_ps") - col("t_gen_ps");
    sent.filter(col("bytes").gt_eq(lit(256u32)))
        .join(received, [col("packet")], [col("packet")], JoinArgs::new(JoinType::Inner))
        .group_by([col("cluster")])
        .agg([len().alias("n"), latency.clone().sum().alias("latency"), latency.max().alias("worst")])
        .sort(["cluster"], SortMultipleOptions::default())
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    #[cfg(feature = "c")]
    if words[0] == "make" {
        return stack::make(Path::new(&words[1]));
    }
    let start = Instant::now();
    let found = stack::run(Path::new(&words[0]), words.get(1).map_or("", String::as_str));
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let sums: Vec<_> = ["n", "latency"].map(|name| found.column(name).expect("a column").as_materialized_series().sum::<i64>().expect("a sum")).into();
    println!("{{\"seconds\": {seconds:.3}, \"peak_kb\": {}, \"sums\": {sums:?}}}", peak.trim().trim_end_matches(" kB"));
}
