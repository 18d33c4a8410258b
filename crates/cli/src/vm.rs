//! `candor vm`: the kernels for guests.
//!
//! `candor help json vm` describes what `--json` prints.

mod cache;
pub(crate) mod json;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use candor_output::say;
use candor_vm::kernel::{self, Available, Cached, Fetcher, Fetching, Progress};
use candor_vm::{Cache, Kernel, Spec};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Answer;
use crate::json::{line, lines};
use crate::output::{Table, print};
use crate::progress::{catch_interrupt, is_interrupted};

/// Download and list Linux kernels for virtual machines, and manage the cache
#[derive(Subcommand)]
pub(crate) enum VmCommand {
    /// List Debian's kernels and those in the cache
    ///
    /// The cache is the folder $CANDOR_CACHE [default: ~/.cache/candor]. Exits with 1 if a kernel
    /// in it is damaged.
    Kernels(Kernels),
    /// Download kernels into the cache
    ///
    /// apt downloads and verifies Debian's packages, with a separate configuration: it installs
    /// nothing, does not change the machine's settings, and needs no root. A kernel that is in the
    /// cache is not downloaded again.
    ///
    /// Examples:
    ///   candor vm fetch 6.12 6.12-rt
    ///   candor vm fetch --headers 6.12-rt
    ///   candor vm fetch --kernel arch/x86/boot/bzImage --modules modules/lib/modules
    #[command(verbatim_doc_comment)]
    Fetch(Fetch),
    /// Show the contents and the size of the cache
    ///
    /// Machines and results are stale if they cannot be used any more: their kernel is not in the
    /// cache, or another QEMU or another Candor made them.
    Cache(cache::Show),
    /// Remove saved machines and results that cannot be used any more
    ///
    /// `candor vm cache` marks them as stale. Everything in the cache can be created or downloaded
    /// again.
    ///
    /// Example: candor vm clean --dry-run
    Clean(cache::Clean),
}

#[derive(Args)]
struct Source {
    /// The Debian mirror; default: the one in the apt sources of this machine
    #[arg(long, value_name = "ADDRESS")]
    mirror: Option<String>,
    /// The file with Debian's keys; default: those of the package debian-archive-keyring
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
}

impl Source {
    fn fetching(&self, wants_newest: bool) -> Fetching {
        Fetching { mirror: self.mirror.clone(), keyring: self.keyring.clone(), wants_newest }
    }
}

#[derive(Args)]
pub(crate) struct Kernels {
    /// List every release that Debian has, and not only the newest of each series
    #[arg(long)]
    all: bool,
    /// Download Debian's package lists first
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    source: Source,
    /// Print JSON Lines: objects of type "available" and "cached"
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Fetch {
    /// Series such as 6.12 or 6.12-rt, or debian:VERSION as in linux-image-VERSION
    #[arg(value_name = "KERNEL", value_parser = parse_spec, required_unless_present = "kernel")]
    kernels: Vec<Spec>,
    /// The image of your own kernel: arch/x86/boot/bzImage
    #[arg(long, value_name = "FILE", requires = "modules")]
    kernel: Option<PathBuf>,
    /// The modules of your own kernel: the folder lib/modules/RELEASE, or a folder above it
    #[arg(long, value_name = "DIR", requires = "kernel")]
    modules: Option<PathBuf>,
    /// Download what drivers for these kernels are built with as well: headers, and their compiler if it is not here
    #[arg(long)]
    headers: bool,
    /// Download the newest kernel of a series even if the cache has an older one
    #[arg(long)]
    newest: bool,
    #[command(flatten)]
    source: Source,
    /// Print JSON Lines: one object of type "kernel" per kernel
    #[arg(long)]
    json: bool,
}

fn parse_spec(text: &str) -> Result<Spec, String> {
    text.parse().map_err(|error: candor_vm::Error| error.to_string())
}

pub(crate) fn run(command: &VmCommand) -> Answer {
    match command {
        VmCommand::Kernels(arguments) => list(arguments),
        VmCommand::Fetch(arguments) => fetch(arguments),
        VmCommand::Cache(arguments) => cache::show(arguments),
        VmCommand::Clean(arguments) => cache::clean(arguments),
    }
}

fn text(error: candor_vm::Error) -> String {
    error.to_string()
}

fn list(arguments: &Kernels) -> Answer {
    let cache = Cache::open(None).map_err(text)?;
    if arguments.update {
        catch_interrupt();
        let bar = Bar::new();
        let updated = Fetcher::new(&cache, arguments.source.fetching(false), &bar).update();
        bar.finish();
        updated.map_err(text)?;
    }
    let available = kernel::available(&cache).map_err(text)?;
    let cached = kernel::cached(&cache).map_err(text)?;
    if available.is_none() {
        say!(
            "Debian's kernels are not known yet; download the package lists with `candor vm \
             kernels --update`"
        );
    }
    let mut available = available.unwrap_or_default();
    available.retain(|it| arguments.all || it.is_newest);
    if arguments.json {
        print(&(lines(&available)? + &lines(&cached)?))?;
    } else {
        print(&overview(&available, &cached))?;
        say!("the cache is {}", cache.folder().display());
    }
    let mut is_sound = true;
    for error in cached.iter().filter_map(|cached| cached.kernel.as_ref().err()) {
        say!("{error}");
        is_sound = false;
    }
    Ok(is_sound)
}

/// Two tables: what there is, and what is here.
fn overview(available: &[Available], cached: &[Cached]) -> String {
    let mut out = String::new();
    if !available.is_empty() {
        out.push_str(
            &Table::of(available)
                .column("available", |it| it.spec().to_string())
                .column("release", |it| it.release.clone())
                .column("package version", |it| it.version.clone())
                .column("suite", |it| it.suite.clone())
                .column(">download", |it| megabytes(it.size))
                .text(),
        );
        out.push('\n');
    }
    if cached.is_empty() {
        return out + "no kernel is in the cache; download one with `candor vm fetch 6.12`\n";
    }
    out + &Table::of(cached)
        .column("cached", |it| it.name.clone())
        .column("release", |it| {
            it.kernel.as_ref().map_or("damaged".into(), |kernel| kernel.release.clone())
        })
        .column(">size", |it| megabytes(it.size))
        .column("package", |it| match &it.kernel {
            Ok(kernel) => kernel.package.clone().unwrap_or_else(|| "own build".into()),
            Err(_) => "-".into(),
        })
        .text()
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn fetch(arguments: &Fetch) -> Answer {
    let cache = Cache::open(None).map_err(text)?;
    let mut specs = arguments.kernels.clone();
    if let (Some(image), Some(modules)) = (&arguments.kernel, &arguments.modules) {
        specs.push(Spec::Files { image: image.clone(), modules: modules.clone() });
    }
    catch_interrupt();
    let bar = Bar::new();
    let fetcher = Fetcher::new(&cache, arguments.source.fetching(arguments.newest), &bar);
    for spec in &specs {
        let kernel = fetcher.fetch(spec);
        bar.clear();
        let kernel = kernel.map_err(text)?;
        if arguments.headers {
            let fetched = fetcher.fetch_headers(&kernel);
            bar.clear();
            fetched.map_err(text)?;
        }
        print(&if arguments.json { line(&kernel)? } else { sentence(&kernel) })?;
    }
    bar.finish();
    Ok(true)
}

fn sentence(kernel: &Kernel) -> String {
    let package = kernel.package.as_deref().unwrap_or("own build");
    let suite = kernel.suite.as_ref().map_or(String::new(), |suite| format!(", {suite}"));
    format!("{}: {} ({package}{suite})\n", kernel.name, kernel.release)
}

/// A bar over the bytes of one package after the other.
struct Bar {
    bar: ProgressBar,
}

impl Bar {
    fn new() -> Self {
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::new(0)
        } else {
            ProgressBar::hidden()
        };
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Makes room for other output.
    fn clear(&self) {
        self.bar.set_style(ProgressStyle::default_spinner());
        self.bar.set_message("");
        self.bar.reset();
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn step(&self, what: &str, bytes: u64) {
        let style = match bytes {
            0 => "{spinner} {msg}",
            _ => "{bar:30} {percent:>3} %  {bytes} of {total_bytes}  {msg}  {eta} left",
        };
        if let Ok(style) = ProgressStyle::with_template(style) {
            self.bar.set_style(style);
        }
        self.bar.set_length(bytes);
        self.bar.reset();
        self.bar.set_message(what.to_owned());
        if self.bar.is_hidden() {
            say!("downloading {what}");
        }
    }

    fn percent(&self, percent: f64) {
        let length = self.bar.length().unwrap_or(0);
        self.bar.set_position((length as f64 * percent / 100.0) as u64);
    }

    fn note(&self, text: &str) {
        self.bar.suspend(|| say!("{text}"));
    }

    fn proceed(&self) -> bool {
        !is_interrupted()
    }
}
