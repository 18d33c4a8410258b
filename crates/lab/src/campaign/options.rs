//! [`Options`]: what the command line says about a campaign.

use candor_config::{Data, Table, Value, quoted};

use super::effect;
use super::leaves::leaves;
use super::matrix::Draft;
use crate::error::Error;
use crate::experiment::{Experiment, KernelChoice, Testbed};
use crate::kinds::{KINDS, Kinds};
use crate::reading::machine::KERNEL_OPTION;

/// What the command line says about a campaign.
#[derive(Clone)]
pub struct Options {
    /// `key=value`, laid over every experiment.
    pub set: Vec<String>,
    /// Only experiments whose name matches one of these; all if there are none.
    pub only: Vec<String>,
    /// Use this seed instead of the file's.
    pub seed: Option<u64>,
    /// The testbed, instead of the file's.
    pub testbed: Option<Testbed>,
    /// The kernels of every virtual machine, instead of the file's: all experiments on each of them.
    pub kernels: Vec<KernelChoice>,
    /// The speed of every virtual machine, instead of the file's.
    pub mips: Option<u32>,
    /// Whether experiments run with the settings of each `[[alternative]]` as well.
    pub has_alternatives: bool,
    /// The kinds of experiments that there are.
    pub kinds: Kinds,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            set: Vec::new(),
            only: Vec::new(),
            seed: None,
            testbed: None,
            kernels: Vec::new(),
            mips: None,
            has_alternatives: false,
            kinds: KINDS,
        }
    }
}

impl Options {
    /// The kernels as a file would list them.
    pub(super) fn kernel_values(&self) -> Result<Vec<Value>, Error> {
        let value = |kernel: &KernelChoice| {
            let setting = format!("vm.kernel={}", kernel.to_toml());
            let table = candor_config::setting(KERNEL_OPTION, &setting).map_err(Error::Other)?;
            Ok(table.get_path(&["vm", "kernel"]).cloned())
        };
        self.kernels.iter().filter_map(|kernel| value(kernel).transpose()).collect()
    }

    /// Lays over a draft what the command line says; what its alternative says stays.
    pub(super) fn lay_over(&self, draft: &mut Draft) -> Result<(), Error> {
        let Draft { table, axes, over: alternative, .. } = draft;
        let is_axis = |key: &str| axes.iter().any(|(axis, _)| axis == key);
        let refuse_axis = |option: &str, key: &str| match is_axis(key) {
            true => Err(Error::Other(format!(
                "{option}: the matrix of the file sets `{key}`; choose its experiments with --only, or change the matrix"
            ))),
            false => Ok(()),
        };
        for set in &self.set {
            let over = candor_config::setting("--set", set).map_err(Error::Other)?;
            for (path, _) in leaves(&over, &mut Vec::new()) {
                refuse_axis(&format!("--set {set}"), &path.join("."))?;
            }
            if let Some((bus, hint)) = effect::unknown_bus(table, &over) {
                return Err(Error::Other(format!("--set {set}: unknown bus `{bus}`; {hint}")));
            }
            table.merge(over);
        }
        let merge = |table: &mut Table, option: &str, setting: &str| {
            table.merge(candor_config::setting(option, setting).map_err(Error::Other)?);
            Ok::<(), Error>(())
        };
        if let Some(testbed) = self.testbed {
            refuse_axis("--testbed", "testbed")?;
            merge(table, "--testbed", &format!("testbed={}", quoted(testbed.name())))?;
        }
        let is_vm = is_vm(table);
        if let [kernel] = &self.kernels[..]
            && is_vm
        {
            // A table would be laid over one of the file, not put in its place.
            if let Some(mut machine) = table.get("vm").and_then(Value::as_table).cloned() {
                machine.remove("kernel");
                table.remove("vm");
                let origin = machine.origin().clone();
                table.set_path(&["vm"], Value { origin, data: Data::Table(machine) });
            }
            merge(table, KERNEL_OPTION, &format!("vm.kernel={}", kernel.to_toml()))?;
        }
        if let Some(mips) = self.mips.filter(|_| is_vm) {
            refuse_axis(&format!("--mips {mips}"), "vm.mips")?;
            merge(table, "--mips", &format!("vm.mips={mips}"))?;
        }
        table.merge(alternative.clone());
        Ok(())
    }

    /// Whether experiments are all those of the file, as the file says them.
    pub(super) fn leave_the_file_as_it_is(&self) -> bool {
        self.only.is_empty() && self.testbed.is_none() && self.set.is_empty()
    }

    /// Refuses options that none of the experiments uses.
    pub(super) fn require_effect(&self, experiments: &[Experiment]) -> Result<(), Error> {
        for set in &self.set {
            let over = candor_config::setting("--set", set).map_err(Error::Other)?;
            effect::require(self.kinds, set, &over, experiments)?;
        }
        for kernel in &self.kernels {
            effect::require_key(
                self.kinds,
                &format!("{KERNEL_OPTION} {kernel}"),
                "vm",
                experiments,
            )?;
        }
        if let Some(mips) = self.mips {
            effect::require_key(self.kinds, &format!("--mips {mips}"), "vm", experiments)?;
        }
        Ok(())
    }
}

/// Whether an experiment runs in virtual machines.
pub(super) fn is_vm(table: &Table) -> bool {
    table.get("testbed").and_then(Value::as_str) == Some(Testbed::Vm.name())
}
