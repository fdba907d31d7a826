//! The keys of an experiment that say what a sparse model is: read by the workload `sparse` and by studies.

use super::curve::Curve;
use super::fit::{self, STEP, THRESHOLD};
use super::models::{MODELS, ModelFacts};
use super::plan::{HOT_MAX, PAIRS_MAX, PARAMETERS_MAX};
use crate::config::{FromValue, Section, Value, above_to, settings};
use crate::registry::find;
use crate::{Error, Result};

/// The kinds of curves that `curve` names.
const CURVES: &str = "fitted, mandelbrot, zipf, joined, empirical";

/// A model before scaling.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Name of the model.
    pub model: String,
    /// Hot parameters, and whether that was written.
    pub hot: u32,
    /// Whether it was written.
    pub hot_is_told: bool,
    /// Pairs of a batch by default.
    pub pairs: u32,
    /// How often which parameter is updated.
    pub curve: Curve,
}

settings! {
    /// What says what a model is.
    pub(crate) struct Model {
        /// Name of the model (docs/libra.md), or `custom`.
        model: String = "oa";
        /// Parameters of the model; default: those of the named model (docs/sparse.md).
        parameters: Option<u64> in 1..=PARAMETERS_MAX;
        /// Hot parameters; default: those of the named model (docs/sparse.md).
        hot: Option<u32> in 1..=HOT_MAX, "the memory of a switch holds no more";
    }
}

settings! {
    /// What says what its curve is; each is read where the curve uses it.
    pub(crate) keys OfCurve {
        /// Share of the updates that hot parameters have.
        hot_share: Option<f64> in above_to(0.0, 1.0);
        /// Distribution of updates over parameters: `fitted`, `mandelbrot`, `zipf`, `joined`, `empirical`.
        curve: String = "fitted";
        /// Exponent of curves `zipf` and `mandelbrot`; if not set, it is fitted or follows from `hot_share`.
        exponent: Option<f64>;
        /// Offset of curve `mandelbrot`; 1 if only `exponent` is set, fitted if neither is.
        offset: Option<f64>;
        /// Points of an empirical distribution: number of hottest parameters, and their cumulative share of updates; the
        /// last has all parameters (those of `parameters`, if set) and share 1.
        points: Option<Points>;
    }
}

settings! {
    /// What is read of a batch, where a model is not recorded.
    pub(crate) keys OfBatch {
        /// Sparse pairs per batch.
        pairs: u32 said "by the model" in 1..=PAIRS_MAX;
        /// Dense pairs per batch.
        dense: u32 said "0.4 % of `pairs`" in 0..=PAIRS_MAX;
    }
}

/// Reads what a model is. What is written counts before what is known of a model; `hot` of a known model does not move
/// its curve.
pub fn shape(section: &mut Section) -> Result<Shape> {
    let Model { model: name, parameters, hot } = Model::read(section)?;
    let law = Told::read(section, &name)?;
    let hot_share = if law.follows_share() { OfCurve::hot_share(section)? } else { None };
    let model = find(MODELS, "model", &name, &section.place("model"))?;
    let mut facts = match model.facts() {
        Some(facts) => facts,
        None => {
            let told = |key: &str| {
                let (place, name) = (section.place("model"), section.name());
                Error::config(format!(
                    "{place}: a custom model is what {name}.parameters, {name}.hot and {name}.hot_share say; {key} is missing"
                ))
            };
            ModelFacts {
                parameters: parameters.ok_or_else(|| told("parameters"))?,
                hot: hot.ok_or_else(|| told("hot"))?,
                // No curve follows from it where an exponent or points are written.
                hot_share: if law.follows_share() { hot_share.ok_or_else(|| told("hot_share"))? } else { 0.0 },
                pairs: 0,
            }
        }
    };
    facts.parameters = parameters.unwrap_or(facts.parameters);
    facts.hot_share = hot_share.unwrap_or(facts.hot_share);
    let (key, made) = law.curve(&facts);
    let curve = made.map_err(|why| {
        // Of a curve that follows from other keys, one that was written is to blame; not of a name that is no curve's.
        let is_known = CURVES.split(", ").any(|known| known == law.kind);
        let number = ("parameters", parameters.map(|n| n.to_string()));
        let share = ("hot_share", hot_share.map(|n| n.to_string()));
        // The curve of a known model does not follow `hot`.
        let hot_ones = ("hot", hot.filter(|_| model.facts().is_none()).map(|n| n.to_string()));
        let causes = match key {
            "curve" | "parameters" if is_known && u64::from(facts.hot) >= facts.parameters => vec![hot_ones, number],
            "curve" | "parameters" if is_known => vec![number, share],
            "hot_share" => vec![share, number],
            _ => Vec::new(),
        };
        Error::config(match causes.into_iter().find_map(|(key, value)| Some((key, value?))) {
            Some((key, value)) => format!("{}: {value}: {why}", section.place(key)),
            None => format!("{}: {why}", section.place(key)),
        })
    })?;
    let listed = law.kind == "empirical";
    if let Some(told) = parameters.filter(|told| listed && *told != curve.ranks()) {
        let (place, ranks) = (section.place("points"), curve.ranks());
        return Err(Error::config(format!(
            "{place}: the last point has {ranks} ranks, and there are {told} parameters; make them equal"
        )));
    }
    // Half of what can be, where nothing else says how many.
    let limit = 1.0 / curve.frequency(0);
    let pairs = match facts.pairs == 0 || f64::from(facts.pairs) > limit {
        true => (limit / 2.0).clamp(1.0, f64::from(PAIRS_MAX)) as u32,
        false => facts.pairs,
    };
    Ok(Shape { model: name, hot: hot.unwrap_or(facts.hot), hot_is_told: hot.is_some(), pairs, curve })
}

/// What is written of a curve, as far as it uses it.
struct Told {
    kind: String,
    exponent: Option<f64>,
    offset: Option<f64>,
    points: Option<Vec<Point>>,
}

impl Told {
    fn read(section: &mut Section, model: &str) -> Result<Self> {
        let kind = OfCurve::curve(section)?;
        let is_law = kind == "zipf" || kind == "mandelbrot";
        let exponent = if is_law { OfCurve::exponent(section)? } else { None };
        let offset = if kind == "mandelbrot" { OfCurve::offset(section)? } else { None };
        let points = if kind == "empirical" { OfCurve::points(section)? } else { None };
        Ok(Told { kind, exponent, offset, points: points.and_then(|points| points.of(model)) })
    }

    /// Whether the curve follows from the share of the hot parameters.
    fn follows_share(&self) -> bool {
        self.kind != "empirical" && self.exponent.is_none()
    }

    /// The curve, with the key to blame if there is none.
    fn curve(&self, facts: &ModelFacts) -> (&'static str, Result<Curve, String>) {
        let ModelFacts { parameters, hot_share, .. } = *facts;
        let hot = facts.hot.into();
        match self.kind.as_str() {
            "fitted" => {
                let law = fit::any(parameters, hot, hot_share, STEP, THRESHOLD);
                ("curve", law.map_err(|why| why + other_curve(facts)))
            }
            "joined" => {
                let law = fit::joined(parameters, hot, hot_share, STEP, THRESHOLD);
                ("curve", law.map_err(|why| why + other_curve(facts)))
            }
            "zipf" => self.mandelbrot(facts, 1.0),
            "mandelbrot" => match (self.exponent, self.offset) {
                (None, None) => {
                    let law = fit::mandelbrot(parameters, hot, hot_share, STEP, THRESHOLD);
                    let law = law.map_err(|why| why + other_curve(facts));
                    ("curve", law.and_then(|law| Curve::mandelbrot(parameters, law.exponent, law.offset)))
                }
                (_, offset) => self.mandelbrot(facts, offset.unwrap_or(1.0)),
            },
            "empirical" => match &self.points {
                Some(points) => ("points", Curve::empirical(points)),
                None => {
                    let why = "an empirical curve is a list of points [ranks, cumulative share], or one for each model that is used";
                    ("points", Err(why.to_owned()))
                }
            },
            other => ("curve", Err(format!("there is no curve \"{other}\"; there are: {CURVES}"))),
        }
    }

    /// A law with the written exponent, or with that which gives the hot parameters their share; with the key to blame.
    fn mandelbrot(&self, facts: &ModelFacts, offset: f64) -> (&'static str, Result<Curve, String>) {
        let ModelFacts { parameters, hot, hot_share, .. } = *facts;
        let exponent = match self.exponent {
            Some(exponent) => exponent,
            None => match fit::exponent(parameters, hot.into(), hot_share, offset) {
                Ok(exponent) => exponent,
                Err(why) => return (if u64::from(hot) < parameters { "hot_share" } else { "parameters" }, Err(why)),
            },
        };
        let curve = Curve::mandelbrot(parameters, exponent, offset);
        // With an offset that every law may have, only the exponent is left to refuse.
        let is_exponent = curve.is_err() && Curve::mandelbrot(parameters, exponent, 1.0).is_err();
        (if is_exponent { "exponent" } else { "offset" }, curve)
    }
}

/// The end of a refusal: a curve that a model with these facts may have, empty if there is none.
fn other_curve(facts: &ModelFacts) -> &'static str {
    let ModelFacts { parameters, hot, hot_share, .. } = *facts;
    if fit::joined(parameters, hot.into(), hot_share, STEP, THRESHOLD).is_ok() {
        "; curve = \"joined\" has one for it"
    } else if fit::exponent(parameters, hot.into(), hot_share, 1.0).is_ok() {
        "; curve = \"zipf\" has one for it"
    } else {
        ""
    }
}

/// Ranks and their cumulative share.
type Point = (u64, f64);

/// Points of any model, or of some by name: a sweep visits several models.
pub(crate) enum Points {
    Any(Vec<Point>),
    Named(Vec<(String, Vec<Point>)>),
}

impl Points {
    fn of(self, model: &str) -> Option<Vec<Point>> {
        match self {
            Points::Any(points) => Some(points),
            Points::Named(all) => all.into_iter().find(|(name, _)| name == model).map(|(_, points)| points),
        }
    }

    fn listed(value: &Value) -> Result<Vec<Point>, String> {
        let wrong = || format!("{} is not a list of points [ranks, cumulative share]", value.to_toml());
        let Value::List(items) = value else { return Err(wrong()) };
        let point = |value: &Value| {
            let Value::List(pair) = value else { return Err(wrong()) };
            let [ranks, share] = pair.as_slice() else { return Err(wrong()) };
            Ok((u64::from_value(&ranks.value)?, f64::from_value(&share.value)?))
        };
        items.iter().map(|item| point(&item.value)).collect()
    }
}

impl FromValue for Points {
    fn takes() -> String {
        "a list of pairs, ranks and share, or a table of such lists by model".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        let Value::Table(table) = value else { return Points::listed(value).map(Points::Any) };
        let named = table.iter().map(|(name, entry)| {
            let known = MODELS.iter().any(|model| crate::registry::Named::name(*model) == name);
            let points = known.then(|| Points::listed(&entry.value));
            Ok((name.clone(), points.unwrap_or_else(|| Err(format!("there is no model \"{name}\"")))?))
        });
        named.collect::<Result<_, String>>().map(Points::Named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Entry, Origin};

    #[test]
    fn a_custom_model_names_keys_of_its_section() {
        let mut values: Vec<(&str, Value)> = vec![("model", "custom".into()), ("parameters", 20_000u32.into())];
        values.extend([("hot", 300u32.into()), ("curve", "zipf".into())]);
        let of = |name, values: &[(&str, Value)]| shape(&mut Section::of(name, values)).map_err(|e| e.to_string());
        for (name, other) in [("study", "workload."), ("workload", "study.")] {
            let why = of(name, &values).unwrap_err();
            assert!(why.contains(&format!("{name}.hot_share say; hot_share is missing")), "{why}");
            assert!(!why.contains(other), "{why}");
        }
        for share in [-1.0f64, 0.0, 1.5] {
            let why = of("study", &[&values[..], &[("hot_share", share.into())]].concat()).unwrap_err();
            assert!(why.contains("study.hot_share") && why.contains("at most 1"), "{why}");
        }
        assert!(of("study", &[&values[..], &[("hot_share", 0.6.into())]].concat()).is_ok());
    }

    /// A key that its curve does not use is not read, so that it is without effect; nor is it required.
    #[test]
    fn a_curve_reads_only_the_keys_that_it_uses() {
        let plain = |value| Entry { value, origin: Origin::Default };
        let point = |ranks: u32, share: f64| plain(Value::List(vec![plain(ranks.into()), plain(share.into())]));
        let points = Value::List(vec![point(50, 0.3), point(1_000_000, 1.0)]);
        let all: [(&str, Value); 4] =
            [("hot_share", 0.3.into()), ("exponent", 1.1.into()), ("offset", 9.0.into()), ("points", points)];
        let custom: [(&str, Value); 3] =
            [("model", "custom".into()), ("parameters", 1_000_000u32.into()), ("hot", 50u32.into())];
        for (curve, written, used) in [
            ("fitted", &["hot_share", "exponent", "offset", "points"][..], &["hot_share"][..]),
            ("joined", &["hot_share", "exponent", "offset", "points"], &["hot_share"]),
            ("zipf", &["hot_share", "offset", "points"], &["hot_share", "exponent"]),
            ("zipf", &["hot_share", "exponent", "offset", "points"], &["exponent"]),
            ("mandelbrot", &["hot_share", "offset", "points"], &["hot_share", "exponent", "offset"]),
            ("mandelbrot", &["hot_share", "exponent", "points"], &["exponent", "offset"]),
            ("empirical", &["hot_share", "exponent", "offset", "points"], &["points"]),
        ] {
            let made = |keys: &[&str]| {
                let told = all.iter().filter(|(key, _)| keys.contains(key)).cloned();
                let values: Vec<_> = custom.iter().cloned().chain([("curve", curve.into())]).chain(told).collect();
                let mut section = Section::of("workload", &values);
                let made = shape(&mut section).unwrap_or_else(|why| panic!("{curve} of {keys:?}: {why}"));
                let is_asked = |key: &&str| section.asked().iter().any(|asked| asked == key);
                (made, all.iter().map(|(key, _)| *key).filter(is_asked).collect::<Vec<_>>())
            };
            let (whole, asked) = made(written);
            assert_eq!(asked, used, "{curve} of {written:?}");
            // What it does not use may be left out.
            let kept: Vec<_> = written.iter().copied().filter(|key| used.contains(key)).collect();
            assert_eq!(made(&kept).0, whole, "{curve} of {kept:?}");
        }
    }

    #[test]
    fn a_model_without_a_curve_names_the_key_that_was_written() {
        let refused = |values: &[(&str, Value)]| shape(&mut Section::of("workload", values)).unwrap_err().to_string();
        let why = refused(&[("model", "oa".into()), ("parameters", 1u32.into())]);
        let parts = ["workload.parameters", ": 1: ", "30000 hot ones", "0.5 of the updates"];
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        // The curve of a known model does not follow what is written of `hot`.
        let why = refused(&[("model", "oa".into()), ("parameters", 1u32.into()), ("hot", 5u32.into())]);
        assert!(why.contains("workload.parameters") && why.contains(": 1: "), "{why}");
        let why = refused(&[("model", "se".into()), ("parameters", 30_010u32.into())]);
        let parts = ["workload.parameters", ": 30010: ", "a share of 0.3,"];
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        let why = refused(&[("model", "se".into()), ("hot_share", 0.01.into())]);
        assert!(why.contains("workload.hot_share") && why.contains(": 0.01: "), "{why}");
    }

    #[test]
    fn a_law_without_a_written_exponent_blames_what_it_follows_from() {
        let refused = |more: &[(&str, Value)]| {
            let custom: [(&str, Value); 2] = [("model", "custom".into()), ("hot", 50u32.into())];
            shape(&mut Section::of("workload", &[&custom[..], more].concat())).unwrap_err().to_string()
        };
        let (zipf, share) = (("curve", Value::from("zipf")), |share: f64| ("hot_share", Value::from(share)));
        let ranks = |ranks: u32| ("parameters", Value::from(ranks));
        let law = ("curve", Value::from("mandelbrot"));
        for (more, start) in [
            (vec![zipf.clone(), ranks(1000), share(0.04)], "workload.hot_share: 0.04: 50 of 1000 parameters cannot"),
            (vec![zipf.clone(), ranks(50), share(0.5)], "workload.hot: 50: 50 of 50 parameters cannot be hot"),
            (vec![ranks(50), share(0.5)], "workload.hot: 50: a model of 50 parameters has none beside its 50 hot ones"),
            (vec![law.clone(), ranks(25), share(0.5)], "workload.hot: 50: 50 of 25 parameters cannot be hot"),
            (
                vec![zipf, ranks(1000), share(0.5), ("exponent", Value::from(-1.0))],
                "workload.exponent: the exponent -1",
            ),
            (vec![law.clone(), ranks(1000), share(0.04), ("offset", Value::from(2.0))], "workload.hot_share: 0.04: "),
            (vec![law.clone(), ranks(1000), share(0.5), ("offset", Value::from(0.0))], "workload.offset: the offset 0"),
            (vec![law, ranks(1000), share(0.5), ("exponent", Value::from(-1.0))], "workload.exponent: the exponent -1"),
        ] {
            let why = refused(&more);
            assert!(why.starts_with(start) && !why.contains("is above 2 "), "{why}");
        }
    }

    #[test]
    fn a_curve_that_cannot_be_says_what_can() {
        let model = |parameters: u32, share: f64, curve: &str| {
            let values: [(&str, Value); 5] = [
                ("model", "custom".into()),
                ("hot", 50u32.into()),
                ("parameters", parameters.into()),
                ("hot_share", share.into()),
                ("curve", curve.into()),
            ];
            shape(&mut Section::of("workload", &values)).map_err(|why| why.to_string())
        };
        let between = |text: &str, from: &str, to: &str| {
            text.split(from)
                .nth(1)
                .and_then(|rest| rest.split(to).next())
                .unwrap_or_else(|| panic!("{text}"))
                .to_owned()
        };
        for parameters in [200, 1000, 2000, 10_000] {
            for share in [0.3, 0.5, 0.7, 0.85] {
                for curve in ["fitted", "joined", "mandelbrot"] {
                    let why = model(parameters, share, curve).unwrap_err();
                    assert!(why.ends_with("; curve = \"zipf\" has one for it"), "{why}");
                    assert!(model(parameters, share, "zipf").is_ok(), "{why}");
                    if curve == "mandelbrot" {
                        continue;
                    }
                    let enough: u32 = between(&why, "ask for ", " parameters").parse().unwrap();
                    let least: f64 = between(&why, "a share of the first of ", " or more").parse().unwrap();
                    for (parameters, share) in [(enough, share), (parameters, least)] {
                        model(parameters, share, curve).unwrap_or_else(|again| panic!("{why}, then {again}"));
                    }
                }
            }
        }
        // With enough parameters there is a joined curve.
        let why = model(1_000_000, 0.3, "mandelbrot").unwrap_err();
        assert!(why.ends_with("; curve = \"joined\" has one for it"), "{why}");
        assert!(model(1_000_000, 0.3, "joined").is_ok());
    }
}
