//! The kernel's modules as the initramfs holds them: `NAME.ko` each, and an index.
//!
//! | line of the index | meaning |
//! |---|---|
//! | `kvaser_pci: can_dev sja1000` | load these first, in this order |
//! | `can: builtin` | part of the kernel, nothing to load |
//!
//! A module that is part of the kernel took its parameters from the kernel's command line when it
//! booted, so they are looked at instead of given.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use candor_linux::module;
use candor_protocol::meeting::MODULES;
use candor_protocol::option_of;

use crate::failure::{Context, FAULT, Failure};

/// What stands for a module that is part of the kernel.
const BUILTIN: &str = "builtin";

/// The index: what has to be loaded before each module, `None` if it is part of the kernel.
#[derive(Debug)]
pub(crate) struct Modules(BTreeMap<String, Option<Vec<String>>>);

impl Modules {
    pub(crate) fn read() -> Result<Self, Failure> {
        let path = Path::new(MODULES).join("index");
        let text = fs::read_to_string(&path)
            .at(&path.display().to_string(), "the initramfs contains no modules; build it again")?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let entry = |line: &str| {
            let (name, before) = line.split_once(':')?;
            let before: Vec<_> = before.split_whitespace().map(str::to_owned).collect();
            let is_builtin = before == [BUILTIN];
            Some((name.trim().to_owned(), (!is_builtin).then_some(before)))
        };
        Self(text.lines().filter_map(entry).collect())
    }

    /// Loads `name` and what it needs, unless they are there.
    pub(crate) fn load(&self, name: &str) -> Result<(), Failure> {
        self.load_with(name, "")
    }

    /// The same, giving `parameters` to `name`.
    pub(crate) fn load_with(&self, name: &str, parameters: &str) -> Result<(), Failure> {
        let plan = self.plan(name, parameters)?;
        if plan.is_empty() {
            return check_builtin(name, parameters, |parameter| {
                let path = format!("/sys/module/{name}/parameters/{parameter}");
                Some(fs::read_to_string(path).ok()?.trim().to_owned())
            });
        }
        for (module, parameters) in plan {
            let file = Path::new(MODULES).join(format!("{module}.ko"));
            module::load(&file, parameters).at(name, "see the last lines of the console")?;
        }
        Ok(())
    }

    /// Whether the kernel has `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The modules to load for `name`, in order, each with its parameters.
    fn plan<'a>(
        &'a self,
        name: &'a str,
        parameters: &'a str,
    ) -> Result<Vec<(&'a str, &'a str)>, Failure> {
        let Some(before) = self.0.get(name) else {
            return Err(match option_of(name) {
                Some(option) => Failure::new(
                    name,
                    format!("this kernel was built without it ({option})"),
                    &format!(
                        "set {option}=m in its configuration, or use another gateway, controller \
                         or load"
                    ),
                ),
                None => Failure::new(name, "this kernel does not have this module", FAULT),
            });
        };
        let before = before.as_ref().map(|before| before.iter().map(|name| (name.as_str(), "")));
        Ok(before.map_or(Vec::new(), |before| before.chain([(name, parameters)]).collect()))
    }
}

/// Whether a module that is part of the kernel has the `parameters` that it is to have; `value_of`
/// tells the value of one of them.
fn check_builtin(
    name: &str,
    parameters: &str,
    value_of: impl Fn(&str) -> Option<String>,
) -> Result<(), Failure> {
    for (parameter, wanted) in parameters.split(' ').filter_map(|word| word.split_once('=')) {
        match value_of(parameter) {
            Some(value) if value == wanted => {}
            value => {
                let value = value.unwrap_or_else(|| "?".into());
                return Err(Failure::new(
                    name,
                    format!("it is built in, with {parameter}={value} instead of {wanted}"),
                    &format!(
                        "add {name}.{parameter}={wanted} to vm.parameters, or build it as a module"
                    ),
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_needs_is_loaded_first() {
        let modules = Modules::parse("can: builtin\nkvaser_pci: can_dev sja1000\ncan_gw:\n");
        assert_eq!(modules.plan("can", "").unwrap(), []);
        assert_eq!(modules.plan("can_gw", "max_hops=3").unwrap(), [("can_gw", "max_hops=3")]);
        let kvaser = modules.plan("kvaser_pci", "").unwrap();
        assert_eq!(kvaser, [("can_dev", ""), ("sja1000", ""), ("kvaser_pci", "")]);
        assert!(modules.has("can") && !modules.has("ctucanfd_pci"));
    }

    #[test]
    fn a_missing_module_is_reported_with_its_option() {
        let modules = Modules::parse("can: builtin\n");
        let failure = modules.plan("ctucanfd_pci", "").unwrap_err().to_string();
        let expected = "ctucanfd_pci: this kernel was built without it (CONFIG_CAN_CTUCANFD_PCI); \
                        set CONFIG_CAN_CTUCANFD_PCI=m in its configuration, or use another \
                        gateway, controller or load";
        assert_eq!(failure, expected);
    }

    #[test]
    fn what_is_built_in_must_have_its_parameters_already() {
        let value_of = |parameter: &str| (parameter == "max_hops").then(|| "1".to_owned());
        assert!(check_builtin("can_gw", "", value_of).is_ok());
        assert!(check_builtin("can_gw", "max_hops=1", value_of).is_ok());
        for (parameters, reported) in [
            ("max_hops=2", "it is built in, with max_hops=1 instead of 2; add can_gw.max_hops=2 "),
            ("max_hops=1 other=3", "with other=? instead of 3; add can_gw.other=3 to "),
        ] {
            let failure = check_builtin("can_gw", parameters, value_of).unwrap_err().to_string();
            assert!(failure.contains(reported), "{failure}");
        }
    }
}
