//! Interfaces by their names, and what to do about one that is not there: one remedy for all that open interfaces.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::Path;

use rustix::net::netdevice;

use crate::netlink::{Link, Netlink};
use crate::probe::Kind;
use crate::{Errno, Error, module, namespace, socket};

/// What an interface is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Frames of CAN.
    Can,
    /// Packets, of whatever kind.
    Packets,
}

/// The index of an interface of this network namespace.
///
/// # Errors
/// There is none of that name.
pub fn interface_index(name: &str) -> Result<u32, Error> {
    index_for(name, Use::Packets)
}

/// The address, the interface and the port of `[fe80::1%eth0]:4858` (RFC 6874 writes it so, but in a URI): an address that means
/// something on one interface only, by the name of that. `None` if the text is none of these.
#[must_use]
pub fn scoped(text: &str) -> Option<(Ipv6Addr, &str, u16)> {
    let (inner, port) = text.strip_prefix('[')?.rsplit_once("]:")?;
    let (address, interface) = inner.split_once('%')?;
    let is_name = !interface.is_empty() && !interface.contains(['%', '/', ']', ' ', '\0']);
    Some((address.parse().ok()?, interface, port.parse().ok()?)).filter(|_| is_name)
}

/// The address with the index of the interface that it names, as `[fe80::1%eth0]:4858` does. `None` if the text is no such
/// address.
///
/// # Errors
/// There is no interface of that name now.
pub fn scoped_address(text: &str) -> Option<Result<SocketAddr, Error>> {
    let (address, interface, port) = scoped(text)?;
    // The index itself may stand there, too.
    let index = interface.parse().or_else(|_| interface_index(interface));
    Some(index.map(|index| SocketAddrV6::new(address, port, 0, index).into()))
}

/// The index of an interface for CAN. The remedy says how to get one.
///
/// # Errors
/// There is none of that name.
pub(crate) fn can_interface_index(name: &str) -> Result<u32, Error> {
    index_for(name, Use::Can)
}

fn index_for(name: &str, wanted: Use) -> Result<u32, Error> {
    let fail = |errno| {
        Error::new("find the interface", name, errno)
            .remedy_with(libc::ENODEV, || remedy(name, wanted))
    };
    if name.contains('\0') {
        return Err(fail(Errno(libc::EINVAL)));
    }
    // Any socket will do to ask.
    let fd = socket::open(libc::AF_UNIX, libc::SOCK_DGRAM, 0)
        .or_else(|_| socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0))
        .map_err(fail)?;
    netdevice::name_to_index(fd, name).map_err(|errno| fail(errno.into()))
}

/// Why no CAN socket can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoSocket {
    /// The kernel has CAN, and does not let this process.
    Forbidden,
    /// Its module is there, but not loaded.
    NotLoaded,
    /// There is no such module.
    NoModule,
}

struct InterfaceFacts {
    socket: Result<(), NoSocket>,
    /// The names of the interfaces that could be used; `None` if they cannot be listed.
    interfaces: Option<Vec<String>>,
    container: Option<String>,
    /// Whether a file has that name.
    is_file: bool,
}

/// What to do if there is no interface of this name for this use in the network namespace of this thread.
pub(crate) fn remedy(name: &str, wanted: Use) -> String {
    judge(name, wanted, &collect(name, wanted))
}

fn collect(name: &str, wanted: Use) -> InterfaceFacts {
    let socket = match wanted {
        Use::Packets => Ok(()),
        // Trying it loads the modules, if the kernel may.
        Use::Can => Kind::Can.try_open().map_err(|_| match module::is_there("can_raw") {
            true => NoSocket::Forbidden,
            false if module::is_available("can_raw") => NoSocket::NotLoaded,
            false => NoSocket::NoModule,
        }),
    };
    let links = Netlink::open().and_then(|mut netlink| netlink.links()).ok();
    let is_meant = |link: &Link| wanted == Use::Packets || link.is_can;
    let names = |links: Vec<Link>| links.into_iter().filter(is_meant).map(|link| link.name);
    InterfaceFacts {
        socket,
        interfaces: links.map(|links| names(links).collect()),
        container: namespace::container(Path::new("/")),
        is_file: Path::new(name).is_file(),
    }
}

const MOST_NAMES: usize = 8;

fn judge(name: &str, wanted: Use, facts: &InterfaceFacts) -> String {
    let InterfaceFacts { socket, interfaces, container, is_file } = facts;
    if *is_file {
        return match wanted {
            Use::Can => format!("a file has this name: the port that plays it is file:{name}"),
            Use::Packets => format!(
                "a file has this name: `candor tte analyze NETWORK {name}` reads the frames of a capture"
            ),
        };
    }
    let without =
        "sim:NAME and file:LOG are ports without the kernel, and `candor doctor` tells more";
    let remedy = match socket {
        Ok(()) => among(name, wanted, interfaces.as_deref()),
        Err(NoSocket::Forbidden) => {
            return format!(
                "the kernel has CAN, but this process may not use it: allow the address family, such as with \
                 RestrictAddressFamilies=AF_CAN in a systemd unit; {without}"
            );
        }
        Err(NoSocket::NotLoaded) => {
            format!("load CAN into the kernel: `sudo modprobe can-raw`; {without}")
        }
        Err(NoSocket::NoModule) => format!(
            "this kernel was built or packaged without CAN: there is no module can-raw; {without}"
        ),
    };
    let Some(container) = container else { return remedy };
    match socket {
        Ok(()) => format!(
            "{remedy}; this is a container ({container}), which has interfaces of the host only if it shares its network, or \
             if they are moved here"
        ),
        Err(_) => {
            format!("{remedy}; this is a container ({container}): modules are loaded on its host")
        }
    }
}

/// What to do where the kernel has interfaces, but none of this name.
fn among(name: &str, wanted: Use, interfaces: Option<&[String]>) -> String {
    let kind = if wanted == Use::Can { "CAN interfaces" } else { "interfaces" };
    let mut remedy = match interfaces {
        None => "list the interfaces with `ip link`".to_owned(),
        Some([]) => format!("there are no {kind} here: connect a controller and load its driver"),
        Some(names) => {
            let more = if names.len() > MOST_NAMES { ", ..." } else { "" };
            let names = &names[..names.len().min(MOST_NAMES)];
            format!("the {kind} here are {}{more} (`ip link` lists them)", names.join(", "))
        }
    };
    if wanted == Use::Can && socket::interface_request(name).is_ok() {
        remedy.push_str(&format!(
            ", or make a virtual one: `sudo ip link add {name} type vcan && sudo ip link set {name} up`"
        ));
    }
    remedy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_an_index() {
        assert_eq!(interface_index("lo").ok(), Some(1));
        let error = interface_index("no-such-if").unwrap_err();
        assert!(error.is(libc::ENODEV) && error.to_string().contains("ip link"), "{error}");
        assert!(interface_index("a\0b").unwrap_err().is(libc::EINVAL));
    }

    #[test]
    fn the_remedy_fits_what_is_there() {
        let names = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
        let make =
            "or make a virtual one: `sudo ip link add can7 type vcan && sudo ip link set can7 up`";
        let without =
            "sim:NAME and file:LOG are ports without the kernel, and `candor doctor` tells more";
        let list = "(`ip link` lists them)";
        let docker = "; this is a container (docker), which has interfaces of the host only if it shares its network, \
                      or if they are moved here";
        for (name, wanted, socket, interfaces, container, expected) in [
            (
                "can7",
                Use::Can,
                Ok(()),
                names(&["can0", "vcan0"]),
                None,
                format!("the CAN interfaces here are can0, vcan0 {list}, {make}"),
            ),
            (
                "can7",
                Use::Can,
                Ok(()),
                names(&[]),
                Some("docker"),
                format!(
                    "there are no CAN interfaces here: connect a controller and load its driver, {make}{docker}"
                ),
            ),
            // No interface can have that name.
            (
                "a-name-that-is-too-long",
                Use::Can,
                Ok(()),
                names(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]),
                None,
                format!("the CAN interfaces here are a, b, c, d, e, f, g, h, ... {list}"),
            ),
            (
                "eth7",
                Use::Packets,
                Ok(()),
                names(&["lo"]),
                Some("docker"),
                format!("the interfaces here are lo {list}{docker}"),
            ),
            ("eth7", Use::Packets, Ok(()), None, None, "list the interfaces with `ip link`".into()),
            (
                "can7",
                Use::Can,
                Err(NoSocket::NotLoaded),
                names(&["lo"]),
                None,
                format!("load CAN into the kernel: `sudo modprobe can-raw`; {without}"),
            ),
            (
                "can7",
                Use::Can,
                Err(NoSocket::NoModule),
                names(&[]),
                Some("docker"),
                format!(
                    "this kernel was built or packaged without CAN: there is no module can-raw; {without}; this is a \
                     container (docker): modules are loaded on its host"
                ),
            ),
            (
                "can7",
                Use::Can,
                Err(NoSocket::Forbidden),
                names(&[]),
                None,
                format!(
                    "the kernel has CAN, but this process may not use it: allow the address family, such as with \
                     RestrictAddressFamilies=AF_CAN in a systemd unit; {without}"
                ),
            ),
        ] {
            let container = container.map(str::to_owned);
            let facts = InterfaceFacts { socket, interfaces, container, is_file: false };
            assert_eq!(judge(name, wanted, &facts), expected);
            let of_a_file = match wanted {
                Use::Can => "a file has this name: the port that plays it is file:a.pcap",
                Use::Packets => {
                    "a file has this name: `candor tte analyze NETWORK a.pcap` reads the frames of a capture"
                }
            };
            assert_eq!(
                judge("a.pcap", wanted, &InterfaceFacts { is_file: true, ..facts }),
                of_a_file
            );
        }
    }
}
