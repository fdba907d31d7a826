//! A calibration as a page, as lines, and as an experiment file.

use std::fmt::Write;

use pktgen_core::printable::escape;
use pktgen_records::human::show;
use pktgen_report::chart::{Chart, Kind, Series};
use pktgen_report::plot::figure;
use pktgen_report::report::{SCROLLS, STYLE};
use serde_json::json;

use crate::answer::{CalibrationAnswer, FoundParameter, FoundTarget, ParameterState};
use crate::predict::Prediction;
use crate::target::named;

/// What a calibration is about.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// The experiment's name.
    pub experiment: String,
    /// What found it.
    pub tool: String,
    /// Where targets are from.
    pub to: Vec<String>,
    /// Seeds of each setting.
    pub seeds: u32,
    /// Runs of each setting.
    pub runs_each: usize,
    /// Unit of each metric.
    pub units: std::collections::BTreeMap<String, String>,
    /// Information that a reader needs first.
    pub notes: Vec<String>,
    /// The results.
    pub answer: CalibrationAnswer,
    /// The predictions.
    pub predictions: Vec<Prediction>,
}

/// Up to this, an effect is none.
const NEGLIGIBLE: &str = "its noise or a tenth of its interquartile range";

impl Calibration {
    /// Returns whether any parameter was determined and the targets can be met together.
    pub fn is_whole(&self) -> bool {
        self.answer.together && self.determined() > 0
    }

    /// Returns the number of determined parameters, on one side or both.
    fn determined(&self) -> usize {
        self.answer.parameters.iter().filter(|it| it.state != ParameterState::Undetermined).count()
    }

    /// Returns the main statement.
    pub fn verdict(&self) -> String {
        let (answer, determined) = (&self.answer, self.determined());
        if answer.together && determined == 0 && answer.targets.iter().all(|target| target.says_nothing) {
            return format!(
                "nothing is determined: no parameter moves a target by more than {NEGLIGIBLE}; longer runs or more seeds would help"
            );
        }
        let together = match answer.together {
            true => "the targets can be met together",
            false => "the targets cannot be met together",
        };
        format!("{together}; {determined} of {} parameters are determined", answer.parameters.len())
    }

    /// Returns one sentence for each limitation of the results.
    pub fn remarks(&self) -> Vec<String> {
        let answer = &self.answer;
        let mut out = self.notes.clone();
        let unmet = answer.targets.iter().filter(|_| !answer.together);
        for (target, nearest) in unmet.filter_map(|target| Some((target, target.nearest?))) {
            let off = (target.value - nearest).abs() / target.deviation;
            out.push(format!(
                "{}: out of reach; the nearest value of all settings run is {}, {off:.1} deviations off",
                named(&target.metric, &target.at),
                show(self.unit(&target.metric), nearest)
            ));
        }
        // An even search cannot settle, however many settings are allowed.
        if !answer.settled && !answer.evenly {
            out.push(format!(
                "the search did not settle within {} settings; raise calibrate.settings",
                answer.settings
            ));
        }
        if answer.invalid > 0 {
            out.push(format!("{} runs of the twin are invalid and were left out", answer.invalid));
        }
        if answer.inflation > 1.0 {
            out.push(format!(
                "intervals are {:.1} times as wide as the noise makes them, since the targets are farther off than it explains",
                answer.inflation.sqrt()
            ));
        }
        if !answer.left_out.is_empty() {
            out.push(format!(
                "without {} the others could be met together, by the emulators",
                answer.left_out.join(" and ")
            ));
        }
        for parameter in answer.parameters.iter().filter(|it| it.state == ParameterState::Undetermined) {
            let why = match parameter.without_effect && parameter.ends.is_some() {
                true => format!("no target changes with it by more than {NEGLIGIBLE}"),
                false => "the targets do not determine it".to_owned(),
            };
            out.push(format!("{}: {why}", parameter.name));
        }
        // Movements are those of emulators, which smooth a step at few settings: a parameter that is determined moves a target.
        let some_moves = self.determined() == 0 || answer.targets.iter().any(|target| !target.says_nothing);
        for target in answer.targets.iter().filter(|target| target.says_nothing && some_moves) {
            out.push(format!("{}: no parameter moves it by more than {NEGLIGIBLE}", named(&target.metric, &target.at)));
        }
        for (of, copies) in &answer.copied {
            let (copies, kind) = (copies.join(", "), if copies.len() == 1 { "a copy" } else { "copies" });
            out.push(format!("{copies}: {kind} of {of} in all runs; together with it one target"));
        }
        for group in &answer.alike {
            out.push(format!(
                "{}: nearly the same information; choose one of them as a target, more of them hardly narrow an interval",
                group.join(", ")
            ));
        }
        for (a, b, correlation) in &answer.tied {
            out.push(format!("{a} and {b} are known together only (correlation {correlation:.2})"));
        }
        if self.seeds < 2 {
            out.push("one seed: how far runs differ is not known".into());
        }
        out
    }

    /// The unit of a metric.
    fn unit(&self, metric: &str) -> &str {
        self.units.get(metric.split('/').next().unwrap_or(metric)).map_or("", String::as_str)
    }

    /// Returns the parameters as rows of cells, with a head.
    pub fn parameter_rows(&self) -> Vec<[String; 4]> {
        let row = |it: &FoundParameter| [it.name.clone(), it.best.clone(), interval(it), state(it).to_owned()];
        let head = ["parameter", "best", "95 %", ""].map(str::to_owned);
        std::iter::once(head).chain(self.answer.parameters.iter().map(row)).collect()
    }

    /// Returns the targets and the twin's values as rows.
    pub fn target_rows(&self) -> Vec<[String; 4]> {
        let row = |it: &FoundTarget| {
            let unit = self.unit(&it.metric);
            let twin = it.twin.map_or("–".to_owned(), |twin| show(unit, twin));
            let off = it.off.map_or("–".to_owned(), |off| format!("{off:+.1}"));
            [named(&it.metric, &it.at), show(unit, it.value), twin, off]
        };
        let head = ["target", "value", "twin", "off, in deviations"].map(str::to_owned);
        std::iter::once(head).chain(self.answer.targets.iter().map(row)).collect()
    }

    /// Returns the predictions as rows.
    pub fn prediction_rows(&self) -> Vec<[String; 5]> {
        let row = |it: &Prediction| {
            let unit = self.unit(&it.metric);
            let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| show(unit, value));
            let ends = |ends: Option<[f64; 2]>| {
                ends.map_or("–".to_owned(), |[low, high]| format!("{} to {}", show(unit, low), show(unit, high)))
            };
            [it.point.clone(), named(&it.metric, &it.at), number(it.value), ends(it.mean), ends(it.run)]
        };
        let head = ["point", "metric", "twin", "95 % of the mean", "95 % of one run"].map(str::to_owned);
        std::iter::once(head).chain(self.predictions.iter().map(row)).collect()
    }

    /// Everything as JSON.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "experiment": self.experiment,
            "tool": self.tool,
            "to": self.to,
            "verdict": self.verdict(),
            "whole": self.is_whole(),
            "remarks": self.remarks(),
            "seeds": self.seeds,
            "runs_each": self.runs_each,
            "answer": self.answer,
            "predictions": self.predictions,
        })
    }

    /// Returns the page.
    pub fn html(&self) -> String {
        let title = format!("{}: calibrated", escape(&self.experiment));
        let class = if self.is_whole() { "fine" } else { "invalid" };
        let mut body = format!(
            "<section class=\"verdict {class}\" aria-label=\"Verdict\"><p>{}</p>\n",
            escape(&self.verdict().to_uppercase())
        );
        for remark in self.remarks() {
            let _ = writeln!(body, "<p>{}</p>", escape(&remark));
        }
        let answer = &self.answer;
        let _ = writeln!(
            body,
            "</section>\n<p class=\"about\">To {}: {} settings, {} runs each ({} seeds). Distance of the best {:.2}, of {} targets and {} parameters. {}</p>",
            escape(&self.to.join(", ")),
            answer.settings,
            self.runs_each,
            self.seeds,
            answer.distance,
            answer.targets.len(),
            answer.parameters.len(),
            escape(&self.tool)
        );
        table("Parameters", &self.parameter_rows(), &mut body);
        table("Targets", &self.target_rows(), &mut body);
        if !self.predictions.is_empty() {
            table("Predictions", &self.prediction_rows(), &mut body);
        }
        body.push_str("<h2>Pictures</h2>\n<div class=\"charts\">\n");
        self.charts().iter().for_each(|chart| body.push_str(&figure(chart)));
        body.push_str("</div>\n");
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, \
             initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
             <body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
        )
    }

    /// Returns the charts: profiles, the progress of the search, and contradicting targets.
    fn charts(&self) -> Vec<Chart> {
        let answer = &self.answer;
        let mut charts: Vec<Chart> =
            answer.parameters.iter().filter(|it| !it.profile.is_empty()).map(|it| profile(it, answer)).collect();
        let away = |distance: f64| distance.max(1e-3).log10();
        charts.push(Chart {
            picture: "calibration",
            title: "The nearest setting after so many".into(),
            x: ("settings".into(), ""),
            y: ("log10 of the distance".into(), ""),
            series: vec![Series {
                name: "nearest".into(),
                points: answer.progress.iter().map(|(n, distance)| (*n as f64, away(*distance))).collect(),
                ..Series::default()
            }],
            ..Chart::default()
        });
        if let Some(conflict) = &answer.conflict {
            let most = 30.0;
            let mut front: Vec<(f64, f64)> = Vec::new();
            let mut all: Vec<(f64, f64)> = conflict.settings.clone();
            all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            for (a, b) in all {
                if front.last().is_none_or(|(_, least)| b < *least) {
                    front.push((a.min(most), b));
                }
            }
            front.iter_mut().for_each(|(_, b)| *b = b.min(most));
            charts.push(Chart {
                picture: "calibration",
                title: "What cannot be met together".into(),
                note: "Of the settings that were run those that no other is nearer in both; up to 30 deviations."
                    .into(),
                x: (format!("{}: deviations off", conflict.targets[0]), ""),
                y: (format!("{}: deviations off", conflict.targets[1]), ""),
                series: vec![Series { name: "nearest settings".into(), points: front, ..Series::default() }],
                ..Chart::default()
            });
        }
        charts
    }
}

fn interval(parameter: &FoundParameter) -> String {
    match (parameter.state, parameter.interval.as_slice()) {
        (ParameterState::AtLeast, [low, _]) if parameter.ends.is_some() => format!("at least {low}"),
        (ParameterState::AtMost, [_, high]) if parameter.ends.is_some() => format!("at most {high}"),
        (_, [low, high]) if parameter.ends.is_some() => format!("{low} to {high}"),
        (_, all) => all.join(", "),
    }
}

fn state(parameter: &FoundParameter) -> &'static str {
    match parameter.state {
        ParameterState::Undetermined if parameter.without_effect => "without effect",
        ParameterState::Undetermined => "undetermined",
        ParameterState::AtLeast | ParameterState::AtMost => "one end is that of the range",
        ParameterState::Determined => "",
    }
}

/// Returns the chart of the distance of the nearest setting for each value of a parameter.
fn profile(parameter: &FoundParameter, answer: &CalibrationAnswer) -> Chart {
    let least = parameter.profile.iter().map(|(_, distance)| *distance).fold(f64::INFINITY, f64::min);
    let most = 10.0 * answer.inflation;
    let points: Vec<(f64, f64)> =
        parameter.profile.iter().map(|(x, distance)| (*x, (distance - least).min(most))).collect();
    let ends = parameter.ends.map_or(Vec::new(), |ends| ends.map(|end| (end, 0.0)).to_vec());
    let is_cut = parameter.profile.iter().any(|(_, distance)| distance - least > most);
    let cut = if is_cut { format!(" Drawn up to {} farther.", show("", most)) } else { String::new() };
    let unit = if parameter.unit.is_empty() { String::new() } else { format!(" ({})", parameter.unit) };
    Chart {
        picture: "calibration",
        kind: Kind::Line,
        title: parameter.name.clone(),
        note: format!(
            "How much farther from the targets the nearest setting is with each value; crosses: the interval of 95 %, {}.{cut}",
            interval(parameter)
        ),
        x: (format!("value{unit}"), ""),
        y: ("farther".into(), ""),
        series: vec![Series { name: "profile".into(), points, marks: ends, ..Series::default() }],
        ..Chart::default()
    }
}

fn table<const N: usize>(title: &str, rows: &[[String; N]], out: &mut String) {
    let cells = |row: &[String; N], tag: &str| -> String {
        let class = |i: usize| if i == 0 { "" } else { " class=\"n\"" };
        row.iter().enumerate().map(|(i, cell)| format!("<{tag}{}>{}</{tag}>", class(i), escape(cell))).collect()
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<h2>{title}</h2>\n{SCROLLS}<div class=\"scroll\"><table>");
    for (i, row) in rows.iter().enumerate() {
        let _ = writeln!(out, "<tr>{}</tr>", cells(row, if i == 0 { "th" } else { "td" }));
    }
    out.push_str("</table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A calibration with one parameter in this state, and one target that no parameter moves according to emulators.
    fn unmoved(state: ParameterState) -> Calibration {
        let parameter = FoundParameter {
            name: "target.slots".into(),
            best: "11".into(),
            interval: vec!["11".into(), "16".into()],
            ends: Some([11.0, 16.0]),
            width: 5e-5,
            state,
            without_effect: true,
            profile: Vec::new(),
            unit: String::new(),
        };
        let target = FoundTarget {
            metric: "loss".into(),
            at: [].into(),
            value: 0.5,
            bound: None,
            printed: None,
            deviation: 0.01,
            twin: Some(0.5),
            off: Some(0.0),
            says_nothing: true,
            nearest: None,
        };
        let answer = CalibrationAnswer {
            parameters: vec![parameter],
            targets: vec![target],
            distance: 0.0,
            freedom: 0,
            together: true,
            inflation: 1.0,
            tied: Vec::new(),
            copied: Vec::new(),
            alike: Vec::new(),
            left_out: Vec::new(),
            conflict: None,
            settings: 34,
            settled: true,
            evenly: false,
            progress: Vec::new(),
            invalid: 0,
            best: vec![11.0],
            drawn: Vec::new(),
        };
        Calibration {
            experiment: "x".into(),
            tool: "pktgen".into(),
            to: Vec::new(),
            seeds: 5,
            runs_each: 5,
            units: [].into(),
            notes: Vec::new(),
            answer,
            predictions: Vec::new(),
        }
    }

    #[test]
    fn a_narrow_interval_is_determined_whatever_emulators_move() {
        let found = unmoved(ParameterState::AtMost);
        assert_eq!(found.verdict(), "the targets can be met together; 1 of 1 parameters are determined");
        assert_eq!((found.is_whole(), found.remarks()), (true, Vec::new()));
        let found = unmoved(ParameterState::Undetermined);
        assert!(found.verdict().starts_with("nothing is determined: ") && !found.is_whole());
        let said = [
            "target.slots: no target changes with it by more than its noise or a tenth of its interquartile range",
            "loss: no parameter moves it by more than its noise or a tenth of its interquartile range",
        ];
        assert_eq!(found.remarks(), said);
        // The error of the emulator leaves it open: neither longer runs nor more seeds are advised.
        let mut found = unmoved(ParameterState::Undetermined);
        (found.answer.parameters[0].without_effect, found.answer.targets[0].says_nothing) = (false, false);
        assert_eq!(found.verdict(), "the targets can be met together; 0 of 1 parameters are determined");
        assert_eq!(found.remarks(), ["target.slots: the targets do not determine it"]);
    }

    #[test]
    fn charts_of_profiles_have_a_unit_and_name_the_limit_of_distances() {
        let mut found = unmoved(ParameterState::Determined);
        let parameter = &mut found.answer.parameters[0];
        (parameter.unit, parameter.profile) = ("ns".into(), vec![(11.0, 0.5), (12.0, 4.0)]);
        let chart = |found: &Calibration| profile(&found.answer.parameters[0], &found.answer);
        assert_eq!(chart(&found).x.0, "value (ns)");
        assert!(chart(&found).note.ends_with(", 11 to 16."), "{}", chart(&found).note);
        found.answer.parameters[0].profile.push((13.0, 10.6));
        assert!(chart(&found).note.ends_with(", 11 to 16. Drawn up to 10 farther."), "{}", chart(&found).note);
        assert_eq!(chart(&found).series[0].points[2], (13.0, 10.0));
    }

    #[test]
    fn a_target_that_is_not_met_is_said_first() {
        let mut found = unmoved(ParameterState::Undetermined);
        found.answer.together = false;
        found.answer.targets[0].nearest = Some(0.25);
        assert_eq!(found.verdict(), "the targets cannot be met together; 0 of 1 parameters are determined");
        let said = "loss: out of reach; the nearest value of all settings run is 0.250, 25.0 deviations off";
        assert_eq!(found.remarks()[0], said);
    }
}
