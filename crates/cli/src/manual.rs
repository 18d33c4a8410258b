//! `candor completions` and `candor man`: what a shell and `man` want to know, out of the arguments
//! themselves.

use std::path::{Path, PathBuf};

use candor_diagnostics::counted;
use candor_output::say;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::output::print;
use crate::overwrite::Overwriting;
use crate::{Answer, help};

#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Prints the completions of a shell.
pub(crate) fn completions(arguments: &Completions, mut command: Command) -> Answer {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "candor", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(true)
}

#[derive(Args)]
pub(crate) struct ManPages {
    /// Write the page of every command into this folder; default: print the first page
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwriting: Overwriting,
}

/// Prints or writes manual pages.
pub(crate) fn man(arguments: &ManPages, mut command: Command) -> Answer {
    // Fills in what commands inherit, such as their full names.
    command.build();
    let Some(folder) = &arguments.out else {
        print(&page(&command)?)?;
        return Ok(true);
    };
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("{}: cannot be created: {error}", folder.display()))?;
    let mut count = write_pages(&command, folder, arguments.overwriting)?;
    if let Some(topic) = help::topic_with_page(&command) {
        count += write_pages(topic, folder, arguments.overwriting)?;
    }
    let pages = counted(count, "manual page");
    say!("{pages} in {}", folder.display());
    Ok(true)
}

/// Writes the page of a command and those of its subcommands; how many there are.
fn write_pages(
    command: &Command,
    folder: &Path,
    overwriting: Overwriting,
) -> Result<usize, String> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    overwriting.write(&folder.join(format!("{name}.1")), page(command)?.as_bytes())?;
    // `candor help` repeats all commands, but for one topic.
    let subcommands = command.get_subcommands().filter(|command| command.get_name() != "help");
    subcommands
        .map(|command| write_pages(command, folder, overwriting))
        .try_fold(1, |sum, count| Ok(sum + count?))
}

fn page(command: &Command) -> Result<String, String> {
    let mut page = Vec::new();
    Man::new(command.clone())
        .render(&mut page)
        .map_err(|error| format!("the manual page: {error}"))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
