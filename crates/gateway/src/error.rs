//! [`Error`]: why a gateway cannot start or take other rules.

use std::fmt;

#[cfg(feature = "daemon")]
use candor_diagnostics::Findings;

/// Why a gateway cannot start or take other rules.
#[derive(Debug)]
pub enum Error {
    /// The rule file cannot be read: its name, the reason and the remedy.
    File(String),
    #[cfg(feature = "daemon")]
    Rules(Findings),
    /// A data plane, by its title, cannot carry out these rules: name and reason of each.
    Plane(&'static str, Vec<(String, String)>),
    /// A port cannot be opened: the bus, and why.
    Port(String, candor_port::Error),
    /// The kernel refuses something.
    Kernel(candor_linux::Error),
    /// Something else, in one sentence with its remedy.
    Other(String),
}

impl From<candor_linux::Error> for Error {
    fn from(error: candor_linux::Error) -> Self {
        Self::Kernel(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(reason) | Self::Other(reason) => f.write_str(reason),
            #[cfg(feature = "daemon")]
            Self::Rules(findings) => write!(f, "{findings}"),
            Self::Plane(plane, refused) => {
                for (index, (rule, reason)) in refused.iter().enumerate() {
                    let end = if index + 1 == refused.len() { "" } else { "\n" };
                    write!(f, "{plane} cannot run rule {rule:?}: {reason}{end}")?;
                }
                Ok(())
            }
            Self::Port(bus, error) => write!(f, "bus `{bus}`: {error}"),
            Self::Kernel(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}
