//! Recordings as they are given: one path or many, all buses or some.

use std::path::PathBuf;

use candor_diagnostics::counted;
use candor_recording::{InterfaceIndex, Interfaces, Record, Recording};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::errors::{RecordingError, RecordingWarning, not_expected, warn};
use crate::frame::Frame;
use crate::open::Opened;

/// Looks at signals, of which Ctrl-C is one, once in a while. Python itself looks between its instructions, and a call is one.
#[derive(Default)]
pub(crate) struct Interrupts(u32);

impl Interrupts {
    /// How many frames are read between two looks: some milliseconds.
    const FRAMES: u32 = 1 << 14;

    /// One frame more was read. The error is that of Ctrl-C, or of what a handler of the program raises.
    #[inline]
    pub(crate) fn look(&mut self) -> PyResult<()> {
        self.0 += 1;
        if self.0 < Self::FRAMES {
            return Ok(());
        }
        self.0 = 0;
        Python::attach(|py| py.check_signals())
    }
}

/// A name, or an iterable of them.
pub(crate) struct Names(pub(crate) Vec<String>);

impl<'py> FromPyObject<'_, 'py> for Names {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(one) = object.extract() {
            return Ok(Self(vec![one]));
        }
        let wrong = |object: &Bound<'py, PyAny>| not_expected("a name or a list of names", object);
        let items = object.try_iter().map_err(|_| wrong(&object))?;
        let items = items.map(|item| {
            let item = item?;
            item.extract().map_err(|_| wrong(&item))
        });
        Ok(Self(items.collect::<PyResult<_>>()?))
    }
}

/// Where frames come from.
pub(crate) enum Source {
    /// Recordings, one after the other.
    Paths(Vec<PathBuf>),
    /// Frames of Python.
    Frames(Py<PyIterator>),
}

impl<'py> FromPyObject<'_, 'py> for Source {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(path) = object.extract::<PathBuf>() {
            return Ok(Self::Paths(vec![path]));
        }
        let wrong =
            |object: &Bound<'py, PyAny>| not_expected("a path, a list of paths, or frames", object);
        // Its lines would be taken for paths.
        if object.hasattr("read")? {
            return Err(not_expected(
                "a path, a list of paths, or frames (of an open file, give the path)",
                &object,
            ));
        }
        let mut paths = Vec::new();
        let mut items = object.try_iter().map_err(|_| wrong(&object))?;
        // An iterator without an item is one of frames: a recording that was read to its end, or rules that let nothing pass.
        let is_iterator = object.hasattr("__next__")?;
        while let Some(item) = items.next().transpose()? {
            if paths.is_empty() && item.is_instance_of::<Frame>() {
                // The first one was taken out of them.
                let chain = object.py().import("itertools")?.getattr("chain")?;
                let all = chain.call1(((item,), items))?;
                return Ok(Self::Frames(all.try_iter()?.unbind()));
            }
            paths.push(item.extract().map_err(|_| wrong(&item))?);
        }
        if paths.is_empty() && is_iterator {
            return Ok(Self::Frames(items.unbind()));
        }
        Ok(Self::Paths(paths))
    }
}

/// Reads frames of the wanted buses, on request piece by piece.
pub(crate) struct Reader {
    source: Source,
    /// The place of the recording that is next.
    next: usize,
    recording: Option<Opened>,
    /// The buses of frames of Python.
    interfaces: Interfaces,
    wanted: WantedBuses,
    skips_malformed: bool,
    interrupts: Interrupts,
    remarks: Remarks,
    /// Whether the latest error was a pause, such as Ctrl-C: no frame was lost, and more can be read.
    pub(crate) is_paused: bool,
}

/// What is to be said about recordings that were read.
#[derive(Default)]
pub(crate) struct Remarks(Vec<String>);

impl Remarks {
    /// Warns of each.
    pub(crate) fn warn(self, py: Python<'_>) -> PyResult<()> {
        self.0.iter().try_for_each(|remark| warn::<RecordingWarning>(py, remark))
    }

    pub(crate) fn add(&mut self, recording: &Recording) {
        if let Some(cut) = recording.cut() {
            self.0.push(cut.to_string());
        }
        let skipped = recording.skipped();
        if let Some(first) = &skipped.first {
            let count = counted(skipped.count, "malformed record");
            self.0.push(format!("{count} passed over; the first: {first}"));
        }
    }
}

impl Reader {
    /// Of what Python gives.
    pub(crate) fn new(source: Source, bus: Option<Names>, skips_malformed: bool) -> PyResult<Self> {
        if matches!(&source, Source::Paths(paths) if paths.is_empty()) {
            let text = "no recording and no frame is given; give a path or more";
            return Err(PyValueError::new_err(text));
        }
        let buses = bus.map(|buses| buses.0);
        Ok(Self {
            source,
            next: 0,
            recording: None,
            interfaces: Interfaces::default(),
            wanted: WantedBuses { buses, ..WantedBuses::default() },
            skips_malformed,
            interrupts: Interrupts::default(),
            remarks: Remarks::default(),
            is_paused: false,
        })
    }

    /// What is read, for people.
    pub(crate) fn name(&self) -> String {
        match &self.source {
            Source::Frames(_) => "the iterator".to_owned(),
            Source::Paths(paths) => match &paths[..] {
                [one] => one.display().to_string(),
                many => counted(many.len() as u64, "recording"),
            },
        }
    }

    /// Hands frames to `take` until it wants no more for now, or all were read: then what is to be said is said. Recordings are read without
    /// the lock of the interpreter.
    pub(crate) fn read(
        &mut self,
        py: Python<'_>,
        mut take: impl FnMut(&Record, &Interfaces) -> PyResult<Next> + Send,
    ) -> PyResult<Next> {
        self.is_paused = false;
        let next = match &self.source {
            Source::Paths(_) => py.detach(|| self.read_paths(&mut take))?,
            Source::Frames(frames) => {
                let frames = frames.bind(py).clone();
                self.read_frames(frames, &mut take)?
            }
        };
        if next == Next::Over {
            self.wanted.all_came()?;
            std::mem::take(&mut self.remarks).warn(py)?;
        }
        Ok(next)
    }

    fn read_paths(
        &mut self,
        take: &mut impl FnMut(&Record, &Interfaces) -> PyResult<Next>,
    ) -> PyResult<Next> {
        let Source::Paths(paths) = &self.source else { return Ok(Next::Over) };
        loop {
            let recording = match &mut self.recording {
                Some(recording) => recording,
                none => {
                    let Some(path) = paths.get(self.next) else { return Ok(Next::Over) };
                    self.wanted.places.clear();
                    // What interrupts it leaves it to be opened again.
                    self.is_paused = true;
                    let opened = Opened::new(path, self.skips_malformed)?;
                    self.next += 1;
                    none.insert(opened)
                }
            };
            self.is_paused = true;
            recording.check_process()?;
            loop {
                self.is_paused = true;
                self.interrupts.look()?;
                let Some(record) = recording.next() else { break };
                self.is_paused = record.is_err() && recording.is_paused;
                let (record, interfaces) = (record?, recording.recording.interfaces());
                if self.wanted.takes(record.interface, interfaces)
                    && take(&record, interfaces)? == Next::Later
                {
                    return Ok(Next::Later);
                }
            }
            self.remarks.add(&recording.recording);
            self.recording = None;
        }
    }

    fn read_frames(
        &mut self,
        frames: Bound<'_, PyIterator>,
        take: &mut impl FnMut(&Record, &Interfaces) -> PyResult<Next>,
    ) -> PyResult<Next> {
        let py = frames.py();
        let mut frames = frames;
        loop {
            self.is_paused = true;
            self.interrupts.look()?;
            let Some(frame) = frames.next() else { break };
            // What the iterator raises may be a pause of it; after an error it is over.
            self.is_paused = frame.as_ref().is_err_and(|it| !it.is_instance_of::<PyException>(py));
            let frame = frame?.cast_into::<Frame>()?;
            let record = frame.get().record(py, &mut self.interfaces)?;
            if self.wanted.takes(record.interface, &self.interfaces)
                && take(&record, &self.interfaces)? == Next::Later
            {
                return Ok(Next::Later);
            }
        }
        Ok(Next::Over)
    }
}

/// Whether there may be more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More is wanted at once.
    Now,
    /// More is wanted with the next call.
    Later,
    /// All was read.
    Over,
}

/// Which buses are wanted, and which of them came.
#[derive(Default)]
struct WantedBuses {
    /// All, if none are named.
    buses: Option<Vec<String>>,
    came: Vec<bool>,
    /// Others that came.
    others: Vec<String>,
    /// By interface of the recording that is read: whether it is wanted.
    places: Vec<bool>,
}

impl WantedBuses {
    #[inline]
    fn takes(&mut self, interface: InterfaceIndex, interfaces: &Interfaces) -> bool {
        while self.places.len() < interfaces.len() {
            let next = InterfaceIndex(self.places.len() as u16);
            let is_wanted = self.wants(interfaces.name(next));
            self.places.push(is_wanted);
        }
        self.places.get(usize::from(interface.0)) == Some(&true)
    }

    fn wants(&mut self, bus: &str) -> bool {
        let Some(buses) = &self.buses else { return true };
        self.came.resize(buses.len(), false);
        let place = buses.iter().position(|wanted| wanted == bus);
        if let Some(came) = place.and_then(|place| self.came.get_mut(place)) {
            *came = true;
        } else if !self.others.iter().any(|other| other == bus) {
            self.others.push(bus.to_owned());
        }
        place.is_some()
    }

    /// Refuses a bus that was asked for and did not come.
    fn all_came(&self) -> PyResult<()> {
        let came = |place: usize| self.came.get(place) == Some(&true);
        let Some((_, bus)) =
            self.buses.iter().flatten().enumerate().find(|&(place, _)| !came(place))
        else {
            return Ok(());
        };
        let others = match self.others.len() {
            0 => String::new(),
            _ => format!("; others are {}", self.others.join(", ")),
        };
        Err(RecordingError::new_err(format!("no frame is on a bus `{bus}`{others}")))
    }
}
