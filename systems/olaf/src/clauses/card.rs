//! The workers' and the server's side of a clause: sends updates to a congested device and checks what leaves towards the server.

use pktgen_core::config::Value;
use pktgen_core::time::{Time, US};
use pktgen_wire::wire::frame::{Datagram, HEAD, Ip, SERVER_IP, Template, any_worker, worker_ip};
use pktgen_wire::wire::update::UPDATE_HEAD;

use crate::strict::{self, PORT, Update, WORKER_PORT};
use pktgen_engine::clause::checks;
use pktgen_engine::clause::{ClauseBreach, ClauseProbe, ProbeFrame, ProbeGround, ProbeResult, ProbeStop};

/// Maximum number of gradients of an update in most clauses.
const LANES: usize = 32;
/// Length of the payload prefix by which a frame is recognised.
const KNOWN: usize = 16;
/// Number of updates sent ahead.
pub(super) const AHEAD: usize = 2;
/// Updates that leave at a distance below this share of a frame's time were late before.
const PACE: (Time, Time) = (3, 4);
/// Rewards are multiples of this: means of up to four are exact, and all are close to each other.
const REWARD: f32 = 12.0 / 64.0;

/// A sent or expected update.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sent {
    pub(super) worker: u32,
    pub(super) reward: f32,
    pub(super) values: Vec<f32>,
}

/// An update that left towards the server.
pub(super) struct Left {
    pub(super) from: Ip,
    pub(super) update: Sent,
    pub(super) frame: ProbeFrame,
}

/// The hosts around a card.
pub(super) struct Card<'p, 'a> {
    pub(super) probe: &'p mut ClauseProbe<'a>,
    /// Workers of each cluster, in random order.
    pub(super) clusters: Vec<Vec<u32>>,
    pub(super) lanes: usize,
    ahead: Vec<Sent>,
    /// Payloads of frames that are not updates, and how often each left towards the server.
    aside: Vec<(Vec<u8>, usize)>,
    /// Whether the clause is about the updates ahead.
    pub(super) judges_ahead: bool,
    /// Whether the clause is about the capacity behind these: none of them may have left before everything was sent.
    pub(super) judges_room: bool,
    /// Number of updates that keep the output busy while the others are sent; the begin, and the length of one of them.
    pub(super) shield: usize,
    begun: Option<(Time, usize)>,
    /// Departure times and lengths of the updates examined last.
    departures: Vec<(Time, usize)>,
    /// Those behind the updates ahead.
    pub(super) observed: Vec<Sent>,
    /// Number of OLAF's frames that left towards workers.
    down: usize,
}

impl<'p, 'a> Card<'p, 'a> {
    /// Creates a card with the clusters in random order.
    pub(super) fn new(probe: &'p mut ClauseProbe<'a>) -> Self {
        let clusters: Vec<_> = probe.ground.clusters().iter().map(|cluster| probe.ground.members(*cluster)).collect();
        let clusters = probe.shuffled(&clusters).iter().map(|members| probe.shuffled(members)).collect();
        Card {
            lanes: lanes(probe.ground),
            clusters,
            ahead: Vec::new(),
            aside: Vec::new(),
            judges_ahead: false,
            judges_room: false,
            shield: 0,
            begun: None,
            departures: Vec::new(),
            observed: Vec::new(),
            down: 0,
            probe,
        }
    }

    /// Returns a random reward close to all others; 0 if the filter distinguishes even those.
    pub(super) fn reward(&mut self) -> f32 {
        let apart = self.probe.ground.flag("target.reward_filter") && threshold(self.probe.ground) < REWARD * 4.0;
        if apart { 0.0 } else { REWARD * self.probe.below(5) as f32 }
    }

    /// Returns an update with small integers, whose sums are exact.
    pub(super) fn update(&mut self, worker: u32) -> Sent {
        let reward = self.reward();
        let values = (0..self.lanes).map(|_| self.probe.below(2_000_001) as f32 - 1e6).collect();
        Sent { worker, reward, values }
    }

    /// Returns the frame of an update.
    pub(super) fn frame(sent: &Sent) -> Vec<u8> {
        let mut frame = vec![0; HEAD + strict::UPDATE_HEAD + sent.values.len() * 4];
        Template::new((worker_ip(sent.worker), WORKER_PORT), (SERVER_IP, PORT), frame.len()).emit(&mut frame);
        Update { reward: sent.reward, elements: sent.values.len() as u16 }.emit(&mut frame[HEAD..]);
        let bytes = sent.values.iter().flat_map(|value| value.to_le_bytes());
        frame[HEAD + strict::UPDATE_HEAD..].iter_mut().zip(bytes).for_each(|(at, byte)| *at = byte);
        frame
    }

    /// Sends an update from its worker.
    pub(super) fn send(&mut self, sent: &Sent) -> ProbeResult<()> {
        let (now, frame) = (self.probe.now(), Self::frame(sent));
        self.begun.get_or_insert((now, frame.len()));
        self.probe.send(sent.worker, &frame)
    }

    /// Sends these updates in order.
    pub(super) fn send_all(&mut self, all: &[Sent]) -> ProbeResult<()> {
        all.iter().try_for_each(|sent| self.send(sent))
    }

    /// Sends a frame that is not an update from this worker's side: the device drops it or forwards it unchanged.
    pub(super) fn send_aside(&mut self, worker: u32, frame: &[u8]) -> ProbeResult<()> {
        self.aside.push((frame[HEAD..].to_vec(), 0));
        self.probe.send(worker, frame)
    }

    /// Returns how many frames that are not updates left.
    pub(super) fn left_aside(&self) -> usize {
        self.aside.iter().map(|(_, times)| times).sum()
    }

    /// Returns the index of a frame that is not an update, by the beginning of its payload.
    fn which_aside(aside: &[(Vec<u8>, usize)], frame: &ProbeFrame) -> Option<usize> {
        let payload = frame.bytes.get(HEAD..).unwrap_or_default();
        let begins = |sent: &[u8]| payload.get(..sent.len().min(KNOWN)) == sent.get(..sent.len().min(KNOWN));
        aside.iter().position(|(sent, _)| begins(sent))
    }

    /// Returns the frames that left towards the server, without those that are not updates; waits for `count` updates.
    fn up(&mut self, count: usize) -> ProbeResult<Vec<ProbeFrame>> {
        let (server, aside) = (self.probe.ground.server.unwrap_or_default(), &mut self.aside);
        let is_update = |frame: &&ProbeFrame| frame.port == server && Self::which_aside(aside, frame).is_none();
        let frames = self.probe.expect(|frames| frames.iter().filter(is_update).count() >= count)?;
        let (up, down): (Vec<_>, Vec<_>) = frames.into_iter().partition(|frame| frame.port == server);
        self.down += down.iter().filter(|frame| is_of_olaf(frame)).count();
        let (aside_up, updates): (Vec<_>, Vec<_>) =
            up.into_iter().partition(|frame| Self::which_aside(aside, frame).is_some());
        for frame in &aside_up {
            if let Some(at) = Self::which_aside(aside, frame) {
                aside[at].1 += 1;
            }
        }
        self.note_departures(&updates);
        match self.aside.iter().find(|(_, times)| *times > 1) {
            Some((_, times)) => Err(ClauseBreach::stop("copies of a frame that is no update", "one at most", times)),
            None => Ok(updates),
        }
    }

    /// Checks that nothing of the updates so far left towards workers.
    pub(super) fn leaves_nothing_down(&self) -> ProbeResult<()> {
        checks::same(&"updates", "frames at the workers' ports", 0, self.down)
    }

    /// Stores the departure times of these updates.
    pub(super) fn note_departures(&mut self, updates: &[ProbeFrame]) {
        self.departures = updates.iter().map(|frame| (frame.t, frame.bytes.len())).collect();
        self.departures.sort_unstable();
    }

    /// Returns the breach, or "undecidable" if times do not show that the updates arrived while the output was busy: a
    /// frame that reaches an idle output, or that a host receives late, meets another queue than the clause is about.
    pub(super) fn unless_late(&self, breach: ProbeStop) -> ProbeStop {
        self.lateness().map_or(breach, ProbeStop::Undecidable)
    }

    /// Checks that times, if available, show that the updates arrived while the output was busy.
    pub(super) fn in_time(&self) -> ProbeResult<()> {
        self.lateness().map_or(Ok(()), |why| Err(ProbeStop::Undecidable(why)))
    }

    fn lateness(&self) -> Option<String> {
        let (ground, (begun, bytes)) = (self.probe.ground, self.begun?);
        let (one, took) = (ground.busy(bytes)?, self.probe.last_sent() - begun);
        let busy = one * self.shield as Time;
        if self.shield > 0 && took > busy {
            return Some(format!(
                "the stimulus came too late: it took {} µs, and what is ahead keeps the output busy for {} µs (topology.rate); a slower output \
                 keeps it busy longer",
                took / US,
                busy / US
            ));
        }
        let mut pairs = self.departures.windows(2).map(|pair| (pair[1].0 - pair[0].0, pair[1].1));
        let near = pairs.find(|(gap, bytes)| ground.busy(*bytes).is_some_and(|least| *gap < least / PACE.1 * PACE.0));
        near.map(|(gap, _)| {
            format!(
                "updates left {} µs apart, and the output takes {} µs for one (topology.rate): the device or this host was late, or its output \
                 is faster",
                gap / US,
                one / US
            )
        })
    }

    /// Checks that two more updates of a cluster merge behind two others, so that the device merges at all. Otherwise
    /// the observations of the clause have no meaning.
    pub(super) fn merges_at_all(&mut self) -> ProbeResult<()> {
        self.congest()?;
        let members = self.clusters[0].clone();
        let both = [self.update(members[0]), self.update(members[1])];
        self.send_all(&both)?;
        self.merged_at_all(1)
    }

    /// Checks that `count` updates leave, fewer than were sent.
    pub(super) fn merged_at_all(&mut self, count: usize) -> ProbeResult<()> {
        match self.left(count)?.len() {
            left if left == count => Ok(()),
            _ => {
                Err(ProbeStop::Undecidable("nothing was merged, so nothing of a merge could show (olaf-merge)".into()))
            }
        }
    }

    /// Sorts the clusters of the first and of the last worker to the front.
    pub(super) fn outermost_first(&mut self) {
        let last = self.probe.ground.workers.len() as u32 - 1;
        self.clusters.sort_by_key(|members| !(members.contains(&0) || members.contains(&last)));
    }

    /// Removes two clusters and sends an update of each: later updates wait behind them.
    pub(super) fn congest(&mut self) -> ProbeResult<()> {
        self.ahead.clear();
        (self.shield, self.begun) = (AHEAD, None);
        for _ in 0..AHEAD {
            let worker = self.clusters.pop().and_then(|members| members.first().copied()).unwrap_or_default();
            let update = self.update(worker);
            self.send(&update)?;
            self.ahead.push(update);
        }
        Ok(())
    }

    /// Returns the updates that leave towards the server behind the updates ahead. The last of those must have left
    /// after everything was sent. Waits for `count` updates behind them.
    pub(super) fn left(&mut self, count: usize) -> ProbeResult<Vec<Left>> {
        let last = self.probe.last_sent();
        let up = self.up(self.ahead.len() + count)?;
        let mut left = up.into_iter().map(read).collect::<ProbeResult<Vec<Left>>>()?;
        for (n, ahead) in self.ahead.iter().enumerate() {
            if left.get(n).is_none_or(|it| !alike(&it.update.values, &ahead.values)) {
                if self.judges_ahead {
                    let what = format!("update {n} of the two ahead, of another cluster");
                    return Err(ClauseBreach::stop(what, "as it was sent, in its place", "another"));
                }
                return Err(ProbeStop::Undecidable(format!(
                    "update {n} of the two ahead did not leave as it was, in its place"
                )));
            }
        }
        let (which, name) = if self.judges_room { (0, "first") } else { (1, "second") };
        let times: Vec<Time> = left.iter().map(|one| one.frame.t).collect();
        self.was_busy(times.get(which..).and_then(departed), last, name)?;
        left.drain(..self.ahead.len());
        self.observed = left.iter().map(|one| one.update.clone()).collect();
        Ok(left)
    }

    /// Checks that the update ahead with this name left after the last frame arrived.
    pub(super) fn was_busy(&self, left: Option<Time>, last: Time, name: &str) -> ProbeResult<()> {
        match left {
            Some(left) if left > last || self.ahead.is_empty() => Ok(()),
            None if self.ahead.is_empty() => Ok(()),
            left => Err(ProbeStop::Undecidable(format!(
                "the output was not busy long enough: the {name} update ahead left {} µs before the last frame went in; a slower output \
                 (topology.rate) keeps it busy",
                left.map_or(0, |left| (last - left) / US)
            ))),
        }
    }

    /// Checks that exactly these updates leave, in this order, by their gradients.
    pub(super) fn leaves(&mut self, expected: &[Sent]) -> ProbeResult<Vec<Left>> {
        let left = self.left(expected.len())?;
        if left.len() != expected.len() {
            return Err(self.miscounted(expected.len(), left.len()));
        }
        for (n, (left, expected)) in left.iter().zip(expected).enumerate() {
            has_values(n, &left.update.values, &expected.values)?;
        }
        Ok(left)
    }

    /// Returns the breach for another number of updates behind the two ahead.
    pub(super) fn miscounted(&self, expected: usize, observed: usize) -> ProbeStop {
        self.unless_late(ClauseBreach::stop("updates that left behind the two ahead", expected, observed))
    }

    /// Does the same including rewards and addresses.
    pub(super) fn leaves_whole(&mut self, expected: &[Sent]) -> ProbeResult<()> {
        let left = self.leaves(expected)?;
        left.iter().zip(expected).enumerate().try_for_each(|(n, (left, expected))| same(n, left, expected))
    }
}

/// Returns the number of gradients of an update.
fn lanes(ground: &ProbeGround) -> usize {
    most_lanes(ground).min(LANES)
}

/// Returns the number of gradients that fit the experiment's largest frame, if another update may have one more.
pub(super) fn most_lanes(ground: &ProbeGround) -> usize {
    let room = ground.frame_bytes.saturating_sub(HEAD + UPDATE_HEAD) / 4;
    room.saturating_sub(1).max(2)
}

/// Returns the length of an update's frame.
pub(super) fn update_bytes(ground: &ProbeGround) -> usize {
    HEAD + strict::UPDATE_HEAD + 4 * lanes(ground)
}

/// Returns an upper limit of the time at which the first of these frames left a busy output. A host that received it
/// late received those behind it at a distance below a frame's time, so it had left before.
pub(super) fn departed(taken: &[Time]) -> Option<Time> {
    let mut gaps: Vec<Time> = taken.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    // Slightly less, so that an output with varying gaps is not considered late.
    let apart = gaps.get(gaps.len() / 2).map_or(0, |middle| middle / 10 * 9);
    taken.iter().zip(0..).map(|(t, n)| t - n * apart).min()
}

/// Returns the difference above which rewards are not comparable.
pub(super) fn threshold(ground: &ProbeGround) -> f32 {
    match ground.keys.get("target.reward_threshold") {
        Some(Value::Float(own)) => *own as f32,
        Some(Value::Integer(own)) => *own as f32,
        _ => 1.5,
    }
}

/// Checks reward and address.
pub(super) fn same(n: usize, left: &Left, expected: &Sent) -> ProbeResult<()> {
    if !alike(&[left.update.reward], &[expected.reward]) {
        return Err(ClauseBreach::stop(format!("reward of update {n}"), expected.reward, left.update.reward));
    }
    from(n, left, expected.worker)
}

/// Checks by its address that the update is from this worker.
pub(super) fn from(n: usize, left: &Left, worker: u32) -> ProbeResult<()> {
    if left.from == worker_ip(worker) {
        return Ok(());
    }
    let observed = any_worker(left.from).map_or("another".to_owned(), |other| format!("that of worker {other}"));
    Err(ClauseBreach::stop(format!("source address of update {n}"), format!("that of worker {worker}"), observed))
}

/// Whether numbers are equal bit by bit; all NaNs are equal.
pub(super) fn alike(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
}

/// Checks the gradients.
pub(super) fn has_values(n: usize, observed: &[f32], expected: &[f32]) -> ProbeResult<()> {
    if observed.len() != expected.len() {
        return Err(ClauseBreach::stop(format!("gradients of update {n}"), expected.len(), observed.len()));
    }
    match (0..expected.len()).find(|i| !alike(&observed[*i..=*i], &expected[*i..=*i])) {
        None => Ok(()),
        Some(i) => {
            let said = |value: f32| format!("{value:e} ({:#010x})", value.to_bits());
            Err(ClauseBreach::stop(format!("gradient {i} of update {n}"), said(expected[i]), said(observed[i])))
        }
    }
}

/// Returns the merge of these updates in the order of arrival, added one after another.
pub(super) fn merged(all: &[Sent], largest: bool) -> Sent {
    let mut sum = all[0].clone();
    for next in &all[1..] {
        sum.values.iter_mut().zip(&next.values).for_each(|(sum, value)| *sum += value);
        sum.worker = next.worker;
    }
    let rewards = all.iter().map(|sent| sent.reward);
    sum.reward = if largest { rewards.fold(f32::MIN, f32::max) } else { rewards.sum::<f32>() / all.len() as f32 };
    sum
}

/// Returns whether a frame is to a port of updates or of acknowledgements.
fn is_of_olaf(frame: &ProbeFrame) -> bool {
    Datagram::parse(&frame.bytes).is_some_and(|datagram| [PORT, WORKER_PORT].contains(&datagram.dst_port))
}

fn read(frame: ProbeFrame) -> ProbeResult<Left> {
    let datagram =
        Datagram::parse(&frame.bytes).filter(|datagram| datagram.dst == SERVER_IP && datagram.dst_port == PORT);
    let found = datagram.and_then(|datagram| Some((datagram, Update::parse(datagram.payload)?)));
    let Some((datagram, update)) = found else {
        let what = format!("a frame of {} bytes at the server's port", frame.bytes.len());
        return Err(ClauseBreach::stop(what, "a strict OLAF update to the server", "none"));
    };
    let bytes = datagram.payload[strict::UPDATE_HEAD..].as_chunks::<4>().0;
    let values = bytes.iter().map(|four| f32::from_le_bytes(*four)).collect();
    let worker = any_worker(datagram.src).unwrap_or(u32::MAX);
    Ok(Left { from: datagram.src, update: Sent { worker, reward: update.reward, values }, frame })
}
