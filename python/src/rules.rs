//! `candor.Rules`: what a gateway with these rules does with frames.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use candor_diagnostics::meant_or;
use candor_engine::{BusIndex, Table};
use candor_gateway::offline::Offline;
use candor_rules::cangw;
use candor_rules::explain::{self, Verdict};
use candor_rules::file::{self, disk};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyString};

use crate::errors::{RulesError, exclusive, os_error};
use crate::frame::Frame;
use crate::input::Interrupts;

/// Rules of a gateway.
#[pyclass(frozen, module = "candor")]
pub(crate) struct Rules {
    table: Table,
    name: String,
}

#[pymethods]
impl Rules {
    /// Reads a file of rules, or what `cangw -L` printed.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        File::open(&path).map_err(|error| os_error(&path, &error))?;
        let name = path.display().to_string();
        let text = disk::read_text(&path, "rule file").map_err(RulesError::new_err)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let include = |included: &str| disk::read(&folder.join(included), disk::MOST_BYTES);
        let (table, findings) = match cangw::is_cangw(&text) {
            true => cangw::import(&name, &text),
            false => file::parse_with(&name, &text, &include),
        };
        let table = table.ok_or_else(|| RulesError::new_err(findings.to_string()))?;
        Ok(Self { table, name })
    }

    /// The names of the buses.
    #[getter]
    fn buses(&self) -> Vec<&str> {
        self.table.buses.iter().map(|bus| bus.name.as_str()).collect()
    }

    /// Applies the rules to frames, in the order and at the times of the frames: an iterator over what a gateway would have sent.
    ///
    /// A frame came in on the bus that is called like its `bus`, by its name or its interface, or that `map` gives: `{"can0": "powertrain"}`.
    /// Frames of other interfaces are counted in `foreign` of the iterator, and `counts` tells what became of frames. Rates, changes and
    /// counters begin anew with each call. Copies carry the name of the bus of the rules.
    #[pyo3(signature = (frames, *, map=None))]
    fn apply(
        &self,
        frames: &Bound<'_, PyAny>,
        map: Option<HashMap<String, String>>,
    ) -> PyResult<Applied> {
        let mut buses = HashMap::new();
        for (interface, bus) in map.unwrap_or_default() {
            buses.insert(interface, Some(self.bus(&bus)?));
        }
        let py = frames.py();
        let names = self.buses().into_iter().map(|name| PyString::new(py, name).unbind());
        Ok(Applied {
            frames: Some(frames.try_iter()?.unbind()),
            names: names.collect(),
            offline: Offline::new(self.table.clone()),
            buses,
            foreign: BTreeMap::new(),
            waiting: Vec::new(),
            interrupts: Interrupts::default(),
        })
    }

    /// What the rules do with a frame, fresh from the bus that is called like its `bus`, or from the given one: a dictionary for each rule
    /// of the buses that the frame meets, itself and in copies that come back.
    ///
    /// `rule`, `bus` and `frame` say what meets what. `verdict` is `taken`, `other kind`, `no filter`, `excluded` or `other payload`. Where it is
    /// taken, `result` is the changed frame, or the cause that stopped it, and `copies` has `(bus, cause)` for each, the cause `None` where
    /// it goes.
    #[pyo3(signature = (frame, bus=None))]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        frame: &Frame,
        bus: Option<&str>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let bus = match bus {
            Some(bus) => self.bus(bus)?,
            None => self.bus(frame.bus(py)?)?,
        };
        let explanation = explain::explain(&self.table, bus, frame.get());
        let mut found = Vec::new();
        for pass in &explanation.passes {
            for explained in &pass.rules {
                let entry = PyDict::new(py);
                let rule = self.table.rules.get(explained.rule);
                entry.set_item("rule", rule.map(|rule| rule.name.as_str()))?;
                entry.set_item("bus", self.bus_name(pass.bus))?;
                entry.set_item("frame", pass.frame.to_string())?;
                entry.set_item("verdict", verdict(&explained.verdict))?;
                if let Verdict::Taken(taken) = &explained.verdict {
                    let result = match taken.result {
                        Ok(frame) => frame.to_string(),
                        Err(cause) => cause.name().to_owned(),
                    };
                    entry.set_item("result", result)?;
                    let copies = taken.copies.iter();
                    let copies: Vec<_> = copies
                        .map(|copy| (self.bus_name(copy.to), copy.refused.map(|it| it.name())))
                        .collect();
                    entry.set_item("copies", copies)?;
                }
                found.push(entry);
            }
        }
        Ok(found)
    }

    fn __repr__(&self) -> String {
        format!("<candor.Rules {}: {} rules>", self.name, self.table.rules.len())
    }
}

impl Rules {
    fn bus(&self, name: &str) -> PyResult<BusIndex> {
        self.table.bus_or_interface(name).ok_or_else(|| {
            let names = self.buses();
            let hint =
                meant_or(name, names.iter().copied(), || format!("there are {}", names.join(", ")));
            RulesError::new_err(format!("{}: unknown bus `{name}`; {hint}", self.name))
        })
    }

    fn bus_name(&self, bus: BusIndex) -> Option<&str> {
        self.table.buses.get(usize::from(bus.0)).map(|bus| bus.name.as_str())
    }
}

fn verdict(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::OtherKind => "other kind",
        Verdict::NoFilter(_) => "no filter",
        Verdict::Excluded(..) => "excluded",
        Verdict::OtherPayload(_) => "other payload",
        Verdict::Taken(_) => "taken",
    }
}

/// Frames that a gateway would have sent.
#[pyclass(module = "candor")]
pub(crate) struct Applied {
    /// `None` once the garbage collector took it.
    frames: Option<Py<PyIterator>>,
    names: Vec<Py<PyString>>,
    offline: Offline,
    /// The bus of each interface that was seen or mapped; `None` if it is none.
    buses: HashMap<String, Option<BusIndex>>,
    foreign: BTreeMap<String, u64>,
    /// Copies of the latest frame, the next one last.
    waiting: Vec<Frame>,
    interrupts: Interrupts,
}

#[pymethods]
impl Applied {
    /// How many frames came so far of interfaces that are no bus of the rules.
    #[getter]
    fn foreign(&self) -> BTreeMap<String, u64> {
        self.foreign.clone()
    }

    /// What became of copies so far, a dictionary for each rule and bus: `rule`, `from`, `to`, `handled`, and `stopped` by cause.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let rules = self.offline.snapshot("").rules.into_iter().map(|rule| {
            let entry = PyDict::new(py);
            entry.set_item("rule", rule.rule)?;
            entry.set_item("from", rule.from)?;
            entry.set_item("to", rule.to)?;
            entry.set_item("handled", rule.handled)?;
            entry.set_item("stopped", rule.stopped)?;
            Ok(entry)
        });
        rules.collect()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.frames)
    }

    fn __clear__(&mut self) {
        self.frames = None;
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>, py: Python<'_>) -> PyResult<Option<Frame>> {
        exclusive(slf)?.next(py)
    }
}

impl Applied {
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<Frame>> {
        loop {
            if let Some(copy) = self.waiting.pop() {
                return Ok(Some(copy));
            }
            self.interrupts.look()?;
            let Some(frames) = &self.frames else { return Ok(None) };
            let Some(frame) = frames.bind(py).clone().next().transpose()? else {
                return Ok(None);
            };
            let frame = frame.cast_into::<Frame>()?;
            let frame = frame.get();
            let interface = frame.bus(py)?;
            let bus = match self.buses.get(interface) {
                Some(bus) => *bus,
                None => {
                    let bus = self.offline.table().bus_or_interface(interface);
                    self.buses.insert(interface.to_owned(), bus);
                    bus
                }
            };
            let Some(bus) = bus else {
                *self.foreign.entry(interface.to_owned()).or_default() += 1;
                continue;
            };
            let Self { offline, names, waiting, .. } = self;
            offline.apply(frame.time_ns(), bus, frame.get(), |bus, copy| {
                if let Some(name) = names.get(usize::from(bus.0)) {
                    waiting.push(frame.copy(name.clone_ref(py), *copy));
                }
            });
            waiting.reverse();
        }
    }
}
