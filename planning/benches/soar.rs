//! SOAR over the size of the tree, its height and k (SOAR §5.3, Figure 8).

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pktgen_core::seed::Seed;
use pktgen_core::tree::make::{Rates, binary};
use pktgen_core::tree::{Switch, Tree};
use pktgen_planning::soar::gather::{MEMORY, solve};
use pktgen_planning::soar::loads::Loads;

fn loaded(tree: &Tree) -> Tree {
    tree.with_load(Loads::PowerLaw.draw(tree, Seed(1), 0).expect("loads"))
}

/// A spine of `height` switches, each with as many leaves as make `n` in all.
fn spine(n: usize, height: usize) -> Tree {
    let leaves = n / height - 1;
    let mut switches = Vec::new();
    for level in 0..height {
        let id = (level * (leaves + 1)) as u64;
        let parent = (level > 0).then(|| id - (leaves as u64 + 1));
        switches.push(Switch { id, parent, rate: 1.0, load: 0, available: true });
        let leaf = |i: u64| Switch { id: id + 1 + i, parent: Some(id), rate: 1.0, load: 0, available: true };
        switches.extend((0..leaves as u64).map(leaf));
    }
    loaded(&Tree::new(&switches).expect("a tree"))
}

fn soar(c: &mut Criterion) {
    let mut group = c.benchmark_group("soar");
    group.sample_size(10);
    for n in [256u32, 512, 1024, 2048] {
        let tree = loaded(&binary(n, Rates::Constant).expect("a power of two"));
        for k in [4usize, 16, 64, 128] {
            group.bench_with_input(BenchmarkId::new(format!("n={n}"), format!("k={k}")), &tree, |b, tree| {
                b.iter(|| black_box(solve(tree, k, MEMORY).expect("small")));
            });
        }
    }
    for height in [8, 32, 128] {
        let tree = spine(2048, height);
        group.bench_with_input(BenchmarkId::new("height", height), &tree, |b, tree| {
            b.iter(|| black_box(solve(tree, 128, MEMORY).expect("small")));
        });
    }
    let tree = loaded(&binary(1 << 17, Rates::Constant).expect("a power of two"));
    group.bench_function("n=131072/k=128", |b| b.iter(|| black_box(solve(&tree, 128, MEMORY).expect("fits"))));
    group.finish();
}

criterion_group!(benches, soar);
criterion_main!(benches);
