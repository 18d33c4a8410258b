//! `candor help`: commands explained, and the objects that `--json` prints.
//!
//! It takes the place of clap's own `help`, and knows one topic more, `json`.

mod json;

use clap::{ArgMatches, Args as _, ColorChoice, Command, FromArgMatches as _};

use crate::Answer;

const HELP: &str = "help";
const JSON: &str = "json";

/// Gives `help` to a command and to all commands below it that have commands themselves.
pub(crate) fn with_help(command: Command) -> Command {
    let json = Command::new(JSON).about("Describe the objects that `--json` prints");
    let json = json::Json::augment_args(json);
    with_topics(command, Some(json)).disable_help_subcommand(true)
}

fn with_topics(command: Command, more: Option<Command>) -> Command {
    let about = "Explain a command, or the objects that `--json` prints";
    let about = if more.is_some() { about } else { "Explain a command" };
    let help = Command::new(HELP).about(about);
    let topics = command.get_subcommands().map(topic).chain([help.clone()]).chain(more);
    let help = help.subcommands(topics.collect::<Vec<_>>());
    let is_group = Command::has_subcommands;
    let below = |below: Command| if is_group(&below) { with_topics(below, None) } else { below };
    command.mut_subcommands(below).subcommand(help)
}

/// The name of a command and those of the commands below it.
fn topic(command: &Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    let below = command.get_subcommands().map(topic);
    Command::new(command.get_name().to_owned()).about(about).subcommands(below)
}

/// The topic of `candor help` that is no command, and has a manual page of its own.
pub(crate) fn topic_with_page(command: &Command) -> Option<&Command> {
    command.find_subcommand(HELP)?.find_subcommand(JSON)
}

/// What the arguments ask to have explained, if they do.
pub(crate) fn asked(matches: &ArgMatches) -> Option<HelpTopic> {
    let (mut path, mut is_help) = (Vec::new(), false);
    let mut matches = matches;
    while let Some((name, below)) = matches.subcommand() {
        match name {
            HELP if !is_help => is_help = true,
            JSON if is_help && path.is_empty() => {
                return json::Json::from_arg_matches(below).ok().map(HelpTopic::Json);
            }
            name => path.push(name.to_owned()),
        }
        matches = below;
    }
    is_help.then_some(HelpTopic::Command(path))
}

/// What can be explained.
pub(crate) enum HelpTopic {
    /// The command with these names, from the first to the last.
    Command(Vec<String>),
    Json(json::Json),
}

/// Explains it.
pub(crate) fn run(topic: &HelpTopic, command: Command, color: ColorChoice) -> Answer {
    match topic {
        HelpTopic::Json(arguments) => json::run(arguments),
        HelpTopic::Command(path) => {
            let words = ["candor"].into_iter().chain(path.iter().map(String::as_str));
            let words = words.chain(["--help"]);
            // A help text is what clap has in place of matches.
            match command.color(color).try_get_matches_from(words) {
                Err(help) => help.exit(),
                Ok(_) => Ok(true),
            }
        }
    }
}
