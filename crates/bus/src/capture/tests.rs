//! What is recorded of ports and how it ends.

use super::*;
use candor_port::{Origin, Receiver, ReceiverCounters, Stamp, Waker};
use std::sync::Mutex;

/// A port that plays a script.
struct Script {
    steps: VecDeque<Step>,
    counters: Arc<ReceiverCounters>,
    wake: mpsc::Sender<()>,
    woken: mpsc::Receiver<()>,
}

enum Step {
    /// Frames with their stamps.
    Frames(&'static [(u64, &'static str)]),
    Down,
    Broken,
    /// Waits until it is woken.
    Silence,
}

impl Receiver for Script {
    fn receive(&mut self, _: Until, take: &mut dyn FnMut(&Received)) -> Result<Progress, Error> {
        match self.steps.pop_front() {
            None => Ok(Progress::Ended),
            Some(Step::Frames(frames)) => {
                for &(time, frame) in frames {
                    let system = Some(Instant::from_nanos(time)).filter(|_| time > 0);
                    let stamp = Stamp { system, hardware: None };
                    let frame = frame.parse().unwrap();
                    take(&Received { frame, stamp, origin: Origin::Bus });
                    self.counters.frames.add(1);
                }
                Ok(Progress::Frames(frames.len()))
            }
            Some(Step::Down) => Err(Error::new("test", "it is down").passing()),
            Some(Step::Broken) => Err(Error::new("test", "it is broken")),
            Some(Step::Silence) => {
                self.woken.recv().unwrap();
                self.steps.push_front(Step::Silence);
                Ok(Progress::Nothing)
            }
        }
    }

    fn waker(&self) -> Option<Waker> {
        let wake = self.wake.clone();
        Some(Waker::new(move || wake.send(()).unwrap_or(())))
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

fn script(steps: impl IntoIterator<Item = Step>) -> Box<dyn Receiver> {
    let (wake, woken) = mpsc::channel();
    let steps = steps.into_iter().collect();
    Box::new(Script { steps, counters: Arc::default(), wake, woken })
}

fn source(name: &str, steps: impl IntoIterator<Item = Step>) -> Source {
    Source { name: name.into(), receiver: LastingReceiver::new((script(steps), None), None) }
}

/// Everything that comes, as text: `port:frame`, or news.
fn collect(capture: &mut Capture) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let next = capture.next(Nanos::from_secs(100), |captured| {
            seen.push(format!("{}:{}", captured.port, captured.received.frame));
        });
        match next {
            Next::Frames => {}
            Next::Nothing => panic!("nothing came: {seen:?}"),
            Next::Lost(port, error) => seen.push(format!("{port} lost: {error}")),
            Next::Returned(port) => seen.push(format!("{port} returned")),
            Next::Failed(port, error) => seen.push(format!("{port} failed: {error}")),
            Next::Ended => return seen,
        }
    }
}

#[test]
fn frames_of_one_port_keep_their_order() {
    // Even if a clock steps back.
    let frames = Step::Frames(&[(5, "001#"), (3, "002#"), (4, "003#")]);
    let mut capture = Capture::from_sources(vec![source("a", [frames])]).unwrap();
    assert_eq!(collect(&mut capture), ["0:001#", "0:002#", "0:003#"]);
    assert_eq!(capture.totals(0).to_string(), "3 frames, 0 lost");
    assert_eq!(capture.next(Nanos::ZERO, |_| ()), Next::Ended);
}

#[test]
fn ports_are_merged_by_stamp() {
    let mut capture = Capture::from_sources(Vec::new()).unwrap();
    capture.waiting = vec![VecDeque::new(), VecDeque::new()];
    let captured = |port, time| {
        let received = Received {
            frame: "001#".parse().unwrap(),
            stamp: Stamp::default(),
            origin: Origin::Bus,
        };
        Captured { port, time: Instant::from_nanos(time), received }
    };
    capture.waiting[0].extend([captured(0, 1), captured(0, 4), captured(0, 2)]);
    capture.waiting[1].extend([captured(1, 2), captured(1, 3), captured(1, 5)]);
    let order: Vec<_> = std::iter::from_fn(|| capture.earliest())
        .map(|captured| (captured.port, captured.time.as_nanos()))
        .collect();
    assert_eq!(order, [(0, 1), (1, 2), (1, 3), (0, 4), (0, 2), (1, 5)]);
}

#[test]
fn a_port_that_was_away_is_taken_up_again() {
    let mut replacements = VecDeque::from([script([
        Step::Frames(&[(2, "002#")]),
        Step::Down, // and nothing to replace it with: the same one goes on
        Step::Down,
        Step::Frames(&[(3, "003#")]),
        Step::Broken,
    ])]);
    let mut attempts = 0;
    let reopen: lasting::Reopen = Arc::new(Mutex::new(move || {
        attempts += 1;
        // Until it is there again, the old one would say nothing any more.
        let is_away = attempts == 1;
        let mut next = || replacements.pop_front().map(|it| (it, None));
        if is_away { Err(Error::new("test", "away")) } else { Ok(next()) }
    }));
    let receiver = script([Step::Frames(&[(1, "001#")]), Step::Down]);
    let receiver = LastingReceiver::new((receiver, None), Some(reopen));
    let source = Source { name: "a".into(), receiver };
    let mut capture = Capture::from_sources(vec![source]).unwrap();
    assert_eq!(
        collect(&mut capture),
        [
            "0:001#",
            "0 lost: test: it is down",
            "0 returned",
            "0:002#",
            "0 lost: test: it is down",
            "0 returned",
            "0:003#",
            "0 failed: test: it is broken",
        ]
    );
    // Those of the one before count too.
    assert_eq!(capture.totals(0).frames, 3);
}

#[test]
fn without_a_stamp_frames_have_the_time_of_their_arrival() {
    let before = clock::now::<Realtime>();
    let mut capture =
        Capture::from_sources(vec![source("a", [Step::Frames(&[(0, "001#")])])]).unwrap();
    let mut times = Vec::new();
    capture.next(Nanos::from_secs(100), |captured| times.push(captured.time));
    assert!(times.len() == 1 && times[0] >= before && times[0] <= clock::now::<Realtime>());
}

#[test]
fn silent_ports_do_not_keep_it_from_ending() {
    let silent = || source("silent", [Step::Silence]);
    let mut capture = Capture::from_sources(vec![silent(), silent()]).unwrap();
    assert_eq!(capture.next(Nanos::from_millis(1), |_| ()), Next::Nothing);
    drop(capture); // returns
}

#[test]
fn what_was_received_before_the_stop_is_handed_over() {
    let frames = || Step::Frames(&[(1, "001#"), (2, "002#")]);
    let mut capture = Capture::from_sources(vec![
        source("a", [frames(), Step::Silence]),
        // More than may wait: the port is stopped while it waits for room.
        source("b", std::iter::repeat_with(frames).take(3 * WAITING_BATCHES)),
        source("c", [Step::Down, Step::Silence]),
    ])
    .unwrap();
    while (0..2).any(|port| capture.totals(port).frames == 0) {
        std::thread::yield_now();
    }
    capture.stop();
    capture.stop();
    let seen = collect(&mut capture);
    for (port, name) in ["0:", "1:"].into_iter().enumerate() {
        let handed_over = seen.iter().filter(|it| it.starts_with(name)).count() as u64;
        assert_eq!(handed_over, capture.totals(port).frames);
        assert!(handed_over >= 2);
    }
}

#[test]
fn nobody_waits_for_a_caller_that_left() {
    // More batches than there is room for.
    let steps = (0..2 * WAITING_BATCHES).map(|_| Step::Frames(&[(1, "001#")]));
    drop(Capture::from_sources(vec![source("busy", steps)]).unwrap());
}

#[test]
fn totals_tell_what_was_lost() {
    let totals = Totals { frames: 10, overflow: 2, malformed: 1, ..Totals::default() };
    assert_eq!(totals.to_string(), "10 frames, 2 lost, 1 malformed");
    assert!(!totals.is_complete());
}
