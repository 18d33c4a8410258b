//! Package lists and packages, and those that are not as they must be.

use super::*;

/// What apt makes of our configuration on a machine that allows everything.
#[test]
fn nothing_unsigned_is_taken_whatever_the_machine_allows() {
    let folder = tempfile::tempdir().unwrap();
    let (theirs, ours) = (folder.path().join("theirs"), folder.path().join("ours"));
    let allows = |key: &&str| format!("{key} \"true\";\nBinary::apt-get::{key} \"true\";\n");
    fs::write(&theirs, REFUSED.iter().map(allows).collect::<String>()).unwrap();
    fs::write(&ours, configuration("/c", RunsAs::Itself)).unwrap();
    // Of the machine's settings this file is one; ours is given as it always is.
    let mut command = Command::new("apt-config");
    command.env("APT_CONFIG", &theirs).arg("-c").arg(&ours).arg("dump");
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "apt-config: {error}");
            println!("not run: apt-config cannot be run: {error}");
            return;
        }
    };
    let dump = String::from_utf8(output.stdout).unwrap();
    for key in REFUSED {
        let found: Vec<_> = dump
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(name, _)| name.to_lowercase().ends_with(&key.to_lowercase()))
            .collect();
        assert!(found.len() >= 2, "{key} is not known:\n{dump}");
        assert!(found.iter().all(|(_, value)| *value == "\"false\";"), "{found:?}");
    }
    assert!(dump.contains("APT::Sandbox::User \"root\";"), "{dump}");
    assert!(!configuration("/c", RunsAs::Sandboxed).contains("Sandbox"));
}

#[test]
fn root_hands_over_its_rights_where_the_sandbox_can_work() {
    // Whose parents everybody may enter.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let set = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let (root, keys) = (folder.path().join("apt"), folder.path().join("keys"));
    fs::create_dir(&root).unwrap();
    fs::write(&keys, "").unwrap();
    for (above, inside, key, expected) in [
        (0o711, 0o755, 0o644, RunsAs::Sandboxed),
        (0o700, 0o755, 0o644, RunsAs::Root),
        (0o711, 0o700, 0o644, RunsAs::Root),
        (0o711, 0o755, 0o600, RunsAs::Root),
    ] {
        set(folder.path(), above);
        set(&root, inside);
        set(&keys, key);
        assert_eq!(RunsAs::new(0, &root, &keys), expected, "{above:o} {inside:o} {key:o}");
        assert_eq!(RunsAs::new(1000, &root, &keys), RunsAs::Itself);
    }
}

#[test]
fn what_apt_says_is_understood() {
    let cases = [
        (
            "E: Failed to fetch x  Error writing to file - write (28: No space left on device)",
            "no space for the package x: ",
        ),
        ("E: You don't have enough free space in /c.", "no space for"),
        (
            "E: Failed to fetch http://m/x.deb  Hash Sum mismatch\n   Hashes of expected file:",
            "the package x is damaged: Failed to fetch http://m/x.deb  Hash Sum mismatch",
        ),
        (
            "E: Failed to fetch x  File has unexpected size (1 != 2). Mirror sync in progress?",
            "is damaged",
        ),
        (
            "W: GPG error: http://m trixie InRelease: NO_PUBKEY 0E98\nE: The repository is not \
          signed.",
            "the package x: the signature is not from Debian: The repository is not",
        ),
        (
            "Err: x\nE: Failed to fetch x  Could not resolve 'm'",
            "the mirror cannot be reached: Failed to fetch x  Could not resolve 'm'",
        ),
        ("E: Failed to fetch x  Could not connect to m:80", "the mirror cannot be reached"),
        ("E: Failed to fetch x  404  Not Found [IP: ::1 80]", "the mirror does not have"),
        ("E: Something new", "the package x cannot be downloaded: Something new; "),
        ("", "cannot be downloaded: it gives no reason"),
        ("E: \u{1b}[2Jgone", "cannot be downloaded: ?[2Jgone"),
    ];
    for (stderr, expected) in cases {
        let message = explain("the package x", stderr).to_string();
        assert!(message.contains(expected) && !message.contains('\n'), "{message}");
    }
}

#[test]
fn packages_are_read_from_what_apt_prints() {
    let show = "Package: linux-image-6.12.1+deb13-amd64\nSource: linux\nVersion: 6.12.1-1\n\
                Filename: pool/x.deb\nSize: 107179464\nDescription: a kernel\n\n\
                Package: linux-image-6.12.2+deb13-amd64\nVersion: 6.12.2-1\nSize: 1\n\n\
                Package: linux-image-cut\nFilename: x\nVersion: 1\nSize: many\n\n";
    let packages = paragraphs(show);
    assert_eq!(packages.len(), 1, "without a file or a size there is nothing to fetch");
    let package = &packages[0];
    assert_eq!(package.version, "6.12.1-1");
    assert_eq!(package.size, 107_179_464);
    let madison = " linux-image-6.12.1+deb13-amd64 | 6.12.0-1 | http://m/debian sid/main amd64 \
                   Packages\n linux-image-6.12.1+deb13-amd64 |  6.12.1-1 | http://m/debian \
                   trixie-backports/main amd64 Packages\n";
    assert_eq!(suite_of(madison, package).as_deref(), Some("trixie-backports"));
    assert_eq!(suite_of("", package), None);
}

#[test]
fn progress_is_read_from_what_apt_prints() {
    assert_eq!(percent("dlstatus:1:27.4:Retrieving file 1 of 1"), Some(27.4));
    for line in ["", "pmstatus:x:1:y", "dlstatus:1", "dlstatus:1:x:y"] {
        assert_eq!(percent(line), None, "{line}");
    }
}

#[test]
fn a_path_that_breaks_apts_files_is_refused() {
    assert_eq!(plain(Path::new("/a/b+c")).unwrap(), "/a/b+c");
    for path in ["/a b", "/a\"b", "/a\nb"] {
        let message = plain(Path::new(path)).unwrap_err().to_string();
        assert!(message.contains("CANDOR_CACHE"), "{message}");
    }
}
