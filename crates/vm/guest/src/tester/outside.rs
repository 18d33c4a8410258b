//! [`Outside`]: the tester is outside of the guest. The guest starts it, and waits until it is done without using the
//! processor: a line at a serial port wakes it up. Where the guest sends all frames, it also says when it has.

use std::fs::File;
use std::io::Read;
use std::sync::mpsc;
use std::thread;

use candor_linux::port::Ports;
use candor_protocol::meeting;

use crate::failure::{Context, FAULT, Failure};
use crate::host;

const PLACE: &str = "the tester outside";
/// A tester that can be started.
pub(crate) struct Outside {
    signal: File,
    teller: Teller,
}

impl Outside {
    pub(crate) fn new() -> Result<Self, Failure> {
        let signal =
            File::open(meeting::TESTER_DONE).at(PLACE, "use a kernel with CONFIG_SERIAL_8250")?;
        Ok(Self { signal, teller: Teller::start()? })
    }

    /// Lets it send the frames before those that count; returns when nothing comes any more.
    pub(crate) fn warm_up(&mut self) -> Result<(), Failure> {
        self.start()?;
        self.wait()
    }

    /// Lets it send everything; returns when nothing comes any more.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        host::counting_begins();
        self.start()?;
        let waited = self.wait();
        host::counting_ends();
        waited
    }

    /// Lets it begin.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        self.teller.tell(meeting::TESTER_START)
    }

    /// Tells it that the guest has sent everything, which only a tester without senders does not know itself.
    pub(crate) fn guest_is_over(&self) -> Result<(), Failure> {
        self.teller.tell(meeting::TESTER_OVER)
    }

    /// Returns when nothing comes any more.
    pub(crate) fn wait(&mut self) -> Result<(), Failure> {
        let read = self.signal.read(&mut [0; 16]).at(PLACE, FAULT)?;
        if read == 0 {
            return Err(Failure::new(PLACE, "the serial port was hung up", FAULT));
        }
        Ok(())
    }
}

/// Writes to its port, by a thread of its own: a task with the right to use ports takes longer to switch to. It is there before
/// instructions are counted, and until they are: a thread with all its memory in place costs two million of them.
struct Teller {
    what: mpsc::Sender<u8>,
    told: mpsc::Receiver<Result<(), Failure>>,
}

impl Teller {
    /// When it returns, the thread waits for what to tell.
    fn start() -> Result<Self, Failure> {
        let (what, wanted) = mpsc::channel::<u8>();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            // Whoever does not listen any more has its own error.
            let ports = match Self::ports() {
                Ok(ports) => ports,
                Err(failure) => return drop(tell.send(Err(failure))),
            };
            let _ = tell.send(Ok(()));
            for what in wanted {
                ports.write_u8(meeting::TESTER_PORT, what);
                let _ = tell.send(Ok(()));
            }
        });
        let teller = Self { what, told };
        teller.answer()?;
        Ok(teller)
    }

    /// The port of a tester that is there.
    fn ports() -> Result<Ports, Failure> {
        let port = host::only(meeting::TESTER_PORT);
        let ports = Ports::acquire(port).at(PLACE, "boot without lockdown")?;
        if ports.read_u8(meeting::TESTER_PORT) != meeting::TESTER_IS_THERE {
            return Err(Failure::new(PLACE, "it is not there", "start the guest through candor"));
        }
        Ok(ports)
    }

    fn tell(&self, what: u8) -> Result<(), Failure> {
        // If the thread has ended, it does not answer.
        let _ = self.what.send(what);
        self.answer()
    }

    fn answer(&self) -> Result<(), Failure> {
        self.told.recv().unwrap_or_else(|_| Err(Failure::new(PLACE, "the thread panicked", FAULT)))
    }
}
