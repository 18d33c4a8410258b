//! A build without the laboratory, as for a vehicle.
#![cfg(not(feature = "lab"))]

use std::process::Command;

#[test]
fn commands_of_the_laboratory_say_which_build_has_them() {
    for arguments in [
        &["demo"][..],
        &["demo", "--out", "x"],
        &["lab", "run", "a.toml", "--set", "count=1"],
        &["lab"],
        &["vm", "fetch", "6.12"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_candor")).args(arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        let expected =
            format!("candor: this build has no laboratory, and so no `candor {}`", arguments[0]);
        assert!(said.starts_with(&expected), "{said}");
        assert!(said.ends_with("cargo build --release\n"), "{said}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_candor")).arg("doctor").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("laboratory: this build has none"), "{text}");
}
