//! `candor lab`: experiments, their results, the report, and claims about them. One file per command.

mod claims;
mod compare;
mod coverage;
mod history;
pub(crate) mod json;
mod list;
mod messages;
mod overview;
mod profile;
mod ranges;
mod report;
mod run;
mod selection;
mod show;
mod worker;

use clap::Subcommand;

pub(crate) use self::claims::run_with_claims as run_time_triggered;
pub(crate) use self::overview::narrow_overview;
pub(crate) use self::run::Run as TimeTriggeredRun;
use crate::Answer;
use crate::output::print;

/// Run experiments and report their latencies
#[derive(Subcommand)]
pub(crate) enum LabCommand {
    /// Run the experiments of a file and write results and a report
    ///
    /// Example: candor lab run examples/small-car.toml --only '*flood*' --set count=1000
    Run(run::Run),
    /// List the experiments of a file
    List(list::List),
    /// Rebuild the report from the results in a folder
    Report(report::Report),
    /// Draw the latency profiles of the results in a folder
    ///
    /// Example: candor lab show candor-report --only 'flood*' --metric egress_wait
    Show(show::Show),
    /// Show the response times of each message of the results in a folder
    ///
    /// Messages are what periodic traffic consists of. Their response time is the time from when a frame
    /// is queued at its node to its end on the bus of the node.
    ///
    /// Example: candor lab messages candor-report --only car
    Messages(messages::Messages),
    /// Run the experiments that the claims of a file need, and check the claims
    ///
    /// Exits with 1 if a claim does not hold.
    ///
    /// Example: candor lab claims campaigns/gateway-timing-sim.toml
    Claims(claims::Claims),
    /// Count the instructions of vm experiments, by module and function, per frame
    ///
    /// Exact: QEMU counts every instruction, and the guest's time does not change. Slow: send few
    /// frames.
    ///
    /// Example: candor lab profile campaigns/vm-quick.toml --only kernel --set count=50
    Profile(profile::Profile),
    /// Compare the results in two folders: what became slower, by how much, and where
    ///
    /// Exits with 1 if a figure is gone, or worse than --allow permits: in sim the shortest and the median latency, exactly; in vm
    /// without load the shortest and the mean latency, the lengths of the paths that frames take, and the instructions per
    /// frame, where boots and seeds do not explain the difference; and lost frames. With fewer than five boots on a side, and with
    /// counts of instructions alone, there is no verdict, and it exits with 2. All other figures (under load, in host, of real buses) are shown as ranges over their
    /// seeds, and so is everything between two QEMUs: they never change the exit code. With the counts of
    /// `candor lab profile --out`, shows in which function the difference is.
    ///
    /// Example: candor lab compare before after --allow 1%
    Compare(compare::Compare),
    /// Show the same experiments on one kernel after the other, and where a figure changed
    ///
    /// Builds of Debian 12 and of Debian 13, and kernels with and without PREEMPT_RT, are lines of their own. With the
    /// counts of `candor lab profile --out`, shows which functions changed.
    ///
    /// Example: candor lab history candor-report --only simple-one-at-a-time-2-none
    History(history::History),
    /// Print the JSON Schema of experiment files, for editors
    ///
    /// Example: candor lab schema > experiments.schema.json
    Schema,
    /// A process of the testbed `host`
    #[command(hide = true)]
    Worker,
}

/// What may be in an experiment file.
const SCHEMA: &str = include_str!("../../../schemas/experiments.schema.json");

pub(crate) fn run(command: &LabCommand) -> Answer {
    match command {
        LabCommand::Run(arguments) => run::run(arguments),
        LabCommand::List(arguments) => list::list(arguments),
        LabCommand::Report(arguments) => report::report(arguments),
        LabCommand::Show(arguments) => show::show(arguments),
        LabCommand::Messages(arguments) => messages::messages(arguments),
        LabCommand::Claims(arguments) => claims::claims(arguments),
        LabCommand::Profile(arguments) => profile::profile(arguments),
        LabCommand::Compare(arguments) => compare::compare(arguments),
        LabCommand::History(arguments) => history::history(arguments),
        LabCommand::Worker => worker::worker(),
        LabCommand::Schema => print(SCHEMA).map(|()| true),
    }
}
