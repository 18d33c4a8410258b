//! What this process may do more than an ordinary user (`capabilities(7)`).

use std::fmt;
use std::fs;

use crate::{Errno, Error};

/// A right that a gateway has a use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// `CAP_NET_ADMIN`: set up interfaces, program can-gw, make receive buffers larger than the
    /// limit.
    NetAdmin,
    /// `CAP_NET_RAW`: packet sockets. CAN sockets take no right.
    NetRaw,
    /// `CAP_IPC_LOCK`: keep memory in RAM.
    IpcLock,
    /// `CAP_SYS_NICE`: real-time priorities, other CPUs.
    SysNice,
}

impl Capability {
    /// All of them, by their numbers.
    pub const ALL: [Self; 4] = [Self::NetAdmin, Self::NetRaw, Self::IpcLock, Self::SysNice];

    /// Its number in `linux/capability.h`.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::NetAdmin => 12,
            Self::NetRaw => 13,
            Self::IpcLock => 14,
            Self::SysNice => 23,
        }
    }

    /// Its name, such as `CAP_NET_RAW`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::NetRaw => "CAP_NET_RAW",
            Self::IpcLock => "CAP_IPC_LOCK",
            Self::SysNice => "CAP_SYS_NICE",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of rights, those included that have no name here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Those in effect in the calling process, in its user namespace: within a container they may
    /// be worth less than their names say.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn effective() -> Result<Self, Error> {
        const FILE: &str = "/proc/self/status";
        let attempt = "read the capabilities in";
        let status = fs::read_to_string(FILE).map_err(|error| {
            Error::new(attempt, FILE, Errno(error.raw_os_error().unwrap_or(libc::EIO)))
                .remedy_if(libc::ENOENT, "is /proc mounted?")
        })?;
        Self::in_status(&status).ok_or_else(|| Error::other(attempt, FILE, "no line CapEff"))
    }

    fn in_status(status: &str) -> Option<Self> {
        let digits = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(digits.trim(), 16).ok().map(Self)
    }

    /// Whether this one is among them.
    #[must_use]
    pub const fn has(self, capability: Capability) -> bool {
        self.0 >> capability.number() & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read_from_the_status() {
        use Capability::{IpcLock, NetAdmin, NetRaw, SysNice};
        let cases: [(&str, Option<&[Capability]>); 6] = [
            ("CapEff:\t0000000000000000\n", Some(&[])),
            ("Name:\tx\nCapPrm:\t0\nCapEff:\t000001ffffffffff\n", Some(&Capability::ALL)),
            ("CapEff:\t0000000000802000\n", Some(&[NetRaw, SysNice])),
            ("CapEff:\t0000000000005000\n", Some(&[NetAdmin, IpcLock])),
            ("CapPrm:\t000001ffffffffff\n", None),
            ("CapEff:\tnone\n", None),
        ];
        for (status, expected) in cases {
            let found = Capabilities::in_status(status);
            let has = |set: Capabilities| {
                Capability::ALL.into_iter().filter(|&one| set.has(one)).collect::<Vec<_>>()
            };
            assert_eq!(found.map(has).as_deref(), expected, "{status}");
        }
    }

    #[test]
    fn this_process_has_a_set() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(status.contains(&format!("{:016x}", Capabilities::effective().unwrap().0)));
        assert_eq!(Capability::NetRaw.to_string(), "CAP_NET_RAW");
    }
}
