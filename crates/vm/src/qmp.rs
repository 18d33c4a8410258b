//! A QEMU process and its monitor: QMP, JSON lines over the process's standard input and output.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::Error;
use crate::reserved_cpu::ReservedCpu;
use crate::watch::Watch;

/// How often the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(20);
/// How many of them to wait for an event.
const TICKS_OF_EVENTS: u32 = 1_500;

/// What the process said, or that it has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Named(String),
    /// The process has closed its monitor.
    Ended,
}

/// A running QEMU.
pub(crate) struct Process {
    child: Child,
    monitor: UnixStream,
    lines: Receiver<Value>,
    events: VecDeque<Event>,
    complaints: Option<JoinHandle<String>>,
    cpu: ReservedCpu,
    is_undisturbed: bool,
}

impl Process {
    /// Starts `command`, which shall have its monitor on `stdio` and wait for `cont`, from a thread that
    /// lasts longer: QEMU ends with it.
    pub(crate) fn start(command: &mut Command, watch: &dyn Watch) -> Result<Self, Error> {
        let io = |error| Error::Other(format!("QEMU cannot be started: {error}"));
        let cpu = ReservedCpu::take()?;
        let (monitor, theirs) = UnixStream::pair().map_err(io)?;
        let theirs = OwnedFd::from(theirs);
        command
            .stdin(Stdio::from(theirs.try_clone().map_err(io)?))
            .stdout(Stdio::from(theirs))
            .stderr(Stdio::piped());
        // A process that is killed runs no destructor, and QEMU would go on for ever.
        candor_linux::process::ends_with_parent(command);
        // Ctrl-C is for us: we end QEMU, and nobody takes that for a fault of the guest.
        command.process_group(0);
        let mut child = command.spawn().map_err(io)?;
        let stderr = child.stderr.take();
        let complaints = stderr.map(|stderr| std::thread::spawn(move || complaints(stderr)));
        // The command would keep its copies of the socket open: then nobody would see QEMU end.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let reader = BufReader::new(monitor.try_clone().map_err(io)?);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in reader.lines() {
                let Ok(value) = line
                    .map_err(drop)
                    .and_then(|line| serde_json::from_str::<Value>(&line).map_err(drop))
                else {
                    break;
                };
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let events = VecDeque::new();
        let is_undisturbed = false;
        let mut process = Self { child, monitor, lines, events, complaints, cpu, is_undisturbed };
        // The greeting.
        while process.receive(watch)?.is_none_or(|value| value.get("QMP").is_none()) {
            if process.has_ended() {
                return Err(process.died());
            }
        }
        process.execute("qmp_capabilities", json!({}), watch)?;
        let processors = process.execute("query-cpus-fast", json!({}), watch)?;
        let thread =
            processors.pointer("/0/thread-id").and_then(Value::as_u64).ok_or_else(|| {
                let reason = "QEMU does not report the thread of the guest's processor; use a \
                              tested version, 7.2 or later";
                Error::Other(reason.into())
            })?;
        process.is_undisturbed = process.cpu.pin(process.child.id(), thread as u32)?;
        Ok(process)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether nothing can come between the instructions of the guest and their accounting.
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.is_undisturbed
    }

    /// The next line of the monitor; `None` if there is none now.
    fn receive(&mut self, watch: &dyn Watch) -> Result<Option<Value>, Error> {
        match self.lines.recv_timeout(TICK) {
            Ok(value) => Ok(Some(value)),
            Err(RecvTimeoutError::Timeout) if watch.proceed() => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(Error::Interrupted),
            Err(RecvTimeoutError::Disconnected) => {
                if !self.has_ended() {
                    self.events.push_back(Event::Ended);
                }
                Ok(None)
            }
        }
    }

    /// Executes a command of the monitor.
    pub(crate) fn execute(
        &mut self,
        command: &str,
        arguments: Value,
        watch: &dyn Watch,
    ) -> Result<Value, Error> {
        let line = format!("{}\n", json!({"execute": command, "arguments": arguments}));
        if self.monitor.write_all(line.as_bytes()).is_err() {
            return Err(self.died());
        }
        loop {
            match self.receive(watch)? {
                None if self.has_ended() => return Err(self.died()),
                None => {}
                Some(mut value) => {
                    if let Some(result) = value.get_mut("return") {
                        return Ok(result.take());
                    }
                    if let Some(error) = value.get("error") {
                        let reason = error.get("desc").and_then(Value::as_str).unwrap_or_default();
                        return Err(Error::Other(format!("QEMU refuses `{command}`: {reason}")));
                    }
                    self.note(&value);
                }
            }
        }
    }

    /// Lets the guest go on. It may come to its end before QEMU has said that it goes on.
    pub(crate) fn go_on(&mut self, watch: &dyn Watch) -> Result<(), Error> {
        match self.execute("cont", json!({}), watch) {
            Err(_) if self.has_ended() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    fn note(&mut self, value: &Value) {
        if let Some(name) = value.get("event").and_then(Value::as_str) {
            self.events.push_back(Event::Named(name.into()));
        }
    }

    /// Waits a moment; what comes in meanwhile is kept.
    pub(crate) fn idle(&mut self, watch: &dyn Watch) -> Result<(), Error> {
        if let Some(value) = self.receive(watch)? {
            self.note(&value);
        }
        Ok(())
    }

    /// Waits for the next event. `None` after half a minute without one: asking QEMU for anything
    /// disturbs it.
    pub(crate) fn event_or_idle(&mut self, watch: &dyn Watch) -> Result<Option<Event>, Error> {
        for _ in 0..TICKS_OF_EVENTS {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            self.idle(watch)?;
        }
        Ok(None)
    }

    /// Whether it has ended, as far as is known.
    pub(crate) fn has_ended(&self) -> bool {
        self.events.contains(&Event::Ended)
    }

    /// The exit status, after [`Event::Ended`].
    pub(crate) fn wait(&mut self) -> Result<ExitStatus, Error> {
        self.child.wait().map_err(|error| Error::Other(format!("lost contact with QEMU: {error}")))
    }

    /// Everything it complained about, after its end.
    pub(crate) fn complaints(&mut self) -> String {
        self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    /// Executes a command of the human monitor, which answers in words; empty is good.
    pub(crate) fn human(&mut self, line: &str, watch: &dyn Watch) -> Result<String, Error> {
        let answer = self.execute("human-monitor-command", json!({"command-line": line}), watch)?;
        Ok(answer.as_str().unwrap_or_default().trim().to_owned())
    }

    /// QEMU has ended although it should not have.
    fn died(&mut self) -> Error {
        let status =
            self.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let said = self.complaints();
        let said = said.trim();
        let reason = if said.is_empty() { "it gives no reason" } else { said };
        let memory = if said.contains("allocate memory") {
            "; run fewer guests at the same time with --jobs 1, or raise the limit of address space (`ulimit -v`)"
        } else {
            ""
        };
        Error::Other(format!("QEMU ended with {status}: {reason}{memory}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended; otherwise nobody wants it any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.complaints();
    }
}

/// Reads to the end; returns the first lines.
fn complaints(stderr: ChildStderr) -> String {
    const MOST: usize = 4096;
    let mut reader = BufReader::with_capacity(1 << 16, stderr);
    let mut said = Vec::new();
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        // The cable of the test bed leads nowhere else, as it should.
        let is_harmless = line.ends_with(b"is not connected to host network\n");
        if !is_harmless && said.len() < MOST {
            said.extend_from_slice(&line);
        }
        line.clear();
    }
    String::from_utf8_lossy(&said).into_owned()
}
