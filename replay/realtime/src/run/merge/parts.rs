//! The run dirs to be joined: their roles, their consistency, and the recovery of killed ones.

use std::fs::File;
use std::path::{Path, PathBuf};

use pktgen_core::config::Document;
use pktgen_core::record::digest::verify_run;
use pktgen_core::record::{Manifest, Note, Rank, RunState, Verified};
use pktgen_core::regular::check_regular;
use pktgen_core::shard::Shard;
use pktgen_core::time::{HORIZON, NS, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};

use super::super::ranks::{SHARED, writes};
use super::super::shard::of_known_version;
use super::super::text;
use crate::capture::{check_finished, hold, recover_copy};
use crate::catalogue::Catalogue;

/// The parts, in the order of the path.
pub(super) const PARTS: [&str; 3] = ["workers", "device", "server"];
/// Sections of a configuration that may differ between the parts: each has separate interfaces and files.
const OWN: [&str; 2] = ["transport", "capture"];

/// A part: its folder and manifest.
pub(super) struct Part {
    /// Folder of its records.
    pub(super) dir: PathBuf,
    /// The given folder.
    given: PathBuf,
    pub(super) manifest: Manifest,
    /// Whether its files were compared with their digests.
    pub(super) verified: Verified,
    /// Its process did not live to its end.
    pub(super) killed: bool,
    /// The recovered copy, kept as long as it is read.
    _recovered: Option<Recovered>,
}

/// A readable copy of the run dir of a killed process, in a folder of its own; removed on drop.
struct Recovered {
    folder: PathBuf,
    /// The lock of the folder; none if its file system has no locks.
    _held: Option<File>,
}

/// Name of the copy in its folder.
const COPY: &str = "run";

impl Drop for Recovered {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Recovered {
    fn copy(&self) -> PathBuf {
        self.folder.join(COPY)
    }

    /// Copies what reached the disk of the run in `dir`, up to the last whole batch, to a folder beside `out`, and
    /// replaces the copy that an interrupted merge left there. The run dir is not changed: its process may be alive on
    /// another host.
    fn of(dir: &Path, rank: &Rank, out: &Path) -> Result<Self> {
        // Before the copy, whose files an error would name.
        check_finished(dir)?;
        let name = out.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = out.with_file_name(format!("{name}.recovering-{}", rank.rank));
        std::fs::create_dir_all(&folder).map_err(Error::io("create folder", &folder))?;
        let held = hold(&folder)?;
        let left = std::fs::read_dir(&folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let left = left.map_err(Error::io("read", &folder))?;
        // Without a lock, another process may write the copy.
        if left.iter().any(|entry| held.is_none() || entry.file_name() != COPY) {
            return Err(Error::config(format!(
                "{0}: a copy of the killed rank {1} is made there, and the folder is not empty; choose another -o, or, \
                 if no other merge is in progress, remove it: rm -r {0}",
                folder.display(),
                rank.rank
            )));
        }
        let recovered = Recovered { folder, _held: held };
        let copy = recovered.copy();
        if !left.is_empty() {
            std::fs::remove_dir_all(&copy).map_err(Error::io("remove", &copy))?;
        }
        std::fs::create_dir(&copy).map_err(Error::io("create folder", &copy))?;
        for entry in std::fs::read_dir(dir).map_err(Error::io("read", dir))? {
            let from = entry.map_err(Error::io("read", dir))?.path();
            let to = copy.join(from.file_name().unwrap_or_default());
            if from.is_file() {
                std::fs::copy(&from, &to).map_err(Error::io("copy", &from))?;
            }
        }
        recover_copy(&copy)?;
        Ok(recovered)
    }
}

/// Reads the manifest in `dir` and compares its files with it, unless the user waives that.
fn read_manifest(dir: &Path, waived: bool) -> Result<(Manifest, Verified)> {
    let path = dir.join("manifest.json");
    check_regular(&path)?;
    let text = std::fs::read(&path).map_err(|e| {
        Error::config(format!(
            "{}: it cannot be read: {e}; give the run dirs of workers, device and, if there is one, server",
            path.display()
        ))
    })?;
    let manifest: Manifest = serde_json::from_value(of_known_version(&path, &text)?)
        .map_err(|e| Error::data(&path, format!("not a run manifest: {e}")))?;
    let verified = if waived { Verified::Waived } else { verify_run(dir, &text, &manifest.files)? };
    Ok((manifest, verified))
}

impl Part {
    /// Whether it ended at `capture.until`.
    pub(super) fn is_cut(&self) -> bool {
        self.manifest.validity.notes.iter().any(|note| matches!(note, Note::CutOff { .. }))
    }

    fn read(given: &Path, out: &Path, waived: bool) -> Result<Self> {
        let (manifest, verified) = read_manifest(given, waived)?;
        if manifest.part.is_some() && manifest.records != "full" {
            return Err(Error::config(format!(
                "{}: its records are \"{}\", and the balance is settled from all of them; run the parts with capture.records = \"full\"",
                given.display(),
                manifest.records
            )));
        }
        let mut part = Part { verified, ..Part::of(given.to_owned(), manifest) };
        if part.manifest.state != RunState::Running {
            return Ok(part);
        }
        // For ranks it is known what is missing without one, so the whole can state it.
        let Some(rank) = &part.manifest.rank else {
            let path = given.join("manifest.json");
            return Err(Error::data(&path, "the run is still under way, or was killed: pktgen analyze --recover"));
        };
        if writes(given, rank) == Some(true) {
            return Err(Error::config(format!(
                "{}: {} is still under way (process {}); wait for its end, or end it",
                given.display(),
                part.label(),
                rank.pid
            )));
        }
        let recovered = Recovered::of(given, rank, out)?;
        let dir = recovered.copy();
        let (manifest, _) = read_manifest(&dir, true)?;
        part = Part { dir, manifest, killed: true, _recovered: Some(recovered), ..part };
        Ok(part)
    }

    /// A part whose process ended by itself.
    pub(super) fn of(dir: PathBuf, manifest: Manifest) -> Self {
        Part { dir: dir.clone(), given: dir, manifest, verified: Verified::Whole, killed: false, _recovered: None }
    }

    pub(super) fn name(&self) -> &str {
        self.manifest.part.as_deref().unwrap_or("whole run")
    }

    /// Returns its name in messages; for ranks with number and host.
    pub(super) fn label(&self) -> String {
        match &self.manifest.rank {
            None => self.name().to_owned(),
            Some(Rank { rank, share, host, .. }) => {
                let share = share.as_ref().map(|share| format!(" {share}")).unwrap_or_default();
                format!("rank {rank} ({}{share} on {host})", self.name())
            }
        }
    }

    /// Returns the prefix of its facts in the whole.
    pub(super) fn prefix(&self) -> String {
        self.manifest.rank.as_ref().map_or(self.name().to_owned(), |rank| format!("rank-{}", rank.rank))
    }

    pub(super) fn fact(&self, key: &str) -> &str {
        self.manifest.host.get(key).map_or("", String::as_str)
    }

    /// Returns its share of the workers.
    fn share(&self) -> Result<Shard> {
        let share = self.manifest.rank.as_ref().and_then(|rank| rank.share.as_deref());
        share.map_or(Ok(Shard::WHOLE), str::parse).map_err(|why| Error::data(&self.given, why))
    }

    fn place(&self) -> Option<usize> {
        PARTS.iter().position(|name| *name == self.name())
    }

    fn document(&self) -> Result<Document> {
        Document::parse(&self.manifest.config, &self.given.join("manifest.json").display().to_string())
    }

    /// Returns whether it is of a run with a server. Without one, results return to the workers.
    fn has_server(&self, catalogue: &Catalogue) -> Result<bool> {
        let workers = text(&self.document()?, "endpoint.workers", catalogue.defaults.workers);
        Ok(catalogue.workers.iter().find(|kind| kind.name() == workers).is_none_or(|kind| kind.behaviour().has_server))
    }

    /// Returns whether it is that of a rank.
    pub(super) fn is_rank(&self) -> bool {
        self.manifest.rank.is_some()
    }

    /// Returns whether its time has begun.
    pub(super) fn began(&self) -> bool {
        self.manifest.anchor_unix_ns > 0 || !self.fact("clock.boot_id").is_empty()
    }

    /// Returns the beginning of its time on the monotonic clock of its boot.
    fn monotonic_ns(&self) -> Result<i64> {
        let text = self.fact("clock.anchor_monotonic_ns");
        text.parse().map_err(|_| Error::data(&self.given, format!("its clock's anchor \"{text}\" is no number")))
    }

    /// Returns the beginning of its time on the wall clock of the first of `parts` with its boot: those of one boot are joined by the monotonic
    /// clock.
    pub(super) fn anchor_ns(&self, parts: &[Part]) -> Result<i64> {
        let boot = self.fact("clock.boot_id");
        let first = parts.iter().find(|part| part.began() && part.fact("clock.boot_id") == boot);
        match first.filter(|_| !boot.is_empty()) {
            Some(first) if !std::ptr::eq(first, self) => {
                let after = self.monotonic_ns()?.saturating_sub(first.monotonic_ns()?);
                Ok((first.manifest.anchor_unix_ns as i64).saturating_add(after))
            }
            _ => Ok(self.manifest.anchor_unix_ns as i64),
        }
    }
}

/// Returns the configuration without sections that may differ between parts.
pub(in super::super) fn shared_config(config: &str) -> String {
    let own = |line: &str| OWN.iter().any(|name| line == format!("[{name}]") || line.starts_with(&format!("[{name}.")));
    let mut keep = true;
    let lines = config.lines().filter(|line| {
        if line.starts_with('[') {
            keep = !own(line);
        }
        keep
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the parts of one run in the order of the path: workers by their shares, device, server. A run without a
/// server has no such part, and one with a device without books has no device.
pub(super) fn find_parts(catalogue: &Catalogue, dirs: &[PathBuf], out: &Path, waived: bool) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for dir in dirs {
        let part = Part::read(dir, out, waived)?;
        if part.place().is_none() {
            return Err(Error::config(format!(
                "{} is a {}, not a part of one: parts are made by pktgen replay --role workers, pktgen target and pktgen capture",
                dir.display(),
                part.name()
            )));
        }
        parts.push(part);
    }
    let of = |name: &str| parts.iter().filter(|part| part.name() == name).collect::<Vec<_>>();
    check_shares(&of(PARTS[0]))?;
    for name in &PARTS[1..] {
        if let [one, two, ..] = of(name)[..] {
            let (one, two) = (one.given.display(), two.given.display());
            return Err(Error::config(format!(
                "{one} and {two} are both the {name} part; give one of each: workers, device, server"
            )));
        }
    }
    let (mut has_server, mut has_books) = (true, true);
    for part in &parts {
        has_server &= part.has_server(catalogue)?;
        has_books &= text(&part.document()?, "target.kind", "") != "external";
    }
    let needed = [true, has_books, has_server];
    if let Some((missing, _)) = PARTS.iter().zip(needed).find(|(name, needed)| *needed && of(name).is_empty()) {
        let all: Vec<_> = PARTS.iter().zip(needed).filter(|(_, needed)| *needed).map(|(name, _)| *name).collect();
        let all = format!("{}{}", ["", "", "both: ", "all three: "][all.len()], all.join(", "));
        return Err(Error::config(format!("the {missing} part is missing; give the run dirs of {all}")));
    }
    if let Some(server) = of(PARTS[2]).first().filter(|_| !has_server) {
        return Err(Error::config(format!(
            "{} is a server part, and the run of the others has no server; give its workers and device only",
            server.given.display()
        )));
    }
    parts.sort_by_key(|part| (part.place(), part.share().map_or(0, Shard::index)));
    Ok(parts)
}

/// Checks that each share of the workers is present once.
fn check_shares(workers: &[&Part]) -> Result<()> {
    let Some(first) = workers.first() else { return Ok(()) };
    let of = first.share()?.of();
    let mut found: Vec<Option<&Part>> = vec![None; usize::try_from(of).unwrap_or(0)];
    for part in workers {
        let (one, two) = (first.given.display(), part.given.display());
        let share = part.share()?;
        if share.of() != of {
            let shares = format!("{} and {share}", first.share()?);
            return Err(Error::config(format!("{one} and {two} are not of one run: shares {shares} of the workers")));
        }
        if let Some(other) = found[share.index() as usize - 1].replace(part) {
            let (one, what) = (other.given.display(), if of > 1 { format!(", share {share}") } else { String::new() });
            return Err(Error::config(format!(
                "{one} and {two} are both the workers part{what}; give one of each: workers, device, server"
            )));
        }
    }
    let missing: Vec<_> =
        (1..).zip(&found).filter(|(_, part)| part.is_none()).map(|(i, _)| format!("{i}/{of}")).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::config(format!(
            "share {} of the workers is missing; give the run dirs of all ranks",
            missing.join(", ")
        ))),
    }
}

/// Refuses parts of different runs.
pub(super) fn same_run(one: &Part, other: &Part) -> Result<()> {
    let (a, b) = (&one.manifest, &other.manifest);
    let what = if a.seed != b.seed {
        format!("seed {} and {}", a.seed, b.seed)
    } else if a.trace_hash != b.trace_hash {
        "different workloads".to_owned()
    } else if let Some(line) = first_difference(&shared_config(&a.config), &shared_config(&b.config)) {
        line
    } else if let (Some(a), Some(b)) = (&a.profile_hash, &b.profile_hash)
        && a != b
    {
        format!("contents of target.profile with hashes {a} and {b}; run all parts with the same profile")
    } else if a.tool != b.tool {
        format!("tools {} and {}; run all parts with the same build", a.tool, b.tool)
    } else {
        return Ok(());
    };
    Err(unlike(one, other, &what))
}

fn unlike(one: &Part, other: &Part, what: &str) -> Error {
    Error::config(format!("{} and {} are not of one run: {what}", one.given.display(), other.given.display()))
}

/// Refuses ranks of different executions: each with the first one that has the fact.
pub(super) fn one_execution(parts: &[Part]) -> Result<()> {
    let mut began = parts.iter().filter(|part| part.is_rank() && part.began());
    if let Some(first) = began.next()
        && let Some(other) = began.find(|other| other.manifest.anchor_unix_ns != first.manifest.anchor_unix_ns)
    {
        return Err(unlike(first, other, "ranks that did not begin at the same instant"));
    }
    for fact in SHARED {
        let mut having = parts.iter().filter(|part| !part.fact(fact).is_empty());
        let Some(first) = having.next() else { continue };
        if let Some(other) = having.find(|other| other.fact(fact) != first.fact(fact)) {
            let what = format!("{fact} {} and {}: ranks of different executions", first.fact(fact), other.fact(fact));
            return Err(unlike(first, other, &what));
        }
    }
    Ok(())
}

fn first_difference(a: &str, b: &str) -> Option<String> {
    let (mut a, mut b) = (a.lines(), b.lines());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return None,
            (x, y) if x == y => {}
            (x, y) => return Some(format!("\"{}\" and \"{}\"", x.unwrap_or_default(), y.unwrap_or_default())),
        }
    }
}

/// Returns the delay of each part's start relative to the first one, and whether all are by the same clock.
pub(super) fn anchors(parts: &[Part]) -> Result<(Vec<Time>, bool)> {
    let Some(first) = parts.iter().find(|part| part.began()) else { return Ok((vec![0; parts.len()], true)) };
    let boot = first.fact("clock.boot_id");
    let mut began = parts.iter().filter(|part| part.began());
    let one_host = !boot.is_empty() && began.all(|part| part.fact("clock.boot_id") == boot);
    let base = first.anchor_ns(parts)?;
    let late = |part: &Part| {
        if !part.began() {
            return Ok(0);
        }
        let after_ns = part.anchor_ns(parts)?.checked_sub(base);
        after_ns.and_then(|ns| ns.checked_mul(NS)).filter(|late| late.abs() < HORIZON).ok_or_else(|| {
            Error::config(format!(
                "{} and {} did not run at the same time: their clocks are more than {} apart",
                first.given.display(),
                part.given.display(),
                Span::from_ps(HORIZON)
            ))
        })
    };
    Ok((parts.iter().map(late).collect::<Result<_>>()?, one_host))
}

/// Refuses parts that did not run at the same time: they belong to different executions of one configuration, or the wall clocks of
/// their hosts differ by more than `slack`.
pub(super) fn same_time(parts: &[Part], late: &[Time], slack: Time, one_host: bool) -> Result<()> {
    // The duration of killed ones is unknown, and the time of others may not have begun.
    let mut known = parts.iter().zip(late).filter(|(part, _)| !part.killed && part.began());
    let Some((workers, &from)) = known.next() else { return Ok(()) };
    let end = workers.manifest.counters.end_ps;
    for (part, &start) in known {
        let start = start - from;
        if start > end + slack || start + part.manifest.counters.end_ps < -slack {
            return Err(Error::config(format!(
                "{} and {} did not run at the same time: one began {:.3} s after the other and they lasted {:.3} s and {:.3} s{}",
                workers.given.display(),
                part.given.display(),
                start as f64 / 1e12,
                end as f64 / 1e12,
                part.manifest.counters.end_ps as f64 / 1e12,
                if one_host {
                    ""
                } else {
                    "; if they did, give the largest difference of the hosts' clocks: --clock-error"
                }
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod testing {
    use super::super::agreement::CLOCK_ERROR;
    use super::*;

    /// A part of a host with this boot and error of its wall clock.
    pub(crate) fn part(name: &str, boot: &str, error_ns: Option<&str>) -> Part {
        let json = serde_json::json!({
            "version": 1, "tool": "t", "experiment": "x", "labels": {}, "seed": 1, "state": "finished", "part": name,
            "anchor_unix_ns": 7, "created_unix_ns": 0, "trace_hash": "t", "config": "", "clocks": {},
            "host": { "clock.boot_id": boot }, "nodes": [], "records": "full", "clusters": [],
            "balance": pktgen_core::record::Balance::default(), "balance_by_worker": [],
            "counters": pktgen_core::record::Counters::default(), "validity": { "valid": false, "reasons": [] },
        });
        let mut manifest: Manifest = serde_json::from_value(json).unwrap();
        manifest.host.extend(error_ns.map(|ns| (CLOCK_ERROR.to_owned(), ns.to_owned())));
        Part::of(PathBuf::from(name), manifest)
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::MANIFEST_VERSION;
    use pktgen_core::time::SECOND;

    use super::testing::part;
    use super::*;
    use crate::capture::write_manifest;

    #[test]
    fn the_copy_that_an_interrupted_merge_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, out) = (folder.path().join("rank-3"), folder.path().join("whole"));
        let rank = Rank { rank: 3, ..Rank::default() };
        std::fs::create_dir(&dir).unwrap();
        let mut manifest = part("workers", "a", None).manifest;
        (manifest.state, manifest.rank) = (RunState::Running, Some(rank.clone()));
        write_manifest(&dir, &manifest).unwrap();
        let beside = folder.path().join("whole.recovering-3");
        std::fs::create_dir_all(beside.join(COPY)).unwrap();
        std::fs::write(beside.join(COPY).join("sent.arrows"), "half").unwrap();
        let recovered = Recovered::of(&dir, &rank, &out).unwrap();
        assert!(recovered.copy().join("sent.parquet").is_file() && !recovered.copy().join("sent.arrows").exists());
        let refused = || Recovered::of(&dir, &rank, &out).err().unwrap().to_string();
        assert!(refused().contains("still under way"), "another merge is in progress");
        drop(recovered);
        assert!(!beside.exists());
        // Other content is not of a merge.
        std::fs::create_dir_all(beside.join(COPY)).unwrap();
        std::fs::write(beside.join("mine"), "mine").unwrap();
        let why = refused();
        assert!(why.contains(&format!("rm -r {}", beside.display())), "{why}");
        assert!(beside.join("mine").is_file() && beside.join(COPY).is_dir());
        // A file of others is named where it is.
        let others = dir.join("states.parquet");
        std::fs::write(&others, "mine").unwrap();
        assert!(refused().contains(&others.display().to_string()));
    }

    /// Manifests of older builds have no hash of the profile: their parts are joined as before.
    #[test]
    fn parts_with_different_profiles_are_not_of_one_run() {
        let with = |name: &str, hash: Option<&str>| {
            let mut part = part(name, "a", None);
            part.manifest.profile_hash = hash.map(str::to_owned);
            part
        };
        let server = with("server", Some("p"));
        for hash in [None, Some("p")] {
            assert!(same_run(&with("workers", hash), &server).is_ok(), "{hash:?}");
        }
        let why = same_run(&with("workers", Some("q")), &server).unwrap_err().to_string();
        assert!(why.contains("contents of target.profile with hashes q and p; run all parts with the same"), "{why}");
    }

    #[test]
    fn parts_of_different_builds_are_not_of_one_run() {
        let (workers, mut server) = (part("workers", "a", None), part("server", "a", None));
        assert!(same_run(&workers, &server).is_ok());
        server.manifest.tool = "pktgen 9.9.9 (deadbeef)".to_owned();
        let why = same_run(&workers, &server).unwrap_err().to_string();
        assert!(why.contains("tools t and pktgen 9.9.9 (deadbeef); run all parts with the same build"), "{why}");
    }

    /// Of several hosts it may be their clocks that differ, of one host it is not.
    #[test]
    fn parts_of_different_times_are_not_of_one_run() {
        let parts = [part("workers", "a", None), part("server", "b", None)];
        assert!(same_time(&parts, &[0, 0], 0, false).is_ok());
        for one_host in [true, false] {
            let why = same_time(&parts, &[0, SECOND], 0, one_host).unwrap_err().to_string();
            assert!(why.contains("did not run at the same time"), "{why}");
            assert_eq!(why.contains("--clock-error"), !one_host, "{why}");
        }
    }

    /// With --start-at, executions may begin at one instant.
    #[test]
    fn ranks_of_different_executions_are_not_of_one_run() {
        let with = |fact: &str, value: &str| {
            let mut part = part("workers", "a", None);
            part.manifest.host.insert(fact.to_owned(), value.to_owned());
            part
        };
        let of = |parts: &[Part]| one_execution(parts).map_err(|error| error.to_string());
        let server = || with("start.job", "7");
        assert_eq!(of(&[with("start.job", "7"), server()]), Ok(()));
        assert_eq!(of(&[with("start.token", "x"), server()]), Ok(()), "parts without such a fact are joined as before");
        let why = of(&[with("start.job", "8"), server()]).unwrap_err();
        assert!(why.contains("start.job 8 and 7: ranks of different executions"), "{why}");
        // Also if the first part lacks it.
        assert_eq!(of(&[part("workers", "a", None), with("start.job", "8"), server()]), Err(why));
        let rank = |anchor_unix_ns: u64| {
            let mut part = part("workers", "a", None);
            (part.manifest.rank, part.manifest.anchor_unix_ns) = (Some(Rank::default()), anchor_unix_ns);
            part
        };
        assert_eq!(of(&[part("device", "", None), rank(5), rank(5)]), Ok(()));
        assert!(
            of(&[part("device", "", None), rank(5), rank(6)]).is_err_and(|why| why.contains("at the same instant"))
        );
    }

    #[test]
    fn manifests_of_newer_versions_are_refused() {
        let (dir, newer) = (tempfile::tempdir().unwrap(), MANIFEST_VERSION + 1);
        let mut manifest = part("server", "a", None).manifest;
        let mut read = |version: u32| {
            manifest.version = version;
            std::fs::write(dir.path().join("manifest.json"), serde_json::to_string(&manifest).unwrap()).unwrap();
            read_manifest(dir.path(), true).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(read(MANIFEST_VERSION), Ok(()));
        let why = read(newer).unwrap_err();
        assert!(why.contains(&format!("version {newer} is newer than {MANIFEST_VERSION}; update pktgen")), "{why}");
    }

    /// The wall clock may be set between the starts of two parts of one boot, and another part may be elsewhere.
    #[test]
    fn parts_of_one_boot_are_joined_by_its_monotonic_clock() {
        let at = |name: &str, boot: &str, monotonic_ns: i64, unix_ns: u64| {
            let mut part = part(name, boot, None);
            part.manifest.host.insert("clock.anchor_monotonic_ns".to_owned(), monotonic_ns.to_string());
            part.manifest.anchor_unix_ns = unix_ns;
            part
        };
        let late = |device: Part, server: Part| {
            let (late, one_host) = anchors(&[at("workers", "a", 1_000, 10_000), device, server]).unwrap();
            (late[0], late[1] / NS, late[2] / NS, one_host)
        };
        assert_eq!(late(at("device", "a", 900, 5), at("server", "a", 1_500, 6)), (0, -100, 500, true));
        let elsewhere = || at("device", "b", 77, 10_300);
        assert_eq!(late(elsewhere(), at("server", "a", 1_500, 2_000_000)), (0, 300, 500, false));
        assert_eq!(late(elsewhere(), at("server", "b", 177, 2_000_000)), (0, 300, 400, false));
        assert_eq!(late(elsewhere(), at("server", "", 1_500, 10_020)), (0, 300, 20, false), "no boot");
    }
}
