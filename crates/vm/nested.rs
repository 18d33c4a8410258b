//! What both build scripts here need: a cargo of its own that builds programs for another place than this one.
//!
//! It works in a folder within the target folder that all profiles of the outer build share. Paths of this machine are
//! kept out of what it builds: the same sources and compiler give the same bytes anywhere. That holds for crates of the
//! workspace only: others cargo names by their folders, and the compiler puts functions in the order of such names. So a
//! build can take them from the target folder of another one of the same sources, which the variable [`BUILT`] names.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only architecture that guests have so far.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The variable with the target folder of another build of the same sources.
const BUILT: &str = "CANDOR_NESTED_BUILT";

/// What is built.
pub(crate) struct Nested<'a> {
    /// The folder within the target folder.
    pub(crate) folder: &'a str,
    /// What cargo does, and with which package.
    pub(crate) arguments: &'a [&'a str],
    /// Flags of the compiler, besides those about paths.
    pub(crate) flags: &'a [&'a str],
    /// What is built, below the folder of the target.
    pub(crate) product: &'a str,
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

impl Nested<'_> {
    /// Builds, and copies what was built into the folder `OUT_DIR`. Where there are no guests, a file without
    /// contents is there instead.
    pub(crate) fn build(&self) {
        let out = PathBuf::from(variable("OUT_DIR"));
        let is_possible = variable("CARGO_CFG_TARGET_OS") == "linux"
            && variable("CARGO_CFG_TARGET_ARCH") == "x86_64";
        println!("cargo:rerun-if-env-changed={BUILT}");
        let bytes = if is_possible {
            let folder = match env::var_os(BUILT) {
                Some(target) => Path::new(&target).join(self.folder).join(TARGET),
                None => self.run_cargo(&target_folder(&out).join(self.folder)),
            };
            let path = folder.join(self.product);
            fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        } else {
            Vec::new()
        };
        let name = Path::new(self.product).file_name().expect("a product is a file");
        fs::write(out.join(name), bytes).expect("the build folder can be written");
    }

    /// The folder of what was built for [`TARGET`].
    fn run_cargo(&self, target_folder: &Path) -> PathBuf {
        let crate_folder = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
        let candor = candor_folder(&crate_folder);
        let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
        let mut flags: Vec<_> = self.flags.iter().map(|&flag| flag.to_owned()).collect();
        flags.push(remap(&candor, "candor"));
        if let Some(home) = cargo_home() {
            flags.push(remap(&home, "cargo"));
        }
        flags.push(remap(target_folder, "target"));

        let mut cargo = Command::new(variable("CARGO"));
        cargo
            .args(self.arguments)
            .args(["--quiet", "--locked", "--profile", "guest", "--target", TARGET])
            .arg("--target-dir")
            .arg(target_folder)
            .current_dir(&candor)
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
            .env_remove("CARGO_TARGET_DIR");
        // What an outer cargo says about its own build (a linter, a fuzzer) is not meant for this one.
        for name in
            ["RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "RUSTC_BOOTSTRAP", "CARGO_BUILD_TARGET"]
        {
            cargo.env_remove(name);
        }
        let status = cargo.status().expect("cargo can be run");
        assert!(status.success(), "{} could not be built; see above", self.product);
        let folder = target_folder.join(TARGET);
        watch_sources(&folder.join(self.product).with_extension("d"), &candor);
        for file in ["Cargo.lock", "Cargo.toml", "crates/vm/nested.rs"] {
            println!("cargo:rerun-if-changed={}", candor.join(file).display());
        }
        println!("cargo:rerun-if-changed=build.rs");
        folder
    }
}

/// The folder of all of Candor's sources.
fn candor_folder(crate_folder: &Path) -> PathBuf {
    let has_lock = |folder: &&Path| folder.join("Cargo.lock").is_file();
    let folder = crate_folder.ancestors().find(has_lock).expect("the workspace is there");
    folder.canonicalize().expect("the workspace is there")
}

/// The target folder of the outer build. `out` is `target/[triple/]profile/build/package/out`; a folder within
/// `target` has the tag that cargo writes there. Without one, `out` itself serves.
fn target_folder(out: &Path) -> &Path {
    out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).unwrap_or(out)
}

/// Asks to be run again when a source of what was built changes. Cargo lists them in a file of the form `program: source
/// source ...`, with a backslash before a space in a name.
fn watch_sources(listing: &Path, workspace: &Path) {
    let text = fs::read_to_string(listing).expect("cargo lists the sources");
    let (_, sources) = text.split_once(": ").expect("the listing has the form `program: sources`");
    for source in sources.trim_end().replace("\\ ", "\0").split(' ') {
        let source = PathBuf::from(source.replace('\0', " "));
        println!("cargo:rerun-if-changed={}", source.display());
        let mut folders = source.ancestors().skip(1).take_while(|folder| *folder != workspace);
        if let Some(folder) = folders.find(|folder| folder.join("Cargo.toml").is_file()) {
            println!("cargo:rerun-if-changed={}", folder.join("Cargo.toml").display());
        }
    }
}

fn cargo_home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}
