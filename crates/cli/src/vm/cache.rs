//! `candor vm cache` and `candor vm clean`: what is in the cache, and what of it goes.

use candor_diagnostics::counted;
use candor_output::say;
use candor_vm::clean::{self, Kind, Piece};
use candor_vm::{Cache, Qemu};
use clap::Args;

use super::json::Removed;
use super::{megabytes, text};
use crate::Answer;
use crate::json::lines;
use crate::output::{Table, print};

#[derive(Args)]
pub(crate) struct Show {
    /// Print JSON Lines: an object of type "cache" per folder
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Clean {
    /// Remove all saved machines, results, headers and drivers, and Debian's package lists
    #[arg(long)]
    all: bool,
    /// Also remove the kernels, with all that belongs to them: machines, results, headers, drivers, compilers
    #[arg(long)]
    kernels: bool,
    /// Only list what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Print JSON Lines: an object of type "removed" per folder
    #[arg(long)]
    json: bool,
}

impl Clean {
    fn takes(&self, piece: &Piece) -> bool {
        match piece.kind {
            Kind::Kernel | Kind::Compiler => self.kernels,
            Kind::Lists => self.all,
            Kind::Machine | Kind::Reports | Kind::Headers | Kind::Driver => {
                self.all || piece.stale.is_some()
            }
        }
    }
}

/// Everything in the cache; without a QEMU, nothing is held against it.
fn pieces(cache: &Cache, without_kernels: bool) -> Result<Vec<Piece>, String> {
    let qemu = Qemu::find();
    if let Err(error) = &qemu {
        say!("cannot check which QEMU the machines need: {error}");
    }
    clean::pieces(cache, qemu.as_ref().ok(), candor_init::INIT, without_kernels).map_err(text)
}

pub(super) fn show(arguments: &Show) -> Answer {
    let cache = Cache::open(None).map_err(text)?;
    let pieces = pieces(&cache, false)?;
    print(&match arguments.json {
        true => lines(&pieces)?,
        false => text_table("cache", &pieces),
    })?;
    say!("{} in {}", total(&pieces), cache.folder().display());
    Ok(true)
}

pub(super) fn clean(arguments: &Clean) -> Answer {
    let cache = Cache::open(None).map_err(text)?;
    let mut taken = pieces(&cache, arguments.kernels)?;
    taken.retain(|piece| arguments.takes(piece));
    if !arguments.dry_run {
        taken = removed(&cache, taken)?;
    }
    print(&match arguments.json {
        true => lines(taken.iter().map(Removed))?,
        false => text_table("removed", &taken),
    })?;
    let done = if arguments.dry_run { "would be removed from" } else { "removed from" };
    say!("{} {done} {}", total(&taken), cache.folder().display());
    Ok(true)
}

/// Removes them, but for those that are in use.
fn removed(cache: &Cache, pieces: Vec<Piece>) -> Result<Vec<Piece>, String> {
    let mut removed = Vec::new();
    for piece in pieces {
        if clean::remove(cache, &piece).map_err(text)? {
            removed.push(piece);
        } else {
            let folder = piece.folder.display();
            say!("{folder} is in use by another process and was kept; try again later");
        }
    }
    Ok(removed)
}

fn total(pieces: &[Piece]) -> String {
    let size = pieces.iter().map(|piece| piece.size).sum();
    format!("{} with {}", counted(pieces.len(), "folder"), megabytes(size))
}

fn text_table(kind: &str, pieces: &[Piece]) -> String {
    if pieces.is_empty() {
        return String::new();
    }
    let folder = |piece: &Piece| {
        let name = piece.folder.file_name().unwrap_or_default();
        name.to_string_lossy().chars().take(12).collect()
    };
    Table::of(pieces)
        .column(kind, |it| it.kind.name().to_owned())
        .column("of", |it| it.name.clone())
        .column(">size", |it| megabytes(it.size))
        .column("stale", |it| it.stale.map_or("", clean::Stale::name).to_owned())
        .column("folder", |it| folder(it))
        .text()
}
