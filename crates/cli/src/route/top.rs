//! `candor route top`: a running gateway in a terminal.
//!
//! [`State`] is what is shown and what keys change, [`view`] draws it into any rectangle; both are
//! without a terminal. Here is the terminal, and what comes from the gateway and the keyboard.
//! Colours are left out if `NO_COLOR` is set.

mod state;
mod view;

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use std::{env, thread};

use candor_gateway::Snapshot;
use candor_gateway::control::{Client, ClientError};
use candor_output::say;
use candor_time::Nanos;
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use self::state::State;
use super::gateway::{connect, describe};
use super::stats::read_interval;
use crate::Answer;

#[derive(Args)]
pub(crate) struct TopArgs {
    /// The rule file of the gateway, or its name; default: the only gateway that runs
    file: Option<PathBuf>,
    /// The control socket of the gateway, or its name
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// The time between two updates
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = read_interval)]
    interval: Nanos,
}

/// How long to wait for a key before looking whether there is something new to show.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Set when somebody wants the command to end.
static STOP: AtomicBool = AtomicBool::new(false);

pub(super) fn run(args: &TopArgs) -> Answer {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(
            "this needs a terminal; for a file or a pipe use: candor route stats --watch".into()
        );
    }
    let client = connect(args.file.as_deref(), args.control.as_deref())?;
    let snapshots = follow(client, args.interval)?;
    // Where no handler can be set, a signal ends the program and the terminal stays as it is.
    let _ = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed));
    let _ = candor_linux::signal::others_as_terminate();
    let is_coloured = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut state = State { is_coloured, ..State::default() };
    // This also sees to it that the terminal is restored if something panics.
    let mut terminal = ratatui::try_init()
        .map_err(|error| format!("this terminal cannot be used: {error}; check TERM"))?;
    let shown = show(&mut terminal, &mut state, &snapshots);
    ratatui::restore();
    shown?;
    if let Some(news) = &state.end {
        say!("{news}");
    }
    Ok(true)
}

/// What comes from the gateway; why it ended comes last.
fn follow(
    client: Client,
    interval: Nanos,
) -> Result<Receiver<Result<Snapshot, ClientError>>, String> {
    let snapshots = client.watch(interval).map_err(describe)?;
    let (tell, reported) = mpsc::sync_channel(4);
    // It ends with the program, or when nobody wants to know any more.
    thread::spawn(move || {
        for snapshot in snapshots {
            if tell.send(snapshot).is_err() {
                return;
            }
        }
    });
    Ok(reported)
}

fn show(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    snapshots: &Receiver<Result<Snapshot, ClientError>>,
) -> Result<(), String> {
    let fail = |error: io::Error| format!("the terminal does not answer: {error}");
    let mut is_new = true;
    while !STOP.load(Ordering::Relaxed) {
        while state.end.is_none() {
            match snapshots.try_recv() {
                Ok(Ok(snapshot)) => state.overview.take(snapshot),
                Ok(Err(error)) => state.end = Some(describe(error)),
                Err(mpsc::TryRecvError::Empty) => break,
                Err(mpsc::TryRecvError::Disconnected) => {
                    state.end = Some("the gateway has stopped".into());
                }
            }
            is_new = true;
        }
        if is_new {
            terminal.draw(|frame| view::draw(state, frame)).map_err(fail)?;
        }
        is_new = event::poll(STOP_CHECK_INTERVAL).map_err(fail)?;
        if is_new
            && let Event::Key(key) = event::read().map_err(fail)?
            && state.key(key) == ControlFlow::Break(())
        {
            break;
        }
    }
    Ok(())
}
