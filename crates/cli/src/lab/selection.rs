//! Which experiments a command is about, and the command that runs one of them again.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use candor_lab::campaign::{self, Options};
use candor_lab::experiment::{KernelChoice, Testbed};
use candor_lab::result::ResultFile;
use candor_lab::{Campaign, Experiment, glob, results, run};
use clap::Args;

use crate::output::shell_word;

use crate::color;
use crate::file_kind::FileKind;

#[derive(Args)]
pub(super) struct Selection {
    /// The file of experiments
    pub(super) file: PathBuf,
    /// Select experiments by name; * stands for any characters, ? for one character; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(super) only: Vec<String>,
    /// Set a value in every experiment, such as count=1000 or traffic.kind=flood
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Use this seed instead of the file's
    #[arg(long)]
    seed: Option<u64>,
    /// The testbed of every experiment: sim, vm or host
    #[arg(long, value_name = "NAME", value_parser = parse_testbed)]
    testbed: Option<Testbed>,
    /// The kernel of every vm experiment: 6.12, 6.12-rt, debian:VERSION, or a file with --modules;
    /// given several times, all experiments on each of them
    #[arg(long = "kernel", value_name = "NAME|FILE")]
    kernels: Vec<String>,
    /// The modules of your own kernel: lib/modules/RELEASE
    #[arg(long, value_name = "DIR", requires = "kernels")]
    modules: Option<PathBuf>,
    /// The speed of every vm experiment in million instructions per second: 1000, 500, 250, ...
    #[arg(long, value_name = "N")]
    mips: Option<u32>,
    /// Run the experiments with the settings of each alternative of the file, too
    #[arg(long)]
    alternatives: bool,
    /// Run only every M-th of the selected experiments, starting with number N
    #[arg(long, value_name = "N/M")]
    shard: Option<Shard>,
}

impl Selection {
    /// Whether the command line asks for a part of the experiments, the others being for other machines.
    pub(super) const fn is_part(&self) -> bool {
        self.shard.is_some()
    }

    /// Whether the command line names kernels, so that claims about others are left out.
    pub(super) const fn has_kernels(&self) -> bool {
        !self.kernels.is_empty()
    }
}

fn parse_testbed(name: &str) -> Result<Testbed, String> {
    Testbed::ALL.into_iter().find(|testbed| testbed.name() == name).ok_or_else(|| {
        let names = Testbed::ALL.map(Testbed::name);
        format!("expected one of {}", names.join(", "))
    })
}

/// One part of so many.
#[derive(Clone, Copy)]
struct Shard {
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            Some(Self { number: number.parse().ok()?, of: of.parse().ok()? })
        });
        parsed
            .filter(|shard| (1..=shard.of).contains(&shard.number))
            .ok_or_else(|| "expected N/M, such as 3/8".into())
    }
}

pub(super) fn load(selection: &Selection) -> Result<Campaign, String> {
    let options = Options {
        set: selection.set.clone(),
        only: selection.only.clone(),
        seed: selection.seed,
        testbed: selection.testbed,
        kernels: kernels(selection)?,
        mips: selection.mips,
        has_alternatives: selection.alternatives,
        ..Options::default()
    };
    let mut campaign = campaign::load(&selection.file, &options).map_err(|error| {
        FileKind::Experiment.mix_up(&selection.file).unwrap_or_else(|| error.to_string())
    })?;
    color::eprint_findings(&campaign.warnings);
    if let Some(Shard { number, of }) = selection.shard {
        campaign.experiments = run::shard(campaign.experiments, number, of);
    }
    Ok(campaign)
}

/// The kernels that the command line names.
fn kernels(selection: &Selection) -> Result<Vec<KernelChoice>, String> {
    if let ([kernel], Some(modules)) = (&selection.kernels[..], &selection.modules) {
        return Ok(vec![KernelChoice::Files { image: kernel.into(), modules: modules.clone() }]);
    }
    if selection.modules.is_some() {
        return Err("--modules belongs to one kernel; name one --kernel FILE".into());
    }
    let named = |kernel: &String| match kernel.contains('/') || Path::new(kernel).exists() {
        true => Err(format!(
            "--kernel {kernel} is a file, and its modules are missing; add --modules DIR, such as \
             lib/modules/RELEASE"
        )),
        false => Ok(KernelChoice::Named(kernel.clone())),
    };
    let kernels = &selection.kernels;
    if let Some(twice) = (1..kernels.len()).find(|&at| kernels[..at].contains(&kernels[at])) {
        return Err(format!("--kernel {} is there twice; name each kernel once", kernels[twice]));
    }
    kernels.iter().map(named).collect()
}

/// The results in a folder, of experiments that are meant.
pub(super) fn results_in(dir: &Path, only: &[String]) -> Result<Vec<ResultFile>, String> {
    let mut results = results::read(dir).map_err(|error| error.to_string())?;
    results.retain(|it| glob::is_meant(only, &it.experiment));
    Ok(results)
}

/// The command that runs one experiment again.
pub(super) fn command_for(selection: &Selection, experiment: &Experiment) -> String {
    let mut command =
        format!("candor lab run {}", shell_word(&selection.file.display().to_string()));
    command.push_str(&format!(" --only {}", shell_word(&experiment.group)));
    if selection.alternatives {
        command.push_str(" --alternatives");
    }
    for set in &selection.set {
        command.push_str(&format!(" --set {}", shell_word(set)));
    }
    if let Some(testbed) = selection.testbed {
        command.push_str(&format!(" --testbed {testbed}"));
    }
    if experiment.testbed() == Testbed::Vm {
        for kernel in &selection.kernels {
            command.push_str(&format!(" --kernel {}", shell_word(kernel)));
        }
        if let Some(modules) = &selection.modules {
            command.push_str(&format!(" --modules {}", shell_word(&modules.display().to_string())));
        }
        if let Some(mips) = selection.mips {
            command.push_str(&format!(" --mips {mips}"));
        }
    }
    command.push_str(&format!(" --seed {}", experiment.seed));
    command
}
