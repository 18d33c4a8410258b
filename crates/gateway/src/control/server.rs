//! The gateway's end of the control socket.

use std::fmt;
use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use candor_linux::clock;
use candor_linux::folder::{Folder, Writers};
use candor_linux::lock::{self, Lock, Outcome};
use candor_linux::peer::{self, own_group, own_user};
use candor_linux::process::is_alive;
use candor_time::{Instant, Monotonic, Nanos};

use super::clients::{self, Came, Clients, Pulse, Room, Service};
use super::protocol::{Lines, TooLong};
use super::{Answer, Handler, PROTOCOL, Request, Version};
use crate::lock::lock as lock_mutex;

/// How often, and how long each time, to wait for another gateway that is about to make the same
/// socket.
const ATTEMPTS: u32 = 200;
const PAUSE: Nanos = Nanos::from_millis(5);

/// Who may write to the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Who runs the gateway: mode 0600.
    #[default]
    Owner,
    /// The group of the process as well: mode 0660.
    Group,
}

impl Access {
    const fn socket_mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Group => 0o660,
        }
    }

    const fn folder_mode(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Group => 0o750,
        }
    }
}

/// How much clients may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at once.
    pub clients: usize,
    /// Bytes of a request, its line feed apart.
    pub line_bytes: usize,
    /// How long a client may take to take an answer.
    pub patience: Nanos,
    /// How long a client may ask for nothing, and watch nothing.
    pub idle: Nanos,
    /// If there is no room for one more client, the one that has been without an answer or a snapshot
    /// for the longest time gives way, if that is so long.
    pub gives_way: Nanos,
}

/// 16 clients, 32 KiB, 5 s, 10 min, 1 s.
impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 16,
            line_bytes: 32 << 10,
            patience: Nanos::from_secs(5),
            idle: Nanos::from_secs(600),
            gives_way: Nanos::from_secs(1),
        }
    }
}

/// Why there is no control socket.
#[derive(Debug)]
pub enum BindError {
    /// A gateway has it.
    InUse {
        /// The socket.
        path: PathBuf,
        /// The gateway; `None` if the kernel does not tell.
        process: Option<u32>,
    },
    /// There is something else.
    Taken {
        /// Where the socket was to be.
        path: PathBuf,
        /// What is wrong with what is there, or with its folder.
        reason: String,
    },
    /// The kernel refuses.
    Io {
        /// Where the socket was to be.
        path: PathBuf,
        /// What was tried.
        attempt: &'static str,
        /// The reason.
        error: io::Error,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { path, process } => {
                write!(f, "{}: a gateway already runs with this control socket", path.display())?;
                match process {
                    Some(process) => {
                        write!(f, " (process {process}); stop it with: kill {process}; or")?;
                    }
                    None => write!(f, ";")?,
                }
                f.write_str(" name another socket with --control")
            }
            Self::Taken { path, reason } => {
                write!(f, "{}: {reason}; name another socket with --control", path.display())
            }
            Self::Io { path, attempt, error } => {
                let path = path.display();
                write!(f, "{path}: cannot {attempt}: {error}; name another socket with --control")
            }
        }
    }
}

impl std::error::Error for BindError {}

/// The control socket, made but not yet answering: clients that connect wait.
#[derive(Debug)]
pub struct Listening {
    listener: UnixListener,
    file: SocketFile,
}

impl Listening {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Begins to answer, in threads of its own, until the server is dropped. They have the priority
    /// and the processors of the thread that calls this: call it before those become special.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn serve(
        self,
        handler: Arc<Mutex<impl Handler + 'static>>,
        limits: Limits,
    ) -> io::Result<Server> {
        let Self { listener, file } = self;
        let service = Control { handler, limits };
        let room = Room { clients: limits.clients, idle: limits.gives_way };
        let clients = Clients::serve("control", listener, room, service)?;
        Ok(Server { _clients: clients, file })
    }
}

/// The control socket in operation. When it is dropped clients are disconnected and its file is
/// removed. Whoever drops it may hold the lock of the handler.
#[derive(Debug)]
pub struct Server {
    _clients: Clients,
    file: SocketFile,
}

impl Server {
    /// Makes the socket, and its folder. A socket that nobody listens to any more is replaced. A
    /// folder in which other users could replace the socket is refused.
    ///
    /// # Errors
    /// A gateway is running with it, or it cannot be made.
    pub fn bind(path: &Path, access: Access) -> Result<Listening, BindError> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        // Whoever names a folder may name it by a symbolic link.
        let parent = parent.canonicalize().unwrap_or(parent.to_owned());
        Self::bind_in(&parent, path, access)
    }

    fn bind_in(parent: &Path, path: &Path, access: Access) -> Result<Listening, BindError> {
        let fail = |attempt| move |error| BindError::Io { path: path.to_owned(), attempt, error };
        let mode = lock::mode_of(parent, access.folder_mode());
        let folder = Folder::open_or_make(parent, mode);
        let folder = folder.map_err(fail("open its folder"))?;
        folder.check(Writers::Group).map_err(fail("open its folder"))?;
        if access == Access::Group {
            let_group_in(&folder).map_err(fail("give the group access to its folder"))?;
        }
        // While it is looked whether the socket there is in use nobody else may replace it.
        let _held =
            hold(&parent.join(path.file_name().unwrap_or_default())).map_err(fail("lock it"))?;
        look(path)?;
        let listener = make(&folder, path, access).map_err(fail("create the socket"))?;
        let metadata = fs::symlink_metadata(path).map_err(fail("read the new socket"))?;
        Ok(Listening { listener, file: SocketFile::new(path, &metadata) })
    }

    /// Makes the socket in the first of these places where that is possible. A folder that is a
    /// symbolic link is not used.
    ///
    /// # Errors
    /// As [`Server::bind`], of the last place; if a gateway is running in one of them, that.
    pub fn bind_first(places: &[PathBuf], access: Access) -> Result<Listening, BindError> {
        let mut refused = None;
        for path in places {
            match Self::bind_in(path.parent().unwrap_or(Path::new("/")), path, access) {
                Err(error @ BindError::InUse { .. }) => return Err(error),
                Err(error) => refused = Some(error),
                Ok(listening) => return Ok(listening),
            }
        }
        Err(refused.unwrap_or_else(|| BindError::Taken {
            path: PathBuf::new(),
            reason: "no folder for a control socket was found".into(),
        }))
    }

    /// Where the socket is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file.path
    }
}

/// Lets the group of this process find the socket. A folder of another group has to be open to all for
/// that; its files are not.
fn let_group_in(folder: &Folder) -> io::Result<()> {
    let found = folder.metadata()?;
    let needed = if found.gid() == own_group() { 0o050 } else { 0o055 };
    let mode = found.mode() & 0o7777;
    if found.uid() != own_user() || mode & needed == needed {
        return Ok(());
    }
    folder.set_mode(mode | needed)
}

/// The right to make this socket, for as long as it is kept: other gateways of this user that start at
/// this moment wait. The lock is a file that no other user can open, see [`candor_linux::lock`].
fn hold(socket: &Path) -> io::Result<Lock> {
    let key = format!("control socket {}", socket.display());
    for _ in 0..ATTEMPTS {
        match Lock::take(&key).map_err(io::Error::other)? {
            Outcome::Taken(lock) => return Ok(lock),
            Outcome::Held(_) => {
                let then = clock::now::<Monotonic>() + PAUSE;
                clock::sleep_until(then).map_err(io::Error::other)?;
            }
        }
    }
    Err(io::Error::other("another gateway has held the lock for a second"))
}

/// Whether what is at `path` may be replaced.
fn look(path: &Path) -> Result<(), BindError> {
    let taken = |reason: &str| BindError::Taken { path: path.to_owned(), reason: reason.into() };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let attempt = "examine the file with this name";
            return Err(BindError::Io { path: path.to_owned(), attempt, error });
        }
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(taken("a file that is not a socket has this name"));
        }
        Ok(metadata) if !super::place::is_trusted(&metadata, own_user()) => {
            return Err(taken("a socket of another user has this name"));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(stream) => {
            let process = peer::peer_of(&stream).ok().map(|peer| peer.process);
            // Another process may have got the socket of one that ended.
            let process = process.filter(|&process| is_alive(process));
            Err(BindError::InUse { path: path.to_owned(), process })
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(taken("a socket of another user has this name"))
        }
        Err(error) => {
            let attempt = "find out whether the socket is in use";
            Err(BindError::Io { path: path.to_owned(), attempt, error })
        }
    }
}

/// Makes the socket where nobody else gets at it before it has its mode, and then moves it.
fn make(folder: &Folder, path: &Path, access: Access) -> io::Result<UnixListener> {
    let private = folder.make_private()?;
    let inside = private.path().join("s");
    let made = UnixListener::bind(&inside).and_then(|listener| {
        fs::set_permissions(&inside, Permissions::from_mode(access.socket_mode()))?;
        fs::rename(&inside, path)?;
        Ok(listener)
    });
    if made.is_err() {
        let _ = fs::remove_file(&inside);
    }
    drop(private);
    // What clients have to write must fit as well.
    match (made, std::os::unix::net::SocketAddr::from_pathname(path)) {
        (Ok(_), Err(error)) => {
            let _ = fs::remove_file(path);
            Err(error)
        }
        (made, _) => made,
    }
}

/// The file of a socket, removed in the end unless it is another one by then.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path, metadata: &Metadata) -> Self {
        Self { path: path.to_owned(), identity: (metadata.dev(), metadata.ino()) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let metadata = fs::symlink_metadata(&self.path);
        if metadata.is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What is done for clients of the control socket.
struct Control<H> {
    handler: Arc<Mutex<H>>,
    limits: Limits,
}

impl<H: Handler + 'static> Service<UnixStream> for Control<H> {
    fn serve(&self, client: UnixStream, pulse: &Pulse) {
        let lines = Lines::new(self.limits.line_bytes);
        Session { control: self, client, pulse, lines, watch: None }.run();
    }

    fn displace(&self, client: &mut UnixStream) {
        let limit = self.limits.clients;
        let message = format!("disconnected: a new client connected, and {limit} is the limit");
        clients::write_all(client, &Answer::error(message).encode(), Nanos::ZERO);
    }

    fn turn_away(&self, mut client: UnixStream) {
        let limit = self.limits.clients;
        let message = format!(
            "{limit} clients are connected, which is the limit; disconnect one \
                               of them"
        );
        clients::write_all(&mut client, &Answer::error(message).encode(), Nanos::ZERO);
    }
}

impl<H: Handler> Control<H> {
    /// The handler, also if it once panicked: what it counts is still there.
    fn handler(&self) -> MutexGuard<'_, H> {
        lock_mutex(&self.handler)
    }
}

/// When snapshots of a watch come.
struct Watch {
    next: Instant<Monotonic>,
    interval: Nanos,
}

/// Whether the connection goes on.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    End,
}

struct Session<'a, H> {
    control: &'a Control<H>,
    client: UnixStream,
    pulse: &'a Pulse,
    lines: Lines,
    watch: Option<Watch>,
}

impl<H: Handler> Session<'_, H> {
    fn run(mut self) {
        let idle = self.control.limits.idle;
        let mut silent_since = clock::now::<Monotonic>();
        let mut piece = [0; 4096];
        loop {
            let until = match &self.watch {
                Some(watch) => watch.next,
                None => silent_since + idle,
            };
            match clients::read(&mut self.client, &mut piece, until) {
                Came::Bytes(count) => {
                    silent_since = clock::now::<Monotonic>();
                    self.lines.push(piece.get(..count).unwrap_or_default());
                    self.pulse.busy();
                    let flow = self.requests();
                    self.pulse.beat();
                    if flow == Flow::End {
                        return;
                    }
                }
                Came::Nothing if self.watch.is_some() => {}
                Came::Nothing => {
                    let idle = idle.as_secs_f64();
                    self.send(&Answer::error(format!("no request came for {idle} s")));
                    return;
                }
                Came::End => {
                    if self.lines.has_rest() {
                        self.send(&Answer::error("the last line is not complete; end it with \\n"));
                    }
                    return;
                }
            }
            if self.tick() == Flow::End {
                return;
            }
        }
    }

    /// Sends the snapshot of a watch if it is time.
    fn tick(&mut self) -> Flow {
        let now = clock::now::<Monotonic>();
        let Some(watch) = &mut self.watch else { return Flow::On };
        if now < watch.next {
            return Flow::On;
        }
        // Those that are missed are left out.
        let (late, interval) = (now - watch.next, watch.interval);
        let missed = late.as_nanos() / interval.as_nanos();
        watch.next += interval * (missed + 1);
        self.pulse.busy();
        let snapshot = self.control.handler().snapshot();
        let flow = self.send(&Answer::Snapshot(Box::new(snapshot)));
        self.pulse.beat();
        flow
    }

    /// Answers the requests that are there.
    fn requests(&mut self) -> Flow {
        loop {
            let request = match self.lines.next_line() {
                None => return Flow::On,
                Some(Err(TooLong)) => {
                    let limit = self.control.limits.line_bytes;
                    Err(format!("the line is longer than {limit} bytes, the limit for a request"))
                }
                Some(Ok(line)) if line.trim_ascii().is_empty() => continue,
                Some(Ok(line)) => Request::decode(line),
            };
            let flow = match request {
                Ok(request) => self.request(request),
                Err(message) => self.send(&Answer::error(message)),
            };
            if flow == Flow::End {
                return Flow::End;
            }
        }
    }

    fn request(&mut self, request: Request) -> Flow {
        let control = self.control;
        let answer = match request {
            Request::Stats => Answer::Snapshot(Box::new(control.handler().snapshot())),
            Request::Watch { interval_ms: 0 } => {
                self.watch = None;
                return Flow::On;
            }
            Request::Watch { interval_ms } => {
                let interval = Nanos::from_millis(interval_ms);
                self.watch = Some(Watch { next: clock::now(), interval });
                return self.tick();
            }
            Request::Load { file } => match control.handler().load(file.as_deref()) {
                Ok(loaded) => Answer::Loaded(loaded),
                Err(rejected) => Answer::Error(rejected),
            },
            Request::Plan => Answer::Plan { lines: control.handler().plan() },
            Request::Version => {
                let file = control.handler().file();
                Answer::Version(Version {
                    protocol: PROTOCOL,
                    candor: env!("CARGO_PKG_VERSION").to_owned(),
                    pid: std::process::id(),
                    file,
                })
            }
            Request::Stop => {
                // First, since there may be nobody to tell it afterwards.
                self.send(&Answer::Stopping);
                control.handler().stop();
                return Flow::End;
            }
        };
        self.send(&answer)
    }

    fn send(&mut self, answer: &Answer) -> Flow {
        let is_taken =
            clients::write_all(&mut self.client, &answer.encode(), self.control.limits.patience);
        if is_taken { Flow::On } else { Flow::End }
    }
}
