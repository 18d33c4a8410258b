//! A program of the user's as the gateway.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use candor_linux::clock::{self, Switches};
use candor_linux::realtime::{Policy, Task, set_policy, threads_of};
use candor_protocol::interface;
use candor_protocol::order::Measurement;
use candor_time::{Monotonic, Nanos};

use super::{Tally, policy};
use crate::failure::{Context, FAULT, Failure};

/// What it prints goes here.
const OUTPUT: &str = "/run/gateway.output";
/// How much of that is shown if it dies.
const TOLD_LEN: usize = 2_000;
/// The longest time until it listens,
const START_TIMEOUT: Nanos = Nanos::from_secs(5);
/// looked after so often,
const PERIOD: Nanos = Nanos::from_millis(5);
/// and until it is taken for ready after that.
const QUIET: Nanos = Nanos::from_millis(50);

const PLACE: &str = "gateway";

/// A program at work.
pub(crate) struct Running {
    child: Child,
    argv: Vec<String>,
    /// Whether it was seen to listen.
    listens: bool,
}

impl Running {
    pub(super) fn start(order: &Measurement, argv: &[String]) -> Result<Self, Failure> {
        let fill = |argument: &String| {
            argument.replace("{in}", interface::SOURCE).replace("{out}", interface::TARGET)
        };
        let argv: Vec<String> = argv.iter().map(fill).collect();
        let Some((program, arguments)) = argv.split_first() else {
            return Err(Failure::new(PLACE, "the command is empty", "name a program"));
        };
        let output = File::create(OUTPUT).at(OUTPUT, FAULT)?;
        let errors = output.try_clone().at(OUTPUT, FAULT)?;
        let listeners = listeners();
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .at(program, "add it and its libraries to gateway.files")?;
        let mut running = Self { child, argv, listens: false };
        // Above the program, which may do anything. Not before it is started: it would inherit that.
        set_policy(Task::This, Policy::Fifo(99)).at(PLACE, FAULT)?;
        let outcome = running.make_ready(policy(order.settings.gateway_priority), &listeners);
        set_policy(Task::This, Policy::Other).at(PLACE, FAULT)?;
        outcome?;
        Ok(running)
    }

    fn make_ready(&mut self, policy: Policy, listeners: &str) -> Result<(), Failure> {
        let remedy = "check that the program still runs";
        self.check_alive()?;
        set_policy(Task::Id(self.child.id()), policy).at(PLACE, remedy)?;
        self.wait_until_it_listens(listeners)?;
        // Threads that it started before it had its priority.
        for thread in threads_of(self.child.id()).at(PLACE, remedy)? {
            set_policy(Task::Id(thread.id), policy).at(PLACE, remedy)?;
        }
        Ok(())
    }

    /// Waits until there is another receiver of frames, and a while longer.
    fn wait_until_it_listens(&mut self, before: &str) -> Result<(), Failure> {
        let end = clock::now::<Monotonic>() + START_TIMEOUT;
        while clock::now::<Monotonic>() < end {
            pause(PERIOD)?;
            self.check_alive()?;
            if listeners() != before {
                self.listens = true;
                break;
            }
        }
        pause(QUIET)?;
        self.check_alive()
    }

    /// Fails if the program has ended.
    fn check_alive(&mut self) -> Result<(), Failure> {
        match self.child.try_wait().at(PLACE, FAULT)? {
            None => Ok(()),
            Some(status) => Err(self.died(status)),
        }
    }

    fn died(&self, status: ExitStatus) -> Failure {
        let printed = fs::read(OUTPUT).unwrap_or_default();
        let start = printed.len().saturating_sub(TOLD_LEN);
        let printed = String::from_utf8_lossy(printed.get(start..).unwrap_or_default());
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("with status {code}"),
            (None, signal) => format!("by signal {}", signal.unwrap_or(0)),
        };
        let reason = format!(
            "`{}` ended {how} before the experiment ended, and printed: {}",
            self.argv.join(" "),
            printed.trim()
        );
        Failure::new(PLACE, reason, "it must run until it is stopped")
    }

    /// What it has used so far. It must not have ended before.
    pub(super) fn tally(&mut self) -> Result<Tally, Failure> {
        self.check_alive()?;
        let mut tally = Tally::default();
        for thread in threads_of(self.child.id()).at(PLACE, "check that the program still runs")? {
            let folder = format!("/proc/{}/task/{}", self.child.id(), thread.id);
            let read = |name: &str| fs::read_to_string(format!("{folder}/{name}"));
            tally.cpu += cpu(&read("schedstat").unwrap_or_default());
            let switches = switches(&read("status").unwrap_or_default());
            tally.switches.voluntary += switches.voluntary;
            tally.switches.involuntary += switches.involuntary;
        }
        tally.notes.push("losses at the sockets of a command are not counted".into());
        if !self.listens {
            tally.notes.push(format!(
                "`{}` did not open a CAN socket within {} s",
                self.argv.join(" "),
                START_TIMEOUT.as_nanos() / 1_000_000_000
            ));
        }
        Ok(tally)
    }

    /// Ends it.
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        self.child.kill().at(PLACE, FAULT)?;
        self.child.wait().at(PLACE, FAULT).map(drop)
    }
}

fn pause(time: Nanos) -> Result<(), Failure> {
    clock::sleep_until(clock::now::<Monotonic>() + time).at(PLACE, FAULT)
}

/// Everybody who receives frames, in whatever form.
fn listeners() -> String {
    let lists = ["all", "fil", "inv", "eff", "sff"].map(|list| format!("can/rcvlist_{list}"));
    let files = lists.iter().map(String::as_str).chain(["packet"]);
    files.map(|file| fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default()).collect()
}

/// The time on a CPU, the first number of `schedstat`.
pub(super) fn cpu(schedstat: &str) -> Nanos {
    let number = schedstat.split_whitespace().next().and_then(|number| number.parse().ok());
    Nanos::from_nanos(number.unwrap_or(0))
}

pub(super) fn switches(status: &str) -> Switches {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim_start_matches(':').trim().parse().ok()).unwrap_or(0)
    };
    Switches {
        voluntary: field("voluntary_ctxt_switches"),
        involuntary: field("nonvoluntary_ctxt_switches"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_of_a_thread_is_read() {
        assert_eq!(cpu("123456 789 12\n"), Nanos::from_nanos(123_456));
        assert_eq!(cpu(""), Nanos::ZERO);
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches(status), Switches { voluntary: 7, involuntary: 3 });
        assert_eq!(switches(""), Switches::default());
    }
}
