//! The rank of this process and the number of ranks, according to its launcher.

use std::str::FromStr;

use pktgen_core::{Error, Result};

/// Maximum number of ranks.
const RANKS_MAX: u32 = 4096;

/// Environment variables of a launcher.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launcher {
    /// Its name.
    pub name: &'static str,
    /// Variable with the rank, from 0.
    pub rank: &'static str,
    /// Variable with the number of ranks.
    pub ranks: &'static str,
    /// Variable that differs between jobs, if there is one.
    pub job: Option<&'static str>,
}

/// In the order of look-up: explicit settings come first, and `mpirun` before the batch step of Slurm in which it was
/// called, whose variables it passes on.
pub(crate) static LAUNCHERS: &[Launcher] = &[
    Launcher { name: "PKTGEN_RANK", rank: "PKTGEN_RANK", ranks: "PKTGEN_RANKS", job: Some("PKTGEN_JOB") },
    Launcher {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: "OMPI_COMM_WORLD_SIZE",
        job: Some("OMPI_MCA_ess_base_jobid"),
    },
    Launcher { name: "MPICH", rank: "PMI_RANK", ranks: "PMI_SIZE", job: None },
    Launcher { name: "Slurm", rank: "SLURM_PROCID", ranks: "SLURM_NTASKS", job: Some("SLURM_JOB_ID") },
];

/// `--rank`: from the launcher, or as given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankFlag {
    /// From the environment.
    Auto,
    /// Rank, from 0, and number of ranks.
    Given(u32, u32),
}

/// A rank, the number of ranks, and their origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchedRank {
    /// From 0.
    pub rank: u32,
    /// Number of ranks.
    pub of: u32,
    /// The launcher's name, or the flag.
    pub launcher: &'static str,
    /// An identifier that differs between jobs of the launcher.
    pub job: Option<String>,
}

impl FromStr for RankFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "auto" {
            return Ok(RankFlag::Auto);
        }
        let numbers = text.trim().split_once('/').and_then(|(rank, of)| Some((number(rank)?, number(of)?)));
        let (rank, of) = numbers
            .ok_or_else(|| format!("\"{text}\" is no rank; write auto, or which of how many from 0 on, as 0/3"))?;
        checked(rank, of).map(|(rank, of)| RankFlag::Given(rank, of))
    }
}

impl RankFlag {
    /// Determines the rank, from the environment if requested.
    pub fn place(self, environment: &dyn Fn(&str) -> Option<String>) -> Result<LaunchedRank> {
        if let RankFlag::Given(rank, of) = self {
            return Ok(LaunchedRank { rank, of, launcher: "--rank", job: None });
        }
        let found = LAUNCHERS.iter().find_map(|launcher| Some((launcher, environment(launcher.rank)?)));
        let Some((launcher, rank)) = found else {
            let known: Vec<_> = LAUNCHERS.iter().map(|l| format!("{} and {}", l.rank, l.ranks)).collect();
            return Err(Error::config(format!(
                "--rank auto: no launcher says which rank this is; it would set {}; give --rank I/N, as 0/3",
                known.join(", or ")
            )));
        };
        let Some(of) = environment(launcher.ranks) else {
            return Err(Error::config(format!(
                "--rank auto: {} is set and {} is not; give --rank I/N, as {}/3",
                launcher.rank, launcher.ranks, rank
            )));
        };
        let place = number(&rank).zip(number(&of)).ok_or_else(|| "these are no numbers".to_owned());
        let place = place.and_then(|(rank, of)| checked(rank, of));
        let (rank, of) = place.map_err(|why| {
            Error::config(format!("--rank auto: {} = {rank}, {} = {of}: {why}", launcher.rank, launcher.ranks))
        })?;
        let job = launcher.job.and_then(environment).map(|job| format!("{}={job}", launcher.name));
        Ok(LaunchedRank { rank, of, launcher: launcher.name, job })
    }
}

/// Parses digits only.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn checked(rank: u32, of: u32) -> Result<(u32, u32), String> {
    if !(1..=RANKS_MAX).contains(&of) {
        Err(format!("{rank}/{of}: there are 1 to {RANKS_MAX} ranks, not {of}"))
    } else if rank >= of {
        Err(format!("{rank}/{of}: ranks are counted from 0: the last is {}/{of}", of - 1))
    } else {
        Ok((rank, of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(variables: &[(&str, &str)]) -> Result<LaunchedRank> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        RankFlag::Auto.place(&find)
    }

    #[test]
    fn every_launcher_is_understood() {
        for launcher in LAUNCHERS {
            let place = auto(&[(launcher.rank, "2"), (launcher.ranks, "5")]).unwrap();
            assert_eq!((place.rank, place.of, place.launcher, place.job), (2, 5, launcher.name, None));
        }
        let job = auto(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1"), ("SLURM_JOB_ID", "77")]).unwrap().job;
        assert_eq!(job.as_deref(), Some("Slurm=77"));
    }

    #[test]
    fn the_page_of_ranks_names_every_variable() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ranks.md");
        let page = std::fs::read_to_string(page).unwrap();
        for launcher in LAUNCHERS {
            for variable in [Some(launcher.rank), Some(launcher.ranks), launcher.job].into_iter().flatten() {
                assert!(page.contains(&format!("`{variable}`")), "{variable}");
            }
        }
    }

    #[test]
    fn mpirun_counts_more_than_the_batch_step_around_it_and_a_driver_more_than_both() {
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")];
        let mpi = [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")];
        let own = [("PKTGEN_RANK", "7"), ("PKTGEN_RANKS", "8")];
        assert_eq!(auto(&[slurm, mpi].concat()).unwrap().rank, 3);
        assert_eq!(auto(&[slurm, mpi, own].concat()).unwrap().rank, 7);
    }

    #[test]
    fn what_is_no_rank_is_refused() {
        let refused = |variables: &[(&str, &str)], part: &str| {
            let message = auto(variables).unwrap_err().to_string();
            assert!(message.contains(part), "{variables:?}: {message}");
        };
        refused(&[], "SLURM_PROCID and SLURM_NTASKS; give --rank I/N");
        refused(&[("PMIX_RANK", "1")], "no launcher says");
        refused(&[("PMI_RANK", "1")], "PMI_RANK is set and PMI_SIZE is not; give --rank I/N, as 1/3");
        refused(&[("PMI_RANK", "x"), ("PMI_SIZE", "2")], "PMI_RANK = x, PMI_SIZE = 2: these are no numbers");
        refused(&[("PMI_RANK", "2"), ("PMI_SIZE", "2")], "the last is 1/2");
        refused(&[("PMI_RANK", "0"), ("PMI_SIZE", "0")], "1 to 4096 ranks, not 0");
        refused(&[("PMI_RANK", "0"), ("PMI_SIZE", "99999999999")], "these are no numbers");
        for (text, part) in [
            ("", "is no rank"),
            ("1", "as 0/3"),
            ("3/3", "the last is 2/3"),
            ("-1/3", "as 0/3"),
            ("0/5000", "not 5000"),
        ] {
            let message = text.parse::<RankFlag>().unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
        assert_eq!("auto".parse(), Ok(RankFlag::Auto));
        assert_eq!("0/3".parse(), Ok(RankFlag::Given(0, 3)));
        assert_eq!(RankFlag::Given(0, 3).place(&|_| Some("9".into())).unwrap().of, 3, "the flag alone counts");
    }
}
