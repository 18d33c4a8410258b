//! Whether this process sees the network of the host.

use candor_linux::namespace;

use crate::{Files, Item, Sources};

/// The number of the first namespace of processes, `linux/proc_ns.h` (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

struct Facts {
    /// The kind of container, as far as it tells.
    container: Option<String>,
    /// Whether the network namespace is that of the first process of the host; `None` if that is
    /// not to be seen from here.
    is_host: Option<bool>,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    vec![judge(&collect(&sources.files))]
}

fn collect(files: &Files) -> Facts {
    // Process 1 is that of the host if this is the host's namespace of processes.
    let sees_host = files.inode("proc/self/ns/pid") == Some(FIRST_PID_NAMESPACE);
    let first = files.inode("proc/1/ns/net").filter(|_| sees_host);
    let own = files.inode("proc/self/ns/net");
    Facts {
        container: namespace::container(files.root()),
        is_host: first.zip(own).map(|(first, own)| first == own),
    }
}

fn judge(facts: &Facts) -> Item {
    let Facts { container, is_host } = facts;
    match (container, is_host) {
        (_, Some(true)) => Item::good(
            "container",
            "this is the network namespace of the host",
            "the CAN interfaces of the host can be used",
        ),
        (None, None) => Item::good(
            "container",
            "no sign of a container",
            "the CAN interfaces of this machine can be used",
        ),
        (None, Some(false)) => Item::limited(
            "container",
            "this is a separate network namespace",
            "only the CAN interfaces that were moved here can be used",
        )
        .fix("sudo ip link set can0 netns $$"),
        (Some(name), _) => Item::limited(
            "container",
            format!("this is a container ({name})"),
            "unless it shares the network of the host, only CAN interfaces that were moved here \
             can be used",
        )
        .fix(match &**name {
            "docker" | "podman" => {
                let rights = "--cap-add NET_RAW --cap-add SYS_NICE --cap-add IPC_LOCK";
                format!("{name} run --network host {rights} IMAGE")
            }
            _ => "sudo ip link set can0 netns $$".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::reported;

    #[test]
    fn a_container_is_distinguished_from_the_host() {
        let docker = Some("docker".to_owned());
        let unless = "unless it shares the network of the host, only CAN interfaces that were \
                      moved here can be used";
        for (container, is_host, expected) in [
            (
                None,
                None,
                "ok container: no sign of a container\n  \
                 the CAN interfaces of this machine can be used\n"
                    .to_owned(),
            ),
            (
                docker.clone(),
                Some(true),
                "ok container: this is the network namespace of the host\n  \
                 the CAN interfaces of the host can be used\n"
                    .into(),
            ),
            (
                None,
                Some(false),
                "limited container: this is a separate network namespace\n  \
                 only the CAN interfaces that were moved here can be used\n  \
                 $ sudo ip link set can0 netns $$\n"
                    .into(),
            ),
            (
                docker,
                None,
                format!(
                    "limited container: this is a container (docker)\n  {unless}\n  \
                     $ docker run --network host --cap-add NET_RAW --cap-add SYS_NICE --cap-add \
                     IPC_LOCK IMAGE\n"
                ),
            ),
            (
                Some("systemd-nspawn".into()),
                None,
                format!(
                    "limited container: this is a container (systemd-nspawn)\n  {unless}\n  \
                     $ sudo ip link set can0 netns $$\n"
                ),
            ),
        ] {
            assert_eq!(reported(&[judge(&Facts { container, is_host })]), expected);
        }
    }

    #[test]
    fn containers_leave_marks() {
        let folder = tempfile::tempdir().unwrap();
        let container = || collect(&Files::at(folder.path())).container;
        assert_eq!(container(), None);
        fs::write(folder.path().join(".dockerenv"), "").unwrap();
        assert_eq!(container().as_deref(), Some("docker"));
        fs::create_dir_all(folder.path().join("run/systemd")).unwrap();
        fs::write(folder.path().join("run/systemd/container"), "lxc\n").unwrap();
        assert_eq!(container().as_deref(), Some("lxc"));
        assert_eq!(collect(&Files::at(folder.path())).is_host, None);
    }
}
