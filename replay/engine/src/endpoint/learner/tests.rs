//! Tests of workers connected directly to the server, without delay.

use std::collections::BTreeMap;

use pktgen_core::config::{Document, Value};
use pktgen_core::seed::Seed;
use pktgen_wire::wire::frame::FRAME_MAX;
use pktgen_wire::wire::update::Ack;
use pktgen_workload::workload;

use super::*;
use crate::endpoint::{Server, UpdateServer};

/// A learning rate without measure makes weights infinite, and gradients of them.
#[test]
fn the_first_gradient_that_is_not_finite_is_noted() {
    let end = |rate: f64| {
        let mut bed = Bed::new(&[("learning_rate", rate.into())]);
        let mut first = None;
        while let Some((worker, iteration, model, _)) = bed.next() {
            if first.is_none() && !model.iter().all(|weight| weight.is_finite()) {
                first = Some((worker, iteration));
            }
        }
        (bed.learners.end().note, first)
    };
    assert_eq!(end(0.001), (None, None));
    let (note, first) = end(1000.0);
    let Some(Note::Diverged { worker, iteration }) = note else { panic!("{note:?}") };
    assert!(worker < 6 && iteration > 0 && iteration < 20, "{note:?}, the first infinite model is that of {first:?}");
}

struct Bed {
    learners: Learners,
    server: UpdateServer,
    pool: Pool,
    host: Host,
}

/// An answer: its worker, and the model in it.
type Answer = (u32, Vec<u8>);

fn facts(source: &dyn Source) -> Facts {
    Facts {
        seed: Seed(7),
        learning: source.known().learning(),
        ..Facts::of_test(&LearnerKind, source.population().clone())
    }
}

impl Bed {
    fn new(keys: &[(&str, Value)]) -> Bed {
        let text =
            "[workload]\nkind = \"learn\"\nclusters = 2\nworkers_per_cluster = 3\nupdates = 20\nworker_sigma = 0.4\n";
        let source = workload::open(&mut Document::parse(text, "test").unwrap(), Seed(7)).unwrap().source;
        let facts = facts(source.as_ref());
        let mut section = Section::of("endpoint", keys);
        let learners = Learners::open(&mut section, &facts, source.as_ref()).unwrap();
        let server = UpdateServer::open(&mut section, &facts).unwrap();
        Bed { learners, server, pool: Pool::new(FRAME_MAX, 8), host: Host::default() }
    }

    /// Returns the next update: its worker, its iteration, the model that it is based on, and the answers.
    fn next(&mut self) -> Option<(u32, u32, Vec<f32>, Vec<Answer>)> {
        let Bed { learners, server, pool, host } = self;
        let &Reverse((t, worker)) = learners.turns.peek()?;
        let (iteration, model) =
            (learners.agents[worker as usize].iteration(), learners.agents[worker as usize].weights());
        let model = model.to_vec();
        learners.turns.pop();
        learners.send(worker, t, pool, host);
        // As `pull` does, one at a time.
        if learners.waits {
            learners.waiting[worker as usize] = true
        } else {
            learners.begin(worker, t)
        }
        let sent = host.outgoing.pop().unwrap().frame;
        server.on_burst(0, &[sent], pool, host);
        host.deliveries.drain(..).for_each(|delivery| pool.release(delivery.frame.buffer));
        let answers: Vec<Frame> = host.outgoing.drain(..).map(|outgoing| outgoing.frame).collect();
        let mut told = Vec::new();
        for answer in answers {
            assert!(Ack::parse(pool.payload(&answer)).is_some());
            told.push((answer.flow - 1, pool.payload(&answer)[ACK_HEAD..].to_vec()));
            learners.on_burst(answer.flow, &[answer], pool, host);
        }
        Some((worker, iteration, model, told))
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

#[test]
fn synchronous_workers_hold_the_same_model_in_every_round() {
    let mut bed = Bed::new(&[("mode", "synchronous".into()), ("step", "adam".into())]);
    let (mut models, mut updates): (BTreeMap<(u16, u32), Vec<f32>>, _) = (BTreeMap::new(), 0);
    while let Some((worker, iteration, model, told)) = bed.next() {
        updates += 1;
        let cluster = bed.learners.learning.cluster_of(worker);
        assert_eq!(models.entry((cluster, iteration)).or_insert_with(|| model.clone()), &model);
        if !told.is_empty() {
            let to: Vec<u32> = told.iter().map(|(worker, _)| *worker).collect();
            assert_eq!(to, (0..3).map(|i| u32::from(cluster) * 3 + i).collect::<Vec<_>>());
        }
    }
    assert_eq!((updates, models.len()), (120, 40));
    for cluster in 0..2 {
        assert!((1..20).all(|i| models[&(cluster, i)] != models[&(cluster, i - 1)]), "every round moves the model");
    }
    assert!(models[&(0, 0)] != models[&(1, 0)], "clusters are tenants");
    assert_eq!(bed.learners.end().unfinished, None, "the last round is answered, too");
}

#[test]
fn periodic_models_change_with_every_batch_only_and_nobody_waits() {
    let mut bed = Bed::new(&[("mode", "periodic".into()), ("batch", 5u32.into())]);
    let (mut seen, mut held) = ([0; 2], [0; 2]);
    while let Some((worker, _, _, told)) = bed.next() {
        let cluster = usize::from(bed.learners.learning.cluster_of(worker));
        seen[cluster] += 1;
        assert_eq!(told.len(), if seen[cluster] % 5 == 0 { 3 } else { 0 });
        assert!(told.iter().all(|(_, model)| *model == told[0].1));
        held[cluster] += usize::from(!told.is_empty());
        assert!(bed.learners.waiting.iter().all(|waits| !waits));
    }
    assert_eq!((seen, held), ([60, 60], [12, 12]));
}

#[test]
fn asynchronous_workers_use_what_came_before_their_iteration_began() {
    let mut bed = Bed::new(&[]);
    let mut heard: Vec<Vec<Vec<f32>>> =
        (0..6).map(|worker| vec![bed.learners.learning.first_weights(worker / 3)]).collect();
    while let Some((worker, iteration, model, told)) = bed.next() {
        let own = &mut heard[worker as usize];
        // Update i starts the next iteration, on the model that answered update i − 1.
        assert_eq!(model, own[(iteration as usize).saturating_sub(1)]);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].0, worker, "exclusively to its sender (§2.1)");
        own.push(floats(&told[0].1));
    }
    assert!(heard.iter().all(|own| own.len() == 21));
    // Other workers have moved it meanwhile: the answer is the model of the whole cluster.
    assert!(heard[0][1] != heard[1][1]);
}

#[test]
fn what_cannot_be_learned_from_is_refused() {
    let source = |text| workload::open(&mut Document::parse(text, "test").unwrap(), Seed(7)).unwrap().source;
    let learn = source("[workload]\nkind = \"learn\"\nclusters = 1\n");
    let given = facts(learn.as_ref());
    let rl = source("[schedule]\noffered = \"1Gbps\"\n");
    let refused = |facts: &Facts, source: &dyn Source| {
        Learners::open(&mut Section::of("endpoint", &[]), facts, source).err().unwrap().to_string()
    };
    assert!(refused(&given, rl.as_ref()).contains("workload.kind = \"learn\""));
    let real_time = Facts { real_time: true, ..given.clone() };
    assert!(refused(&real_time, learn.as_ref()).contains("virtual time"));
    let mut section = Section::of("endpoint", &[("ack_model", "gradients".into())]);
    let message = UpdateServer::open(&mut section, &given).err().unwrap().to_string();
    assert!(message.contains("ack_model") && message.contains("weights"), "{message}");
}
