//! What gateways are called, and which of those that run is meant.
//!
//! The socket of a gateway is called after its rule file: `drive.sock` for `drive.rules.toml`.
//! [`candor_daemon::place`] says where it is.

use std::path::{Path, PathBuf};

pub use candor_daemon::place::{Places, Running};

/// How much of the name of a rule file becomes the name of the gateway: the path of a socket is
/// short.
const MAX_NAME: usize = 40;

/// What a gateway with these rules is called: `drive` for `drive.rules.toml`.
#[must_use]
pub fn name_of(file: &Path) -> String {
    let name =
        file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name = [".rules.toml", ".toml", ".rules", ".cangw", ".sh"]
        .into_iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(&name);
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = name.trim_start_matches('.').chars().take(MAX_NAME).map(plain).collect();
    if name.is_empty() { "gateway".into() } else { name }
}

/// Which gateway is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// The only one.
    Any,
    /// The one with the rules of this file; the name of the gateway alone will do.
    File(&'a Path),
    /// The one with this socket, or with this name if there is no slash in it.
    Control(&'a Path),
}

/// The socket of the gateway that is meant.
///
/// # Errors
/// It is not running, or it is not clear which is meant: a sentence with the remedy.
pub fn find(places: &Places, wanted: Wanted<'_>) -> Result<PathBuf, String> {
    let (name, start) = match wanted {
        Wanted::Control(path) if path.as_os_str().as_encoded_bytes().contains(&b'/') => {
            return Ok(path.to_owned());
        }
        Wanted::Control(path) if path.exists() => return Ok(path.to_owned()),
        Wanted::Control(name) => {
            let name = name.to_string_lossy();
            (Some(name.strip_suffix(".sock").unwrap_or(&name).to_owned()), None)
        }
        Wanted::File(file) => (Some(name_of(file)), Some(file)),
        Wanted::Any => (None, None),
    };
    let found = places.search();
    let running = &found.running;
    let start = match start {
        Some(file) if file.is_file() => format!("candor route run {}", file.display()),
        _ => "candor route run FILE".into(),
    };
    let meant: Vec<_> = running
        .iter()
        .filter(|running| name.as_ref().is_none_or(|name| running.name == *name))
        .collect();
    let error = match (meant.as_slice(), name) {
        ([one], _) if !one.is_permitted => format!(
            "the gateway `{}` belongs to another user ({}); try sudo",
            one.name,
            one.path.display()
        ),
        ([one], name) if name.is_some() || found.crowded.is_empty() => return Ok(one.path.clone()),
        ([], Some(name)) if running.is_empty() => format!(
            "no gateway `{name}` is running, and no other gateway (searched {}); start it with: {start}",
            places.shown("gateways")
        ),
        ([], Some(name)) => format!(
            "no gateway `{name}` is running; start it with: {start}; or choose a running one \
                 with --control: {}",
            list(&running.iter().collect::<Vec<_>>())
        ),
        ([], None) => format!(
            "no gateway is running (searched {}); start one with: {start}",
            places.shown("gateways")
        ),
        ([one], None) => format!(
            "the gateway {} is running, and perhaps others are; choose one with --control",
            list(&[*one])
        ),
        (several, _) => format!(
            "{} gateways are running: {}; choose one with --control",
            several.len(),
            list(several)
        ),
    };
    Err([Some(error), found.warning()].into_iter().flatten().collect::<Vec<_>>().join("; "))
}

/// `drive (/run/candor/drive.sock), rack (/run/candor/rack.sock)`
fn list(running: &[&Running]) -> String {
    let shown: Vec<_> = running
        .iter()
        .map(|running| format!("{} ({})", running.name, running.path.display()))
        .collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::chown;
    use std::os::unix::net::UnixListener;

    use candor_linux::peer::own_user;
    use candor_linux::runtime::Folders;

    use super::*;

    #[test]
    fn gateways_are_called_after_their_rules() {
        let long = "x".repeat(300);
        for (file, name) in [
            ("/etc/candor/drive.rules.toml", "drive"),
            ("drive.toml", "drive"),
            ("drive.v2.rules.toml", "drive.v2"),
            ("drive", "drive"),
            ("rack.sh", "rack"),
            ("two words/ä b.toml", "__b"),
            (".hidden.toml", "hidden"),
            (".toml", "gateway"),
            ("..", "gateway"),
            ("", "gateway"),
            (&long, &long[..40]),
        ] {
            assert_eq!(name_of(Path::new(file)), name, "{file}");
        }
    }

    #[test]
    fn what_else_is_in_a_folder_hides_no_gateway() {
        let folder = tempfile::tempdir().unwrap();
        let (system, temporary) = (folder.path().join("run"), folder.path().join("tmp"));
        let places = Places::from(Folders::new(|_| None, &system, &temporary, own_user()));
        let service = system.join("service");
        fs::create_dir_all(&service).unwrap();
        let fill = |ending: &str, count: usize| {
            for number in 0..count {
                fs::write(system.join(format!("{number}.{ending}")), "").unwrap();
            }
        };
        fill("lock", 2_000);
        let (drive, rack) = (system.join("drive.sock"), service.join("rack.sock"));
        let _listening = [&drive, &rack].map(|path| UnixListener::bind(path).unwrap());
        for (name, path) in [("drive", &drive), ("rack", &rack)] {
            assert_eq!(find(&places, Wanted::File(Path::new(name))).as_ref(), Ok(path));
        }
        assert_eq!(places.search().warning(), None);
        // Of more sockets than are looked at it is said.
        fill("sock", 2_000);
        for wanted in [Wanted::File(Path::new("none")), Wanted::Any] {
            let error = find(&places, wanted).unwrap_err();
            let warning = format!("not all of {} was searched, since 1000", system.display());
            assert!(error.contains(&warning), "{wanted:?}: {error}");
        }
        assert_eq!(find(&places, Wanted::File(Path::new("rack"))), Ok(rack));
    }

    #[test]
    fn the_gateway_that_is_meant_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (system, temporary) = (folder.path().join("run"), folder.path().join("tmp"));
        let of_user = |user| Places::from(Folders::new(|_| None, &system, &temporary, user));
        let places = of_user(own_user());
        let error = |wanted| find(&places, wanted).unwrap_err();
        assert!(error(Wanted::Any).starts_with("no gateway is running (searched "));
        assert!(error(Wanted::Any).ends_with("start one with: candor route run FILE"));
        let rules = folder.path().join("drive.rules.toml");
        fs::write(&rules, "").unwrap();
        let start = format!("start it with: candor route run {}", rules.display());
        assert!(error(Wanted::File(&rules)).ends_with(&start), "{}", error(Wanted::File(&rules)));

        let within = system.join("rack");
        fs::create_dir_all(&within).unwrap();
        let drive = places.sockets("drive").remove(0);
        let listening = UnixListener::bind(&drive).unwrap();
        drop(UnixListener::bind(system.join("stale.sock")).unwrap());
        fs::write(system.join("file.sock"), "").unwrap();
        for wanted in [Wanted::Any, Wanted::File(&rules), Wanted::File(Path::new("drive"))] {
            assert_eq!(find(&places, wanted).as_ref(), Ok(&drive), "{wanted:?}");
        }
        assert_eq!(find(&places, Wanted::Control(Path::new("drive"))).as_ref(), Ok(&drive));
        assert_eq!(find(&places, Wanted::Control(Path::new("drive.sock"))).as_ref(), Ok(&drive));
        let named = Path::new("./any.sock");
        assert_eq!(find(&places, Wanted::Control(named)), Ok(named.to_owned()));
        let other = error(Wanted::File(Path::new("rack.toml")));
        assert!(other.starts_with("no gateway `rack` is running; start it with"), "{other}");
        assert!(other.contains("choose a running one with --control: drive ("), "{other}");

        let _rack = UnixListener::bind(within.join("rack.sock")).unwrap();
        let several = error(Wanted::Any);
        assert!(several.starts_with("2 gateways are running: drive ("), "{several}");
        assert!(several.contains("rack (") && several.ends_with("--control"), "{several}");
        assert_eq!(find(&places, Wanted::File(&rules)).as_ref(), Ok(&drive));
        drop(listening);
        assert_eq!(find(&places, Wanted::Any), Ok(within.join("rack.sock")));

        // Root sees what users run, where it belongs to them.
        let user = if own_user() == 0 { 1_234 } else { own_user() };
        let users = temporary.join(format!("candor-{user}"));
        fs::create_dir_all(&users).unwrap();
        let _users = UnixListener::bind(users.join("users.sock")).unwrap();
        let root = of_user(0);
        let sees = || root.search().running.iter().any(|running| running.name == "users");
        for path in [users.join("users.sock"), users] {
            assert_eq!(sees(), user == own_user());
            chown(&path, Some(user), None).unwrap();
        }
        assert!(sees());

        // Nobody else's folders.
        let stranger = of_user(own_user() + 1);
        assert_eq!(stranger.search().running.len(), usize::from(own_user() == 0));
    }
}
