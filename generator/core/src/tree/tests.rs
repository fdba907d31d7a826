use super::make::{Rates, binary};
use super::*;

fn example() -> Tree {
    binary(8, Rates::Constant).unwrap().with_load(vec![0, 0, 0, 2, 6, 5, 4])
}

fn blue(tree: &Tree, ids: &[u64]) -> Vec<bool> {
    (0..tree.len() as u32).map(|v| ids.contains(&tree.id(v))).collect()
}

#[test]
fn the_example_has_the_papers_costs() {
    let tree = example();
    let phi = |ids: &[u64]| tree.phi(&blue(&tree, ids));
    assert_eq!((phi(&[]), phi(&[0, 1, 2, 3, 4, 5, 6])), (51.0, 7.0));
    // Figures 2a to 2d, 3a, 3c and 3d.
    assert_eq!((phi(&[0, 2]), phi(&[4, 5]), phi(&[1, 2]), phi(&[2, 4])), (27.0, 24.0, 21.0, 20.0));
    assert_eq!(tree.messages(&blue(&tree, &[2, 4])), [4, 3, 1, 2, 1, 5, 4]);
}

#[test]
fn a_plan_sends_what_the_tree_says() {
    let tree = example();
    for set in 0..128u32 {
        let blue: Vec<_> = (0..7).map(|v| set >> v & 1 == 1).collect();
        let plan = tree.plan("test", &blue, Rate::from_bps(1_000_000));
        plan.check().unwrap();
        let up: Vec<_> = plan.messages().iter().map(|[up, down]| (*up, *down)).collect();
        let expected: Vec<_> = tree.messages(&blue).into_iter().map(|n| (n, 0)).collect();
        assert_eq!(up[..7], expected, "{set:b}");
        assert_eq!(plan.utilisation(), tree.phi(&blue));
    }
}

#[test]
fn a_blue_switch_without_input_sends_nothing() {
    let tree = example().with_load(vec![0, 3, 0, 0, 0, 0, 0]);
    let all = vec![true; 7];
    assert_eq!(tree.messages(&all), [1, 1, 0, 0, 0, 0, 0]);
    tree.plan("test", &all, Rate::from_bps(1000)).check().unwrap();
}

#[test]
fn rates_are_those_of_the_paper() {
    let rates = |rates| {
        let tree = binary(8, rates).unwrap();
        [6, 2, 0].map(|v| 1.0 / tree.rho(v))
    };
    assert_eq!(rates(Rates::Constant), [1.0, 1.0, 1.0]);
    assert_eq!(rates(Rates::Linear), [1.0, 2.0, 3.0]);
    assert_eq!(rates(Rates::Exponential), [1.0, 2.0, 4.0]);
    assert!(binary(7, Rates::Constant).is_none() && binary(1, Rates::Constant).is_none());
}

#[test]
fn files_are_read_back() {
    let tree = binary(16, Rates::Linear).unwrap();
    let tree = tree.with_load((0..15).map(|load| load * load).collect());
    assert_eq!(file::parse(&file::to_json(&tree), "t").unwrap(), tree);
    // 1 / (1 / 49) is another number.
    let text = r#"{"nodes":[{"id":0,"parent":null,"rate":49.0,"load":0,"available":true}]}"#;
    assert_eq!(file::to_json(&file::parse(text, "t").unwrap()), text);
}

#[test]
fn rates_that_a_plan_cannot_have_are_refused() {
    let unit = Rate::from_bps(1_000_000_000);
    let of =
        |rate: f64| file::parse(&format!("{{\"nodes\":[{{\"id\":7,\"parent\":null,\"rate\":{rate}}}]}}"), "t").unwrap();
    for (rate, bps) in [(1e-9, 1), (1.8e10, 18_000_000_000_000_000_000), (49.0, 49_000_000_000)] {
        assert_eq!(of(rate).check_plan(unit), Ok(()));
        assert_eq!(of(rate).plan("test", &[true], unit).links[0].rate_bps, bps);
    }
    for (rate, said) in [(1e11, "node 7: rate 1e11"), (1e-12, "node 7: rate 1e-12")] {
        let why = of(rate).check_plan(unit).unwrap_err();
        assert!(why.contains(said) && why.contains("from 1e-9 to 1.8e10; give rates in units of"), "{why}");
    }
}

#[test]
fn tables_of_an_experiment_need_no_parent_for_the_root() {
    use serde_json::json;
    let tables = vec![json!({"id": 0}), json!({"id": 1, "parent": 0, "load": 2})];
    let text = r#"{"nodes":[{"id":0,"parent":null},{"id":1,"parent":0,"load":2}]}"#;
    assert_eq!(file::of_tables(tables, "study.nodes").unwrap(), file::parse(text, "t").unwrap());
}

#[test]
fn what_is_no_tree_is_explained() {
    let refused = |text: &str| file::parse(text, "t.json").unwrap_err().to_string();
    let nodes = |list: &str| refused(&format!("{{\"nodes\":[{list}]}}"));
    for (found, parts) in [
        (nodes(""), "t.json: it has no switches"),
        (nodes(r#"{"id":0,"parent":null},{"id":0,"parent":null}"#), "two nodes have id 0"),
        (
            nodes(r#"{"id":0,"parent":null},{"id":1,"parent":null}"#),
            "2 nodes have parent null (0, 1): it is disconnected",
        ),
        (
            nodes(r#"{"id":0,"parent":null},{"id":1,"parent":2},{"id":2,"parent":1}"#),
            "2 nodes are not connected to the root (first 1, 2)",
        ),
        (nodes(r#"{"id":0,"parent":1},{"id":1,"parent":0}"#), "no node has parent null"),
        (nodes(r#"{"id":0,"parent":7}"#), "node 0: its parent 7 does not exist"),
        (nodes(r#"{"id":0,"parent":0}"#), "node 0 is its own parent"),
        (nodes(r#"{"id":4,"parent":null,"load":-2}"#), "node 4: load -2"),
        (nodes(r#"{"id":4,"parent":null,"rate":0}"#), "node 4: rate 0.0; a rate must be"),
        (nodes(r#"{"id":4,"parent":null,"rate":1e-310}"#), "node 4: rate 1e-310; a rate must be"),
        (nodes(r#"{"id":4,"parent":null,"laod":1}"#), "unknown field `laod`"),
        (
            nodes(
                r#"{"id":0,"parent":null,"load":5},{"id":1,"parent":0,"rate":1e-308},{"id":2,"parent":1,"rate":1e-308}"#,
            ),
            "longer on its links than a number can say",
        ),
        (refused("[1]"), "a tree is {\"nodes\""),
        (refused(r#"[{"id":0,"parent":null}]"#), "t.json: invalid type: sequence, expected an object"),
        (refused(r#"[[{"id":0,"parent":null}]]"#), "t.json: invalid type: sequence, expected an object"),
        (nodes("[0,null,1.0,3,true]"), "t.json: invalid type: sequence, expected an object"),
        (nodes(r#"{"id":0,"parent":null},{"id":1,"load":2}"#), "t.json: missing field `parent`"),
    ] {
        assert!(found.contains(parts), "{found}");
    }
}
