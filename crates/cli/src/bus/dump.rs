//! `candor bus dump`: frames as they come.
//!
//! Lines are those of candump: columns, or with `-L` the lines of its log. `candor help json bus dump`
//! describes what `--json` prints.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;

use candor_bus::capture::{Capture, Captured};
use candor_bus::line::{Columns, Stamps};
use candor_bus::named::{self, NamedPort};
use candor_bus::report;
use candor_bus::select::Selection;
use candor_bus::words::View;
use candor_diagnostics::counted;
use candor_linux::clock;
use candor_output::{messages, say};
use candor_recording::Encoder;
use candor_signals::Fit;
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::{Frame, Kind};
use clap::{Args, ValueEnum};

use super::file::{LogFile, record};
use super::live::{self, End, Follower};
use super::out::Out;
use crate::Answer;
use crate::color::{self, Style};
use crate::json;
use crate::overwrite::Overwriting;
use crate::reading::candump_lines;

#[derive(Args)]
pub(crate) struct DumpArgs {
    /// The ports, such as can0 or 'file:drive.log?speed=max'; name=PORT sets the name to show
    #[arg(required = true, value_name = "PORT")]
    ports: Vec<NamedPort>,
    #[command(flatten)]
    which: WhichArgs,
    /// A DBC file, to show the signals of each frame
    #[arg(long, value_name = "FILE")]
    dbc: Option<PathBuf>,
    /// Show only messages of this name or pattern (`*`, `?`; may be repeated)
    #[arg(long, value_name = "NAME", requires = "dbc")]
    message: Vec<String>,
    /// Show only this signal (Signal or Message.Signal, with `*` and `?` as patterns) and the messages that contain it
    /// (may be repeated)
    #[arg(long, value_name = "NAME", requires = "dbc")]
    signal: Vec<String>,
    /// Stop after this many shown frames
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time, such as 10s; of a recording (file:), by its stamps
    #[arg(long)]
    time: Option<Nanos>,
    /// How to show times; the letters of candump work too
    #[arg(short = 't', long, value_name = "HOW", default_value = "absolute")]
    stamps: How,
    /// Print lines in log format: (1436509052.249713) can0 123#DEADBEEF
    #[arg(short = 'L', long, conflicts_with_all = ["stamps", "json"])]
    log_lines: bool,
    /// Write nanoseconds in candump logs; default: microseconds, for older programs
    #[arg(short = 'N', long)]
    nanoseconds: bool,
    /// Also write the shown frames into this recording; the file extension selects the format
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    overwriting: Overwriting,
    /// Print JSON Lines: an object of type "frame" per frame, then one of type "port" per port
    #[arg(long)]
    json: bool,
}

/// Which frames.
#[derive(Args)]
pub(crate) struct WhichArgs {
    /// Select frames by identifier: 0x123, 0x18FEF100x (extended), 0x120/0x7F0, 0x100-0x1FF, 123:7FF,
    /// 'remote 0x123', error; ! in front excludes (may be repeated, or a list with commas)
    #[arg(short = 'i', long = "id", value_name = "PATTERN")]
    ids: Vec<String>,
    /// Also receive the error reports of controllers
    #[arg(short = 'e', long)]
    errors: bool,
}

impl WhichArgs {
    /// The patterns, and whether error reports are wanted.
    pub(super) fn read(&self) -> Result<(Selection, bool), String> {
        let ids = self.ids.iter().map(String::as_str);
        let selection = Selection::parse(ids).map_err(|error| error.to_string())?;
        let is_asked_for = self.ids.iter().flat_map(|ids| ids.split(',')).any(|id| id == "error");
        Ok((selection, self.errors || is_asked_for))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    /// Seconds since 1970
    #[value(alias = "a")]
    Absolute,
    /// Date and time, UTC
    #[value(alias = "A")]
    Date,
    /// Seconds since the previous frame
    #[value(alias = "d")]
    Delta,
    /// Seconds since the first frame
    #[value(alias = "z")]
    Zero,
    /// No times
    None,
}

impl From<How> for Stamps {
    fn from(how: How) -> Self {
        match how {
            How::Absolute => Self::Absolute,
            How::Date => Self::Date,
            How::Delta => Self::Delta,
            How::Zero => Self::Zero,
            How::None => Self::None,
        }
    }
}

pub(super) fn run(args: &DumpArgs) -> Answer {
    let stop = live::catch_signals();
    // Who reads neither this nor standard output must not keep the command from ending.
    messages::in_background().map_err(|error| format!("no thread can be started: {error}"))?;
    let (selection, errors) = args.which.read()?;
    let view = |path| live::view(path, &args.message, &args.signal);
    let view = args.dbc.as_deref().map(view).transpose()?;
    let titles = named::titles(&args.ports);
    let log = |path| LogFile::create(path, titles.len(), args.nanoseconds, args.overwriting);
    let log = args.log.as_deref().map(log).transpose()?;
    let mut capture = live::capture(&args.ports, errors, args.time)?;
    let shape = if args.json {
        Shape::Json
    } else if args.log_lines {
        Shape::Log(candump_lines()?, args.nanoseconds)
    } else {
        Shape::Columns(Columns::new(args.stamps.into(), titles.iter().map(String::as_str)))
    };
    let left = args.count.unwrap_or(u64::MAX);
    let out = Out::new(stop)?;
    let mut dump = Dump {
        titles,
        fit: Fit::default(),
        seen: 0,
        first: None,
        is_told: false,
        selection,
        view,
        shape,
        log,
        out,
        shown: 0,
        left,
        line: String::new(),
        has_colors: color::on_stdout(),
    };
    let followed = live::follow(&mut capture, End::after(args.time, &args.ports), stop, &mut dump);
    let finished = dump.finish(&capture);
    followed.and(finished)
}

/// How frames are written.
enum Shape {
    Columns(Columns),
    /// With nanoseconds or without.
    Log(Box<dyn Encoder>, bool),
    Json,
}

struct Dump {
    titles: Vec<String>,
    selection: Selection,
    view: Option<View>,
    /// Whether the database is that of the frames.
    fit: Fit,
    /// Frames that came, shown or not, without error reports.
    seen: u64,
    /// When the first one was looked at.
    first: Option<Instant<Monotonic>>,
    is_told: bool,
    shape: Shape,
    log: Option<LogFile>,
    out: Out,
    shown: u64,
    left: u64,
    line: String,
    /// Whether what frames mean is in colours: errors in red, signals in cyan.
    has_colors: bool,
}

impl Follower for Dump {
    fn take(&mut self, captured: &Captured) -> Result<ControlFlow<()>, String> {
        let frame = &captured.received.frame;
        self.see(frame);
        let is_wanted =
            self.selection.takes(frame) && self.view.as_ref().is_none_or(|view| view.takes(frame));
        if !is_wanted {
            return Ok(ControlFlow::Continue(()));
        }
        self.write(captured)?;
        if let Some(log) = &mut self.log {
            log.write(captured, &self.titles[captured.port])?;
        }
        self.shown += 1;
        self.left -= 1;
        Ok(if self.left > 0 { self.out.flow() } else { ControlFlow::Break(()) })
    }

    fn pause(&mut self) -> Result<ControlFlow<()>, String> {
        self.look();
        self.out.flush()?;
        if let Some(log) = &mut self.log {
            log.pause()?;
        }
        Ok(self.out.flow())
    }
}

impl Dump {
    /// Notes whether the database describes a frame.
    fn see(&mut self, frame: &Frame) {
        if let Some(view) = &self.view
            && frame.kind() != Kind::Error
        {
            self.seen += 1;
            self.fit.see(frame.id(), view.message(frame).is_some());
        }
    }

    /// Says, when it is evident, that the database describes none of the frames that come.
    fn look(&mut self) {
        if self.is_told || !self.fit.is_none() {
            return;
        }
        let now = clock::now::<Monotonic>();
        let first = *self.first.get_or_insert(now);
        if self.fit.is_evident(self.seen, now - first) {
            self.tell_misfit();
        }
    }

    fn tell_misfit(&mut self) {
        let Some(view) = &self.view else { return };
        say!("{}", self.fit.words(view.database(), self.seen, &self.titles.join(", ")));
        self.is_told = true;
    }

    fn write(&mut self, captured: &Captured) -> Result<(), String> {
        let frame = &captured.received.frame;
        let title = &self.titles[captured.port];
        self.line.clear();
        match &mut self.shape {
            Shape::Columns(columns) => {
                columns.write(&mut self.line, captured.time, title, frame);
                let (report, view) = (report::words(frame), self.view.as_ref());
                let style = if report.is_some() { Style::Error } else { Style::Hint };
                let words = report.or_else(|| view?.describe(frame));
                if let Some(words) = words {
                    let words = if self.has_colors { style.paint(&words) } else { words };
                    // Writing to a string does not fail.
                    let _ = write!(self.line, "  {words}");
                }
                self.line.push('\n');
            }
            Shape::Log(encoder, nanoseconds) => {
                let mut bytes = Vec::new();
                encoder
                    .encode(&record(captured, None, *nanoseconds), title, &mut bytes)
                    .map_err(|error| format!("{title}: {error}"))?;
                self.line.push_str(&String::from_utf8_lossy(&bytes));
            }
            Shape::Json => {
                self.line = json::line(&(captured, title.as_str(), self.view.as_ref()))?;
            }
        }
        self.out.write(&self.line)
    }

    /// True unless the database describes none of the frames, or some could not be printed.
    fn finish(mut self, capture: &Capture) -> Answer {
        let totals = live::totals(capture);
        self.out.flush()?;
        let unprinted = self.out.unwritten_lines();
        if matches!(self.shape, Shape::Json) {
            self.out.write(&json::lines(capture.names().zip(&totals))?)?;
            self.out.flush()?;
        }
        live::tell_totals(capture, &totals);
        if unprinted > 0 {
            let frames = counted(unprinted, "received frame");
            say!("standard output: nobody read it; not printed: {frames}");
        }
        let shows_all = self.view.as_ref().is_none_or(View::is_everything);
        if !self.selection.is_everything() || !shows_all {
            say!("shown: {}", counted(self.shown - unprinted, "frame"));
        }
        // Who reads no further does not ask.
        let is_misfit = self.fit.is_none() && self.out.is_open();
        if is_misfit && !self.is_told {
            self.tell_misfit();
        }
        let is_printed = self.out.unwritten_lines() == 0;
        if let Some(mut log) = self.log {
            let flushed = log.flush();
            log.finish()?;
            flushed?;
        }
        Ok(!is_misfit && is_printed)
    }
}
