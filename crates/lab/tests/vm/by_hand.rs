//! Machines made by hand, and a laboratory that runs experiments in them.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use candor_lab::campaign::{self, Options};
use candor_lab::experiment::MachineChoice;
use candor_lab::result::{self, ResultFile};
use candor_lab::run::{self, Ended, Outcome, Progress, Settings, results_of};
use candor_lab::runner::Watch;
use candor_lab::testbed::Testbeds;
use candor_lab::vm::{Machine, Machines, Store, Supply};
use candor_lab::{Error, Experiment};
use candor_protocol::order::Measurement;
use candor_protocol::report::{JobCount, Stamp, Totals};
use candor_protocol::{Order, Report};
use candor_time::Nanos;
use candor_wire::can::socketcan;

/// Two buses, a kernel gateway.
pub(crate) const TWO: &str = "\
testbed = 'vm'
seeds = 1
count = 100
bus.in.bitrate = '1M'
bus.out.bitrate = '500k'
gateway.kind = 'kernel'
traffic.kind = 'one-at-a-time'
";

/// What a machine makes of a measurement.
pub(crate) type Makes = dyn Fn(&Measurement) -> Result<Report, Error> + Send + Sync;

/// What becomes of a report that was perfect.
pub(crate) type Change = fn(&mut Report);

/// What happened to all machines of a supply.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) boots: Mutex<Vec<String>>,
    pub(crate) orders: Mutex<Vec<Measurement>>,
}

pub(crate) struct ByHand {
    pub(crate) log: Arc<Log>,
    pub(crate) makes: Arc<Makes>,
}

pub(crate) struct Fake {
    pub(crate) choice: MachineChoice,
    pub(crate) hash: String,
    pub(crate) log: Arc<Log>,
    pub(crate) makes: Arc<Makes>,
}

impl Supply for ByHand {
    fn machine(&self, choice: &MachineChoice) -> Result<Box<dyn Machine>, Error> {
        if choice.kernel.to_string() == "9.9" {
            return Err(Error::Other("kernel 9.9 is not in the cache; candor vm fetch 9.9".into()));
        }
        Ok(Box::new(Fake {
            choice: choice.clone(),
            hash: format!("{choice}"),
            log: Arc::clone(&self.log),
            makes: Arc::clone(&self.makes),
        }))
    }

    fn driver(&self, choice: &MachineChoice, _: &Path) -> Result<Vec<u8>, Error> {
        Ok(format!("for {}", choice.kernel).into_bytes())
    }
}

impl Machine for Fake {
    fn describe(&self) -> result::Machine {
        result::Machine {
            kernel: self.choice.kernel.to_string(),
            release: "6.12.117+deb12-amd64".into(),
            package: Some("linux-image 6.12.117-1".into()),
            kernel_sha256: "11".into(),
            guest_sha256: "22".into(),
            qemu: "7.2.22".into(),
            qemu_sha256: "33".into(),
            plugin_sha256: "44".into(),
            bus: candor_vm::BusTime::with(self.choice.tester),
            timed_bus_sha256: None,
            boot: self.choice.boot,
            flags: vec!["-icount".into(), "shift=1".into()],
            shift: 1,
            mips: self.choice.mips,
        }
    }

    fn hash(&self) -> &str {
        &self.hash
    }

    fn profile(
        &self,
        order: &Order,
        watch: &dyn Watch,
    ) -> Result<(Report, candor_vm::Profile), Error> {
        let function = |name: &str, place: &str, instructions| candor_vm::Function {
            name: name.into(),
            place: place.into(),
            instructions,
        };
        let functions =
            vec![function("can_can_gw_rcv", "can_gw", 600), function("read", "kernel", 400)];
        let profile = candor_vm::Profile { instructions: 1_000, functions };
        Ok((self.run(order, watch)?, profile))
    }

    fn ready(&self, _: &dyn Watch) -> Result<(), Error> {
        self.log.boots.lock().unwrap().push(self.choice.to_string());
        match self.choice.parameters.as_str() {
            "broken" => Err(Error::Other("the kernel panicked at boot".into())),
            _ => Ok(()),
        }
    }

    fn run(&self, order: &Order, _: &dyn Watch) -> Result<Report, Error> {
        let Order::Measure(measurement) = order else { panic!("{order:?}") };
        self.log.orders.lock().unwrap().push((**measurement).clone());
        (self.makes)(measurement)
    }
}

/// What a test bed without faults reports: a frame each millisecond, seen 1 us later, through 14 us after
/// that.
pub(crate) fn perfect(measurement: &Measurement) -> Report {
    let count = measurement.traffic.count;
    let stamps = |delay_ns: u64| -> Vec<Stamp> {
        let at = |number: u64| number * 1_000_000 + delay_ns;
        (0..count).map(|number| Stamp { number: number as u16, time_ns: at(number) }).collect()
    };
    // Only the last rule takes them, as in the papers' rule sets.
    let jobs = |rules: usize| {
        let mut jobs = vec![JobCount::default(); rules];
        jobs.iter_mut().rev().take(1).for_each(|job| job.handled = count);
        jobs
    };
    Report {
        release: "6.12.117+deb12-amd64".into(),
        sent: stamps(0),
        monitored: stamps(1_000),
        received: stamps(15_000),
        frames: (0..count).map(|number| bytes(measurement, number)).collect(),
        jobs: jobs(measurement.rules.rules.len()),
        totals: Totals { duration_ns: count * 1_000_000, ..Totals::default() },
        is_done: true,
        ..Report::default()
    }
}

/// A frame as the receiver's socket gives it, cut behind its data.
pub(crate) fn bytes(measurement: &Measurement, number: u64) -> Vec<u8> {
    let frame = measurement.traffic.frame(number).unwrap();
    let (bytes, _) = socketcan::encode(&frame, socketcan::IdOrder::LittleEndian);
    bytes[..8 + frame.data().len()].to_vec()
}

/// Takes the frame of that number out of what was received.
pub(crate) fn lose(report: &mut Report, number: u16) {
    let index = report.received.iter().position(|stamp| stamp.number == number).unwrap();
    report.received.remove(index);
    report.frames.remove(index);
    report.jobs.iter_mut().rev().take(1).for_each(|job| job.handled -= 1);
}

#[derive(Default)]
pub(crate) struct Noting {
    pub(crate) cached: AtomicU64,
    pub(crate) fresh: AtomicU64,
}

impl Progress for Noting {
    fn proceed(&self, _: &Experiment, _: Nanos, _: u64) -> bool {
        true
    }

    fn finished(&self, _: &Experiment, ended: &Ended) {
        if let Ended::Finished(ran) = ended {
            let counter = if ran.is_cached { &self.cached } else { &self.fresh };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A laboratory with machines made by hand, in a folder of its own.
pub(crate) struct Lab {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) log: Arc<Log>,
    pub(crate) makes: Arc<Makes>,
    pub(crate) keeps: bool,
    pub(crate) jobs: usize,
    pub(crate) verifies: bool,
}

impl Lab {
    pub(crate) fn new(makes: impl Fn(&Measurement) -> Report + Send + Sync + 'static) -> Self {
        Self::failing(move |measurement| Ok(makes(measurement)))
    }

    pub(crate) fn failing(
        makes: impl Fn(&Measurement) -> Result<Report, Error> + Send + Sync + 'static,
    ) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            log: Arc::default(),
            makes: Arc::new(makes),
            keeps: false,
            jobs: 1,
            verifies: false,
        }
    }

    pub(crate) fn out(&self) -> std::path::PathBuf {
        self.folder.path().join("out")
    }

    pub(crate) fn reports(&self) -> std::path::PathBuf {
        self.folder.path().join("reports")
    }

    pub(crate) fn try_run(
        &self,
        experiments: &[Experiment],
        noting: &Noting,
    ) -> Result<Outcome, Error> {
        let supply = ByHand { log: Arc::clone(&self.log), makes: Arc::clone(&self.makes) };
        let store = self.keeps.then(|| Store::new(self.reports()));
        let testbeds = Testbeds::new(Some(Machines::new(Box::new(supply), store)), None);
        let out = self.out();
        let settings = Settings {
            testbeds: &testbeds,
            command: &|_| "again".into(),
            out: &out,
            jobs: self.jobs,
            verifies: self.verifies,
        };
        run::run(experiments, &settings, noting)
    }

    pub(crate) fn run(&self, text: &str) -> Outcome {
        let experiments = experiments(text, self.folder.path());
        self.try_run(&experiments, &Noting::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The only result, and its lines.
    pub(crate) fn one(&self, text: &str) -> (ResultFile, Vec<String>) {
        let outcome = self.run(text);
        let [ran] = outcome.finished.as_slice() else { panic!("{outcome:?}") };
        let name = format!("{}.csv", ran.result.experiment);
        let csv = fs::read_to_string(results_of(&self.out()).join(name)).unwrap();
        (ran.result.clone(), csv.lines().map(str::to_owned).collect())
    }

    /// The only failure.
    pub(crate) fn failure(&self, text: &str) -> String {
        let outcome = self.run(text);
        let [(_, error)] = outcome.failures.as_slice() else { panic!("{outcome:?}") };
        error.to_string()
    }

    /// All files of all results.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let entries = fs::read_dir(results_of(&self.out())).unwrap();
        let mut files: Vec<_> = entries
            .map(|entry| {
                let entry = entry.unwrap();
                let text = fs::read_to_string(entry.path()).unwrap();
                (entry.file_name().into_string().unwrap(), text)
            })
            .collect();
        files.sort();
        files
    }

    pub(crate) fn orders(&self) -> usize {
        self.log.orders.lock().unwrap().len()
    }
}

pub(crate) fn experiments(text: &str, base: &Path) -> Vec<Experiment> {
    let campaign = campaign::parse("t.toml", text, base, &Options::default());
    campaign.unwrap_or_else(|error| panic!("{error}\n{text}")).experiments
}

pub(crate) fn refused(text: &str) -> String {
    match campaign::parse("t.toml", text, Path::new("."), &Options::default()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("accepted:\n{text}"),
    }
}
