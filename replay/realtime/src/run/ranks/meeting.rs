//! The common start of ranks through a shared folder: each reports that it is ready, and the first announces the start.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pktgen_core::record::{Manifest, Rank, plan_hash};
use pktgen_core::time::{SECOND, Time};
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::merge::shared_config;
use super::{Instant, RankCrew, has_ended, named};
use crate::clock::{Reading, RunClock, Stopwatch, reading};

/// File in a rank's run dir when it is ready, and file of the first rank with the start.
const READY: &str = "ready.json";
const START: &str = "start.json";
/// Facts that all ranks of one execution share, if they have them: the token of the first rank's start, and the job of the launcher.
pub(in super::super) const SHARED: [&str; 2] = ["start.token", "start.job"];
/// Interval of checks for the files of other ranks.
const LOOK: Duration = Duration::from_millis(5);
/// From so long before the start on, the threads of the run wait.
const SOON: Time = 2 * SECOND;
/// All begin with the next full second at least this far away: by then all ranks have read it.
const LEAD_NS: u64 = 300_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The common start of the ranks of a run.
#[derive(Debug, Clone)]
pub struct Meeting {
    pub(super) crew: RankCrew,
    /// The folder shared by all.
    pub(super) folder: PathBuf,
    /// Maximum wait for each other.
    pub(super) wait: Duration,
    /// Start time, without waiting for other ranks.
    at: Option<Instant>,
    /// Set if the user ends this rank, a device or a server, before the workers have ended.
    pub(super) left: Arc<AtomicBool>,
    /// The token of the first rank that announced the start.
    token: Arc<OnceLock<String>>,
}

/// Properties that must be equal for all ranks of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    seed: u64,
    trace_hash: String,
    config_hash: String,
    /// The configuration has only the name of the profile.
    #[serde(default)]
    profile_hash: Option<String>,
    tool: String,
    roles: Vec<String>,
    job: Option<String>,
}

impl About {
    fn of(manifest: &Manifest, crew: &RankCrew) -> About {
        About {
            seed: manifest.seed,
            trace_hash: manifest.trace_hash.clone(),
            config_hash: plan_hash(&shared_config(&manifest.config), std::iter::empty()),
            profile_hash: manifest.profile_hash.clone(),
            tool: manifest.tool.clone(),
            roles: crew.roles.iter().map(|roles| roles.part().unwrap_or_default().to_owned()).collect(),
            job: crew.place.job.clone(),
        }
    }

    /// Returns the difference, in words.
    fn difference(&self, other: &About) -> Option<String> {
        let two = |what: &str, a: &str, b: &str| (a != b).then(|| format!("{what} {a} and {b}"));
        two("seed", &self.seed.to_string(), &other.seed.to_string())
            .or_else(|| two("roles", &self.roles.join(","), &other.roles.join(",")))
            .or_else(|| two("tools", &self.tool, &other.tool))
            .or_else(|| two("workloads", &self.trace_hash, &other.trace_hash))
            .or_else(|| two("configurations (beside [transport] and [capture])", &self.config_hash, &other.config_hash))
            .or_else(|| {
                let [a, b] = [self, other].map(|about| about.profile_hash.as_deref().unwrap_or("none"));
                let what = two("contents of target.profile with hashes", a, b)?;
                Some(what + "; run all ranks with the same profile")
            })
    }
}

/// The report that a rank is ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Ready {
    rank: Rank,
    about: About,
    /// A unique value of this process.
    token: String,
    /// Its clocks when it became ready.
    monotonic_ns: i64,
    unix_ns: u64,
    width_ns: u64,
}

/// The announcement of the start.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Start {
    unix_ns: u64,
    /// The same instant on the monotonic clock of this boot.
    monotonic_ns: i64,
    boot_id: String,
    /// Tokens of the addressed processes, by rank.
    tokens: Vec<String>,
}

impl Meeting {
    /// Ranks meet in `folder` and wait for each other, or begin at a given time.
    pub fn new(crew: RankCrew, folder: &Path, wait: Duration, at: Option<Instant>) -> Self {
        Meeting { crew, folder: folder.to_owned(), wait, at, left: Arc::default(), token: Arc::default() }
    }

    /// Returns the processes.
    pub fn crew(&self) -> &RankCrew {
        &self.crew
    }

    /// Returns this process's entry in the manifest.
    pub fn rank(&self) -> Rank {
        self.crew.record()
    }

    /// Reports that this rank is ready for the run of `manifest`, waits for the start, and returns the clock.
    pub(crate) fn begin(&self, manifest: &Manifest, stop: &AtomicBool) -> Result<RunClock> {
        let (now, rank) = (reading(), self.rank());
        let own = Ready {
            about: About::of(manifest, &self.crew),
            token: format!("{}-{}-{}-{}", rank.boot_id, rank.pid, rank.rank, now.unix_ns),
            rank,
            monotonic_ns: now.monotonic_ns,
            unix_ns: now.unix_ns,
            width_ns: now.width_ns,
        };
        write(&self.own_dir().join(READY), &own)?;
        let clock = match (self.at, self.crew.place.rank) {
            (Some(at), _) => RunClock::start_at(at.0, reading()),
            (None, 0) => self.call(&own, stop)?,
            (None, _) => self.follow(&own, stop)?,
        };
        let late_ms = reading().unix_ns.saturating_sub(clock.anchor_unix_ns()) / 1_000_000;
        while clock.ahead() > SOON {
            if stop.load(Ordering::Acquire) {
                return Err(self.stopped("--start-at"));
            }
            std::thread::sleep(LOOK);
        }
        if clock.ahead() > 0 {
            Ok(clock)
        } else if self.at.is_some() {
            Err(Error::config(format!(
                "--start-at: by this host's clock that was {late_ms} ms ago when rank {} was ready; give a later instant",
                self.crew.place.rank
            )))
        } else {
            Err(Error::Invalid(format!(
                "rank {} learned of the start {late_ms} ms after it, by its own clock: {} is a slow file system, or the clocks of \
                 the hosts differ; synchronise them, or give all ranks the same --start-at",
                self.crew.place.rank,
                self.folder.display()
            )))
        }
    }

    /// Waits, as the first rank, for all others, and announces the start.
    fn call(&self, own: &Ready, stop: &AtomicBool) -> Result<RunClock> {
        let watch = Stopwatch::start();
        let mut seen: Vec<Option<Ready>> = vec![None; self.crew.place.of as usize];
        seen[0] = Some(own.clone());
        loop {
            for (rank, place) in (0..).zip(&mut seen).filter(|(_, place)| place.is_none()) {
                *place = self.ready(rank, own)?;
            }
            if seen.iter().all(Option::is_some) {
                break;
            }
            self.go_on(&watch, stop)?;
        }
        let now = reading();
        let unix_ns = next_second(now.unix_ns);
        let clock = RunClock::start_at(unix_ns, now);
        let tokens = seen.into_iter().flatten().map(|ready| ready.token).collect();
        let (monotonic_ns, boot_id) = (clock.anchor_monotonic_ns(), own.rank.boot_id.clone());
        write(&self.own_dir().join(START), &Start { unix_ns, monotonic_ns, boot_id, tokens })?;
        self.token.get_or_init(|| own.token.clone());
        Ok(clock)
    }

    /// Waits, as another rank, for the announcement.
    fn follow(&self, own: &Ready, stop: &AtomicBool) -> Result<RunClock> {
        let watch = Stopwatch::start();
        loop {
            let path = self.dir(0).join(START);
            // Looked up first: what it announced before its end counts.
            let ended = has_ended(&self.dir(0));
            if let Some(start) = read::<Start>(&path)? {
                if start.tokens.get(own.rank.rank as usize) != Some(&own.token) {
                    return Err(Error::data(
                        &path,
                        "it is of an earlier run, or of other processes: it does not name this one; choose another folder with --out",
                    ));
                }
                self.token.get_or_init(|| start.tokens[0].clone());
                return Ok(match start.boot_id == own.rank.boot_id {
                    true => RunClock::start_on(start.monotonic_ns, start.unix_ns),
                    false => RunClock::start_at(start.unix_ns, reading()),
                });
            }
            self.go_on(&watch, stop)?;
            if ended {
                return Err(ended_early(&[0]));
            }
        }
    }

    /// Returns the report of rank `rank`, if it is ready for the same run.
    fn ready(&self, rank: u32, own: &Ready) -> Result<Option<Ready>> {
        let path = self.dir(rank).join(READY);
        let Some(other) = read::<Ready>(&path)? else { return Ok(None) };
        let apart = Duration::from_nanos(own.unix_ns.abs_diff(other.unix_ns));
        let wrong = if own.about.job != other.about.job {
            "it is of another job of the launcher".to_owned()
        } else if apart > self.wait {
            format!(
                "it is {apart:.0?} apart from this rank's: of an earlier run, or the clocks of {} and {} differ so much",
                other.rank.host, own.rank.host
            )
        } else if other.rank.rank != rank {
            format!("rank {} wrote it", other.rank.rank)
        } else if let Some(what) = own.about.difference(&other.about) {
            return Err(Error::config(format!("rank 0 and rank {rank} are not of one run: {what}")));
        } else {
            return Ok(Some(other));
        };
        Err(Error::data(&path, format!("{wrong}; choose another folder with --out")))
    }

    /// Returns the error for a stop while waiting for `what`: by the user, or of a device or a server by the end of all workers.
    fn stopped(&self, what: &str) -> Error {
        if self.crew.role().workers || self.was_left() || !self.workers_have_ended() {
            return Error::Invalid(format!("interrupted while waiting for {what}"));
        }
        ended_early(&self.crew.senders().collect::<Vec<_>>())
    }

    /// Waits briefly; fails if a stop is requested, or after the maximum wait.
    fn go_on(&self, watch: &Stopwatch, stop: &AtomicBool) -> Result<()> {
        if stop.load(Ordering::Acquire) {
            return Err(self.stopped("the other ranks"));
        }
        if watch.elapsed() > self.wait {
            let is_ready = |rank: &u32| self.dir(*rank).join(READY).exists();
            let (ready, missing): (Vec<u32>, Vec<u32>) = (0..self.crew.place.of).partition(is_ready);
            let what = match missing.is_empty() {
                true => "rank 0 did not say when to begin, though all ranks are ready".to_owned(),
                false => format!("{}, of {}", named(&missing, "is missing", "are missing"), self.crew.place.of),
            };
            return Err(Error::config(format!(
                "after {:.0?} in {}: {what}; {}; check that all ranks run and see this folder, or wait longer with \
                 --wait-ranks",
                self.wait,
                self.folder.display(),
                named(&ready, "is ready", "are ready")
            )));
        }
        std::thread::sleep(LOOK);
        Ok(())
    }
}

/// Returns the error for ranks that ended before the start.
fn ended_early(ranks: &[u32]) -> Error {
    Error::config(named(
        ranks,
        "ended before the start; its output has the reason",
        "ended before the start; their output has the reason",
    ))
}

/// Returns the next full second that is far enough away.
fn next_second(unix_ns: u64) -> u64 {
    (unix_ns + LEAD_NS).div_ceil(SECOND_NS) * SECOND_NS
}

fn write(path: &Path, content: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(content).map_err(|e| Error::data(path, e.to_string()))?;
    write_whole(path, text + "\n").map(drop)
}

/// Reads a file that is written atomically.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(fault) => return Err(Error::io("read", path)(fault)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|e| Error::data(path, format!("it is not what a rank writes: {e}")))
}

impl Meeting {
    /// Returns facts about the start, for the manifest.
    pub(crate) fn facts(&self, clock: &RunClock, at: Reading) -> Vec<(String, String)> {
        let by = if self.at.is_some() { "--start-at" } else { "rank 0, when all were ready" };
        let role = match self.crew.role().workers {
            true => format!("workers {}", self.crew.share()),
            false => self.crew.role().part().unwrap_or_default().to_owned(),
        };
        let mut facts = vec![
            ("rank.host".into(), self.rank().host),
            ("rank.launcher".into(), self.crew.place.launcher.into()),
            ("rank.role".into(), role),
            ("start.by".into(), by.into()),
            ("start.planned_unix_ns".into(), clock.anchor_unix_ns().to_string()),
            // The wall clock is mapped to the monotonic one by reading both.
            ("start.mapping_error_ns".into(), at.width_ns.to_string()),
        ];
        let shared = SHARED.iter().zip([self.token.get(), self.crew.place.job.as_ref()]);
        facts.extend(shared.filter_map(|(name, value)| Some(((*name).to_owned(), value?.clone()))));
        facts
    }
}
