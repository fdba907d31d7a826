//! Tests of [`super`]: positions in drawings, and escaping of names.

use super::*;
use crate::chart::{Cable, ChartNode, Network, Series, Span};

fn bars(names: Vec<String>) -> Chart {
    let points = (0..names.len()).map(|i| (i as f64, 1.0)).collect();
    let series = vec![Series { points, ..Default::default() }];
    Chart { kind: Kind::Bars, categories: names, series, ..Default::default() }
}

fn lines() -> Chart {
    let series = Series { name: "<a&b>".to_owned(), points: vec![(0.0, 0.0), (10.0, 2.0)], ..Default::default() };
    Chart {
        title: "t<script>".to_owned(),
        x: ("x".to_owned(), ""),
        y: ("y".to_owned(), "share"),
        series: vec![series.clone(), series],
        ..Default::default()
    }
}

#[test]
fn names_of_categories_never_overlap() {
    let shown = |chart: Chart| Frame::around(&chart).fitting(&chart.categories).len();
    assert_eq!(shown(bars((0..9).map(|i| i.to_string()).collect())), 9);
    assert_eq!(shown(bars((0..30).map(|i| format!("Olaf_TC at {i} kbit/s")).collect())), 3);
}

#[test]
fn figures_escape_names_and_place_points() {
    let chart = lines();
    for text in [figure(&chart), standalone(&chart)] {
        assert!(text.contains("&lt;a&amp;b&gt;") && !text.contains("<a&b>") && !text.contains("<script>"));
        // From the lower left to the upper right corner of the frame.
        assert!(text.contains("points=\"70.0,250.0 496.0,12.0\""), "{text}");
        assert!(text.contains(&format!("<desc>{}</desc>", escape(&describe(&chart)))), "{text}");
    }
    assert!(figure(&Chart { series: vec![], ..chart }).contains("<svg"));
}

/// Its axis is around it.
#[test]
fn a_single_point_is_inside_the_frame() {
    let series = vec![Series { points: vec![(4e10, 2.0)], ..Series::default() }];
    let text = figure(&Chart { x: ("rate".into(), "bps"), series, ..lines() });
    assert_eq!(numbers(&text, "bar s0", "cx"), [283.0]);
    assert!(text.contains("rate (Gbit/s)"), "{text}");
}

/// Returns the numbers in the attributes `name` of the elements of a class.
fn numbers(text: &str, class: &str, name: &str) -> Vec<f64> {
    let of = |line: &str| -> Option<f64> {
        let from = line.split(&format!(" {name}=\"")).nth(1)?;
        from.split('"').next()?.parse().ok()
    };
    text.lines().filter(|line| line.contains(&format!("class=\"{class}"))).filter_map(of).collect()
}

#[test]
fn negative_values_are_inside_the_frame() {
    let spans = vec![Span { x: 1.0, lo: -220.0, hi: -80.0 }];
    let points = vec![(0.0, -200.0), (1.0, -100.0)];
    let series = vec![Series { points, spans, ..Default::default() }];
    let line = Chart { series: series.clone(), ..Default::default() };
    // From 12 below the upper edge to 50 above the lower one; 0 is the top.
    let inside = |y: &f64| (12.0..=250.0).contains(y);
    let found = numbers(&figure(&line), "bar s0", "cy");
    assert!(found.len() == 2 && found.iter().all(inside) && found[0] > found[1], "{found:?}");
    let categories = vec!["a".to_owned(), "b".to_owned()];
    let bars = Chart { kind: Kind::Bars, categories, series, ..Default::default() };
    let text = figure(&bars);
    let (tops, heights) = (numbers(&text, "bar s0", "y"), numbers(&text, "bar s0", "height"));
    assert_eq!(tops, [12.0, 12.0], "{text}");
    assert!(heights[0] > heights[1] && heights.iter().all(|height| (0.0..=238.0).contains(height)), "{heights:?}");
    assert!(text.contains(">−200</text>"), "{text}");
    // Bars of both signs begin at 0, between the edges.
    let series = vec![Series { points: vec![(0.0, -1.0), (1.0, 1.0)], ..Default::default() }];
    let both = figure(&Chart { series, ..bars });
    let (tops, heights) = (numbers(&both, "bar s0", "y"), numbers(&both, "bar s0", "height"));
    assert!((tops[1] + heights[1] - tops[0]).abs() < 0.2 && (heights[0] - heights[1]).abs() < 0.2, "{both}");
    // Cells of negative values differ in colour, too.
    let points = vec![(0.0, -9.0), (1.0, -1.0)];
    let heat = Chart { kind: Kind::Heat, series: vec![Series { points, ..Default::default() }], ..line };
    assert!(
        figure(&heat).contains("fill=\"rgb(0,34,78)\"><title>") && figure(&heat).contains("rgb(254,232,56)\"><title>")
    );
}

#[test]
fn a_zoomed_line_goes_on_beyond_its_view() {
    let chart = Chart { zoom: Some((0.0, 5.0)), ..lines() };
    let text = figure(&chart);
    // The view is 426 by 238, and its second half extends to the right. The range of shares is fixed.
    assert!(text.contains("viewBox=\"0 0 426 238\""), "{text}");
    assert!(text.contains("data-zoom=\"0 10 0 5 "), "{text}");
    assert!(text.contains("852.0,"), "{text}");
    assert!(text.contains("data-do=\"in\"") && text.contains("class=\"tools\" hidden"));
    assert!(!figure(&lines()).contains("data-do"));
}

#[test]
fn shares_beyond_the_first_view_are_inside_its_range() {
    let points = vec![(0.0, 0.0), (5.0, 0.95), (10.0, 1.0)];
    let series = vec![Series { points, ..Default::default() }];
    let shares = Chart { zoom: Some((0.0, 5.0)), series, ..lines() };
    let text = figure(&shares);
    assert!(text.contains("data-zoom=\"0 10 0 5 100 1\""), "{text}");
    assert!(text.contains("points=\"0.0,238.0 426.0,11.9 852.0,0.0\""), "{text}");
    // The script fits any other range to each view, so that of the first view has its points alone.
    let ages = Chart { y: ("age".to_owned(), ""), ..shares };
    assert!(figure(&ages).contains("data-zoom=\"0 10 0 5 0.9974999999999999 0\""), "{}", figure(&ages));
}

#[test]
fn rows_are_placed_one_below_the_other() {
    let points = |values: [f64; 2]| values.into_iter().enumerate().map(|(row, value)| (row as f64, value)).collect();
    let series = [[0.25, 0.5], [0.25, 0.0]].map(|values| Series { points: points(values), ..Default::default() });
    let chart = Chart {
        kind: Kind::Stack,
        x: ("share".to_owned(), "share"),
        categories: vec!["<first>".to_owned(), "second".to_owned()],
        series: series.to_vec(),
        ..Default::default()
    };
    let text = figure(&chart);
    // 486 wide for 50 %: the second part of the first row begins where the first ends.
    assert!(text.contains("class=\"bar part s0\" x=\"12.0\" y=\"21.0\" width=\"243.0\""), "{text}");
    assert!(text.contains("class=\"bar part s1\" x=\"255.0\" y=\"21.0\" width=\"243.0\""), "{text}");
    assert!(text.contains("class=\"bar part s0\" x=\"12.0\" y=\"63.0\" width=\"486.0\""), "{text}");
    assert_eq!(text.matches("<rect class=\"bar part").count(), 3, "nothing is drawn of nothing");
    assert!(text.contains("&lt;first&gt;") && text.contains(">50.0 %</text>"));
    // A long name ends before the total.
    let name = "x".repeat(80);
    let text = figure(&Chart { categories: vec![name.clone(), name], ..chart });
    assert_eq!(rows_of(&text)[0].chars().count(), 47, "{text}");
}

/// Returns the shown names of rows.
fn rows_of(text: &str) -> Vec<&str> {
    let rows = text.lines().filter(|line| line.contains("class=\"row\""));
    rows.map(|row| row.split('>').nth(1).unwrap().split('<').next().unwrap()).collect()
}

#[test]
fn long_names_of_rows_differ() {
    let shown = |names: [String; 2], kind: Kind| {
        let series =
            names.each_ref().map(|name| Series { name: name.clone(), points: vec![(0.0, 1.0)], ..Default::default() });
        let text = figure(&Chart { kind, series: series.to_vec(), categories: names.to_vec(), ..Default::default() });
        rows_of(&text).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let name = "olaf_packet_gap_10.7ns_dequeue_efficiency_0.63_gate_off";
    for kind in [Kind::Stack, Kind::Dots, Kind::Heat] {
        let most = if kind == Kind::Stack { 47 } else { 56 };
        for names in [
            ["40", "20"].map(|rate| format!("{name}, rate {rate}Gbps")),
            ["40", "20"].map(|rate| format!("{name}{rate}{}", "x".repeat(40))),
            ["40", "20"].map(|rate| format!("rate {rate}Gbps, {name}")),
        ] {
            let found = shown(names.clone(), kind);
            assert!(found[0] != found[1] && found.iter().all(|name| name.chars().count() == most), "{found:?}");
            let (first, last) = (found[0].split('…').next().unwrap(), found[0].split('…').next_back().unwrap());
            assert!(names[0].starts_with(first) && names[0].ends_with(last) && !first.is_empty(), "{found:?}");
        }
        assert_eq!(shown(["a".to_owned(), "b".to_owned()], kind), ["a", "b"]);
    }
}

#[test]
fn cells_and_dots_are_drawn_for_every_value() {
    let series = vec![Series { name: "r".to_owned(), points: vec![(0.0, 1.0), (1.0, 9.0)], ..Default::default() }; 2];
    let heat =
        Chart { kind: Kind::Heat, categories: vec!["0".to_owned(), "1".to_owned()], series, ..Default::default() };
    let text = figure(&heat);
    assert_eq!(text.matches("class=\"cell\"").count(), 4);
    assert!(text.contains("fill=\"rgb(0,34,78)\"") && text.contains("fill=\"rgb(254,232,56)\""));
    let dots = Chart { kind: Kind::Dots, categories: vec!["a".to_owned(), "b".to_owned()], ..heat };
    assert_eq!(figure(&dots).matches("<title>a: r").count(), 2);
}

#[test]
fn a_network_stands_in_rows_below_its_server() {
    let place = |name: &str, role| ChartNode { name: name.to_owned(), label: name.to_owned(), role };
    let nodes = vec![place("s1", "aggregator"), place("ps", "server"), place("w&0", "host")];
    let cable = |from, to, up| Cable { from, to, up, down: None, up_bytes: up };
    let network = Network { nodes, cables: vec![cable(0, 1, Some(0.5)), cable(2, 0, None)] };
    let chart = Chart { kind: Kind::Network, network: Some(network), ..Default::default() };
    let text = figure(&chart);
    let y = |class: &str| {
        let from = text.find(&format!("class=\"node {class}\"")).unwrap();
        let y = text[from..].split("y=\"").nth(1).unwrap();
        y[..y.find('"').unwrap()].parse::<f64>().unwrap()
    };
    assert!(y("server") < y("aggregator") && y("aggregator") < y("host"));
    assert!(text.contains(">50.0 %</text>") && text.contains("w&amp;0"));
    assert_eq!(text.matches("class=\"cable\"").count(), 2);
    assert!(figure(&Chart { network: None, ..chart }).contains("<svg"));
}
