//! The test bed: controllers, virtual interfaces and settings of an experiment.

use candor_linux::clock;
use candor_linux::netlink::{CanSettings, Netlink};
use candor_linux::realtime::{self, Policy, Task};
use candor_protocol::interface;
use candor_protocol::order::{BusFaults, Controller, Driver, Gateway, Measurement, Pace, Settings};
use candor_time::{Monotonic, Nanos};
use candor_wire::can::socketcan::CANFD_MTU;

use crate::failure::{Context, FAULT, Failure};
use crate::modules::Modules;
use crate::{candor_can, controllers, system};

/// The order in which interfaces are started, which decides whose interrupt is served first if
/// several are pending: that of the interface started last. So a frame of the source bus is stamped
/// by the monitor before the gateway's controller is served, and one of the target bus by the
/// receiver before the gateway's controller says that it has sent it. On the line that sender and
/// monitor share, the one started first is served first: what the sender still has to do lies
/// before the monitor's stamp.
const START_ORDER: [&str; 5] = [
    interface::SOURCE,
    interface::TARGET,
    interface::RECEIVE,
    interface::TRANSMIT,
    interface::MONITOR,
];
/// The queue in front of the tester's interfaces: longer than any pause of theirs.
const TESTER_QUEUE: u32 = 1_000;

/// The tester's interrupt threads, where there are any, are above everything of the gateway: they stamp
/// at once, as another machine would.
const TESTER_INTERRUPT_PRIORITY: u8 = 98;

pub(crate) struct TestBed {
    pub(crate) netlink: Netlink,
    driver: Driver,
    is_virtual: bool,
}

impl TestBed {
    pub(crate) fn set_up(order: &Measurement) -> Result<Self, Failure> {
        let modules = Modules::read()?;
        let driver = match order.controller {
            Controller::Sja1000 => "kvaser_pci",
            Controller::CtuCanFd => "ctucanfd_pci",
        };
        let is_virtual = matches!(order.traffic.pace, Pace::RoundTrips { is_virtual: true, .. });
        if let Driver::CandorCan(handler) = order.driver {
            match is_virtual {
                true => candor_can::load("virtual=1")?,
                false => candor_can::take(handler, [order.source, order.target])?,
            }
            let netlink = Netlink::open().at("test bed", "use a kernel with rtnetlink")?;
            return Ok(Self { netlink, driver: order.driver, is_virtual });
        }
        modules.load(driver)?;
        if order.gateway == Gateway::Kernel {
            let parameters = format!("max_hops={}", order.rules.effective_max_hops());
            modules.load_with("can_gw", &parameters)?;
        }
        let mut netlink = Netlink::open().at("test bed", "use a kernel with rtnetlink")?;
        controllers::name(&mut netlink, driver, order.tester.interfaces())?;
        let mut bed = Self { netlink, driver: order.driver, is_virtual };
        for name in START_ORDER.iter().filter(|name| order.tester.interfaces().contains(name)) {
            bed.start(order, name)?;
        }
        if is_virtual {
            bed.start_virtual(interface::VIRTUAL)?;
        }
        for bus in order.rules.buses.iter().filter(|bus| bus.is_virtual) {
            bed.start_virtual(&bus.port)?;
        }
        Ok(bed)
    }

    /// Starts one of the five interfaces.
    fn start(&mut self, order: &Measurement, name: &str) -> Result<(), Failure> {
        let is_source =
            [interface::TRANSMIT, interface::MONITOR, interface::SOURCE].contains(&name);
        let timing = if is_source { order.source } else { order.target };
        let is_testers = !interface::OF_GATEWAY.contains(&name);
        let queue = if is_testers { TESTER_QUEUE } else { order.settings.tx_queue };
        let [on_source, on_target] = order.faults;
        let BusFaults { restart_ns, .. } = if is_source { on_source } else { on_target };
        let settings = CanSettings {
            // Linux counts whole milliseconds, and 0 means never.
            restart_ms: restart_ns.map(|it| it.div_ceil(1_000_000).max(1) as u32),
            bitrate: timing.bitrate,
            data_bitrate: timing.data_bitrate,
            ..CanSettings::default()
        };
        let remedy = "check the controllers of the machine";
        self.netlink.set_can(name, &settings).at("test bed", remedy)?;
        self.netlink.set_queue_length(name, queue).at("test bed", remedy)?;
        self.netlink.set_up(name, true).at("test bed", remedy)
    }

    fn start_virtual(&mut self, name: &str) -> Result<(), Failure> {
        let remedy = "name virtual interfaces vcan0, vcan1, ...";
        self.netlink.create_vcan(name).at("test bed", remedy)?;
        self.netlink.set_mtu(name, CANFD_MTU as u32).at("test bed", remedy)?;
        self.netlink.set_up(name, true).at("test bed", remedy)
    }

    /// Stops the gateway's interfaces: a gateway that waits for a frame learns that none will come.
    pub(crate) fn stop_gateway(&mut self) -> Result<(), Failure> {
        let names: &[&str] = match (self.driver, self.is_virtual) {
            (Driver::CandorCan(_), is_virtual) => return candor_can::give_back(is_virtual),
            (Driver::Kernel, true) => &[interface::VIRTUAL],
            (Driver::Kernel, false) => &interface::OF_GATEWAY,
        };
        for name in names {
            self.netlink.set_up(name, false).at("test bed", "see the console")?;
        }
        Ok(())
    }
}

/// Settings of the whole machine. They are for interfaces and threads that are there already.
pub(crate) fn settings(settings: &Settings, notes: &mut Vec<String>) -> Result<(), Failure> {
    // The tester has a real-time priority and shares the processor: if it were held back for the
    // sake of ordinary processes, the traffic would be another.
    system::set("/proc/sys/kernel/sched_rt_runtime_us", -1)?;
    if let Some(budget) = settings.netdev_budget {
        system::set("/proc/sys/net/core/netdev_budget", budget)?;
    }
    let threads_of = |interfaces: &[&str]| {
        let ends: Vec<_> = interfaces.iter().map(|name| format!("-{name}")).collect();
        move |task: &str| {
            task.starts_with("irq/") && ends.iter().any(|end| task.ends_with(end.as_str()))
        }
    };
    let of_gateway =
        [interface::SOURCE, interface::TARGET, candor_can::NAMES[0], candor_can::NAMES[1]];
    let testers = [interface::TRANSMIT, interface::MONITOR, interface::RECEIVE];
    prioritize(TESTER_INTERRUPT_PRIORITY, threads_of(&testers))?;
    if let Some(priority) = settings.interrupt_priority
        && prioritize(priority, threads_of(&of_gateway))? == 0
    {
        notes.push(
            "there are no interrupt threads, so interrupt_priority has no effect; use a -rt kernel, boot with \
             threadirqs, or use another handler"
                .into(),
        );
    }
    if let Some(priority) = settings.napi_thread_priority {
        for name in [interface::SOURCE, interface::TARGET, "eth0"] {
            // Refused by interfaces whose drivers have no NAPI, and by those that are not there.
            let _ = std::fs::write(format!("/sys/class/net/{name}/threaded"), "1");
        }
        let is_wanted = |task: &str| task.starts_with("napi/") || task.starts_with("backlog_napi/");
        if prioritize(priority, is_wanted)? == 0 {
            notes.push(
                "no driver here has NAPI, so napi_thread_priority has no effect; it is for ctucanfd, \
                 Ethernet, and kernels with backlog threads"
                    .into(),
            );
        }
    }
    if let Some(priority) = settings.backlog_priority
        && prioritize(priority, |task| task.starts_with("backlog_napi/"))? == 0
    {
        notes.push(
            "this kernel has no backlog threads, so backlog_priority has no effect; use Linux 6.10 or later, -rt or \
             booted with thread_backlog_napi"
                .into(),
        );
    }
    Ok(())
}

/// Waits until a new interrupt thread has run: it gives itself its first priority then (`irq_thread` in kernel/irq/manage.c).
/// Others wait for nothing.
fn has_begun(task: u32) -> Result<(), Failure> {
    for _ in 0..100 {
        if realtime::policy(Task::Id(task)).at("settings", FAULT)? != Policy::Other {
            break;
        }
        let soon = clock::now::<Monotonic>() + Nanos::from_micros(100);
        clock::sleep_until(soon).at("settings", FAULT)?;
    }
    Ok(())
}

/// Gives tasks a SCHED_FIFO priority, 0 for none; returns how many there are.
fn prioritize(priority: u8, is_wanted: impl Fn(&str) -> bool) -> Result<usize, Failure> {
    let policy = if priority == 0 { Policy::Other } else { Policy::Fifo(priority) };
    let tasks = realtime::tasks(is_wanted).at("settings", "see the console")?;
    for task in &tasks {
        has_begun(task.id)?;
        realtime::set_policy(Task::Id(task.id), policy).at("settings", "use 0 to 99")?;
    }
    Ok(tasks.len())
}
