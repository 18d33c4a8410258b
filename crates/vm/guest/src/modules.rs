//! The kernel's modules as the initramfs holds them: `NAME.ko` each, and an index.
//!
//! | line of the index | meaning |
//! |---|---|
//! | `kvaser_pci: can_dev sja1000` | load these first, in this order |
//! | `can: builtin` | part of the kernel, nothing to load |

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use candor_bed::meeting::MODULES;
use candor_linux::module;

use crate::failure::{Context, Failure};

/// What stands for a module that is part of the kernel.
const BUILTIN: &str = "builtin";

/// The index: what has to be loaded before each module, `None` if it is part of the kernel.
#[derive(Debug)]
pub(crate) struct Modules(BTreeMap<String, Option<Vec<String>>>);

impl Modules {
    pub(crate) fn read() -> Result<Self, Failure> {
        let path = Path::new(MODULES).join("index");
        let text = fs::read_to_string(&path)
            .at(&path.display().to_string(), "the initramfs holds no modules; build it again")?;
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
        for (module, parameters) in self.plan(name, parameters)? {
            let file = Path::new(MODULES).join(format!("{module}.ko"));
            module::load(&file, parameters).at(name, "see the last lines of the console")?;
        }
        Ok(())
    }

    /// The modules to load for `name`, in order, each with its parameters.
    fn plan<'a>(
        &'a self,
        name: &'a str,
        parameters: &'a str,
    ) -> Result<Vec<(&'a str, &'a str)>, Failure> {
        let Some(before) = self.0.get(name) else {
            return Err(Failure::new(
                name,
                "this kernel has no such module",
                "use a kernel that is built with it, or another controller or load",
            ));
        };
        let before = before.as_ref().map(|before| before.iter().map(|name| (name.as_str(), "")));
        Ok(before.map_or(Vec::new(), |before| before.chain([(name, parameters)]).collect()))
    }
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
        let failure = modules.plan("ctucanfd_pci", "").unwrap_err().to_string();
        assert!(failure.starts_with("ctucanfd_pci: this kernel has no such module"), "{failure}");
    }
}
