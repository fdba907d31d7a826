use super::*;
use crate::config::Document;
use crate::seed::Seed;
use crate::workload;

/// What a `[workload]` of kind "learn" makes.
fn learning(keys: &str) -> std::sync::Arc<Learning> {
    let text = format!("[workload]\nkind = \"learn\"\n{keys}\n");
    let mut document = Document::parse(&text, "test").unwrap();
    workload::open(&mut document, Seed(3)).unwrap().source.known().learning().unwrap()
}

/// The published equations, by hand: from rest at an angle of 0, a push to the right moves the cart by
/// 10/1.1 − 0.05·θ̈/1.1 and turns the pole by −(10/1.1) / (0.5·(4/3 − 0.1/1.1)).
#[test]
fn the_cart_moves_as_published() {
    let task = TASKS[0];
    let mut state = [0.0; 4];
    assert_eq!(task.step(1, &mut state), (1.0, false));
    let turns = -(10.0 / 1.1) / (0.5 * (4.0 / 3.0 - 0.1 / 1.1));
    let moves = 10.0 / 1.1 - 0.05 * turns / 1.1;
    for (found, expected) in state.iter().zip([0.0, 0.02 * moves, 0.0, 0.02 * turns]) {
        assert!((found - expected).abs() < 1e-12, "{state:?}");
    }
    // From a state at which every term counts.
    let mut state = [0.1, -0.2, 0.05, 0.3];
    task.step(0, &mut state);
    let angle: f64 = 0.05;
    let pushed = (-10.0 + 0.05 * 0.3 * 0.3 * angle.sin()) / 1.1;
    let turns = (9.8 * angle.sin() - angle.cos() * pushed) / (0.5 * (4.0 / 3.0 - 0.1 * angle.cos().powi(2) / 1.1));
    let moves = pushed - 0.05 * turns * angle.cos() / 1.1;
    for (found, expected) in state.iter().zip([0.096, -0.2 + 0.02 * moves, 0.056, 0.3 + 0.02 * turns]) {
        assert!((found - expected).abs() < 1e-12, "{state:?}");
    }
}

#[test]
fn an_episode_ends_at_the_end_of_the_track_and_when_the_pole_falls() {
    let task = TASKS[0];
    let over = |mut state: [f64; 4]| task.step(0, &mut state).1;
    assert!(!over([2.39, 0.0, 0.0, 0.0]) && over([2.39, 1.0, 0.0, 0.0]) && over([-2.39, -1.0, 0.0, 0.0]));
    assert!(!over([0.0, 0.0, 0.2, 0.0]) && over([0.0, 0.0, 0.2, 1.0]) && over([0.0, 0.0, -0.2, -1.0]));
    // Pushed one way only, the pole falls within a dozen steps.
    let (mut state, mut steps) = ([0.0; 4], 1);
    while !task.step(1, &mut state).1 {
        steps += 1;
    }
    assert!((8..=11).contains(&steps), "{steps}");
}

#[test]
fn gradients_are_the_slopes_of_the_objective() {
    for hidden in ["[5]", "[7, 4]"] {
        let learning = learning(&format!("hidden = {hidden}\nsteps = 40"));
        // Far from the first weights, where chances are even and values are small.
        let mut weights = learning.first_weights(0);
        weights.iter_mut().enumerate().for_each(|(i, w)| *w = 2.0 * *w + 0.2 * (i as f32).sin());
        let steps = learning.play(0, 0, &weights);
        let judged = learning.judge(&steps);
        let mut gradient = vec![0.0; weights.len()];
        learning.ascend(&steps, &judged, &weights, &mut gradient);
        let largest = gradient.iter().fold(0.0f32, |most, g| most.max(g.abs()));
        for i in 0..weights.len() {
            let at = |by: f32| {
                let mut moved = weights.clone();
                moved[i] += by;
                learning.objective(&steps, &judged, &moved)
            };
            let slope = (at(4e-3) - at(-4e-3)) / 8e-3;
            let error = (slope - f64::from(gradient[i])).abs() / f64::from(largest);
            assert!(error < 5e-3, "{hidden} {i}: {slope} {}", gradient[i]);
        }
    }
}

#[test]
fn returns_are_those_of_the_definition() {
    let learning = learning("steps = 60\nlimit = 25");
    let weights = learning.first_weights(0);
    let steps = learning.play(2, 9, &weights);
    let judged = learning.judge(&steps);
    let units = learning.net.units();
    let mut begin = 0;
    for &(end, last) in &steps.ends {
        assert!(end - begin <= 25);
        for t in begin..end {
            // Σ (γλ)^k δ, and the value on top.
            let value = |s: usize| if s == end { last } else { steps.units[(s + 1) * units - 1] };
            let error = |s: usize| 0.02 + 0.99 * value(s + 1) - value(s);
            let sum: f32 = (t..end).map(|s| (0.99f32 * 0.95).powi((s - t) as i32) * error(s)).sum();
            assert!((judged.returns[t] - sum - value(t)).abs() < 1e-4, "{t}");
        }
        begin = end;
    }
    let mean = judged.advantages.iter().sum::<f32>() / judged.advantages.len() as f32;
    assert!(mean.abs() < 1e-4);
}

/// Adam's step uphill, as a server has it.
fn climb(learning: &Learning, iterations: u32) -> Vec<f32> {
    let mut weights = learning.first_weights(0);
    let (mut mean, mut square) = (vec![0.0f32; weights.len()], vec![0.0f32; weights.len()]);
    let mut gradient = vec![0.0; weights.len()];
    let mut rewards = Vec::new();
    for i in 0..iterations {
        rewards.push(learning.iterate(0, i, &weights, &mut gradient).reward);
        let (a, b) = (1.0 - 0.9f32.powi(i as i32 + 1), 1.0 - 0.999f32.powi(i as i32 + 1));
        for (k, g) in gradient.iter().enumerate() {
            mean[k] += 0.1 * (g - mean[k]);
            square[k] += 0.001 * (g * g - square[k]);
            weights[k] += 0.01 * (mean[k] / a) / ((square[k] / b).sqrt() + 1e-8);
        }
    }
    rewards
}

#[test]
fn one_agent_learns_without_a_network() {
    let learning = learning("steps = 200\nlimit = 200");
    let rewards = climb(&learning, 300);
    let mean = |part: &[f32]| part.iter().sum::<f32>() / part.len() as f32;
    let (first, last) = (mean(&rewards[..20]), mean(&rewards[280..]));
    assert!((10.0..40.0).contains(&first) && last > first + 100.0, "from {first} to {last}");
    // Bit for bit the same again.
    assert_eq!(rewards, climb(&learning, 300));
}

#[test]
fn an_iteration_is_a_function_of_model_worker_and_number() {
    let learning = learning("");
    let weights = learning.first_weights(0);
    let run = |worker, iteration, weights: &[f32]| {
        let mut gradient = vec![0.0; weights.len()];
        (learning.iterate(worker, iteration, weights, &mut gradient), gradient)
    };
    let one = run(1, 5, &weights);
    assert_eq!(one, run(1, 5, &weights));
    assert!(one.1 != run(2, 5, &weights).1 && one.1 != run(1, 6, &weights).1);
    let mut other = weights.clone();
    other[0] += 0.5;
    assert!(one.1 != run(1, 5, &other).1);
    assert!(learning.first_weights(0) != learning.first_weights(1), "clusters are tenants");
}

#[test]
fn a_model_that_is_heard_is_used_from_the_next_iteration_on() {
    let learning = learning("updates = 3");
    let mut agent = Agent::new(&learning, 0);
    assert!(agent.begin(&learning).is_some());
    let (old, new) = (agent.weights().to_vec(), vec![0.25f32; learning.parameters()]);
    let bytes: Vec<u8> = new.iter().flat_map(|w| w.to_le_bytes()).collect();
    agent.hear(&bytes[4..]);
    agent.hear(&bytes);
    assert_eq!(agent.weights(), old, "what it computes on does not change");
    let mut sent = vec![0; bytes.len()];
    agent.write(&mut sent);
    let mut gradient = vec![0.0; old.len()];
    let played = learning.iterate(0, 0, &old, &mut gradient);
    assert_eq!(sent, gradient.iter().flat_map(|g| g.to_le_bytes()).collect::<Vec<_>>());
    assert_eq!((agent.reward(), agent.iteration()), (played.reward, 0));
    assert!(agent.begin(&learning).is_some());
    assert_eq!((agent.weights(), agent.iteration()), (&new[..], 1));
    assert!(agent.begin(&learning).is_some() && agent.begin(&learning).is_none(), "it has three iterations");
}

#[test]
fn slower_machines_take_longer() {
    let learning = learning("step_time = \"10ns\"\nworker_sigma = 0.5\ncompute_jitter = 0.1");
    let mean = |worker| (0..50).map(|i| learning.lasts(worker, i, 100) as f64).sum::<f64>() / 50.0;
    for worker in 0..learning.workers() {
        let expected = 1e6 * learning.slowness[worker as usize];
        assert!((mean(worker) / expected - 1.0).abs() < 0.03, "{worker}");
        let range = 0.9 * expected..=1.1 * expected;
        assert!((0..50).all(|i| range.contains(&(learning.lasts(worker, i, 100) as f64))));
    }
    assert!(learning.slowness.iter().any(|s| *s > 1.1) && learning.slowness.iter().any(|s| *s < 0.9));
}

#[test]
fn bad_values_are_named() {
    for (keys, part) in [
        ("task = \"cartpol\"", "did you mean \"cartpole\""),
        ("hidden = [0]", "workload.hidden"),
        ("hidden = [33, 56]", "2240 parameters; each layer has at least 1, and a packet holds at most 2239"),
        ("steps = 0", "workload.steps"),
        ("limit = 0", "workload.limit"),
        ("step_time = \"0ns\"", "workload.step_time"),
        ("updates = 0", "workload.updates"),
        ("compute_jitter = 1.5", "workload.compute_jitter"),
        ("clusters = 0", "workload.clusters"),
    ] {
        let text = format!("[workload]\nkind = \"learn\"\n{keys}\n");
        let mut document = Document::parse(&text, "test").unwrap();
        let message = workload::open(&mut document, Seed(3)).err().unwrap().to_string();
        assert!(message.contains(part), "{keys}: {message}");
    }
}
