//! The connection to a bus: it is made again when it has ended.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use zbus::connection::Builder;
use zbus::message::Type;
use zbus::{Connection, MatchRule, MessageStream, fdo};

use super::interface::Interface;
use super::subscription::Registry;
use super::{BusAddress, Link, NAME, PATH};
use crate::Shared;

/// How long a bus may take to let somebody in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a bus that is gone is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The next message; `None` when the connection has ended.
pub(crate) async fn next(stream: &mut MessageStream) -> Option<zbus::Result<zbus::Message>> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

/// The builder of a connection.
pub(crate) fn builder(address: &BusAddress) -> Builder<'static> {
    match address {
        BusAddress::Session => Builder::session(),
        BusAddress::System => Builder::system(),
        BusAddress::At(address) => Builder::address(address.as_str()),
    }
}

/// A connection under the service's name.
pub(crate) struct Connected {
    // Open while it is held.
    _connection: Connection,
    gone: MessageStream,
    registry: Arc<Registry>,
}

/// Why there is no connection.
pub(crate) struct Refused {
    pub(crate) reason: String,
    /// Whether the bus is only not there yet.
    pub(crate) may_come: bool,
}

/// Connects, and takes the service's name.
///
/// # Errors
/// The bus does not answer or does not give the name.
pub(crate) async fn connect(
    address: &BusAddress,
    shared: &Arc<Shared>,
) -> Result<Connected, Refused> {
    let connecting = async {
        let registry = Arc::new(Registry::default());
        let interface = Interface::new(Arc::clone(shared), Arc::clone(&registry));
        let connection = builder(address).serve_at(PATH, interface).build().await?;
        // Those of which a name has no owner any more.
        let rule = MatchRule::builder()
            .msg_type(Type::Signal)
            .sender("org.freedesktop.DBus")
            .interface("org.freedesktop.DBus")
            .member("NameOwnerChanged")
            .arg(2, "")
            .build()?;
        let gone = MessageStream::for_match_rule(rule, &connection, None).await?;
        connection.request_name_with_flags(NAME, fdo::RequestNameFlags::DO_NOT_QUEUE).await?;
        Ok(Connected { _connection: connection, gone, registry })
    };
    match tokio::time::timeout(LOGIN_TIMEOUT, connecting).await {
        Ok(outcome) => outcome.map_err(|error| Refused {
            reason: reason(&error),
            may_come: matches!(error, zbus::Error::InputOutput(_)),
        }),
        Err(_) => {
            let reason = "it does not answer; start its daemon again".to_owned();
            Err(Refused { reason, may_come: true })
        }
    }
}

/// What an error of a bus says.
pub(crate) fn described(error: &zbus::Error) -> String {
    match error {
        // Its own text does not say which one.
        zbus::Error::FDO(inner) => inner.to_string(),
        error => error.to_string(),
    }
}

/// Why there is no connection, and what to do.
fn reason(error: &zbus::Error) -> String {
    match error {
        zbus::Error::NameTaken => {
            format!("another program is called {NAME} there; end it, or use another bus")
        }
        zbus::Error::FDO(fdo) if matches!(**fdo, fdo::Error::AccessDenied(_)) => format!(
            "its policy does not let this program be called {NAME}; docs/signals.md has a file that does"
        ),
        error => format!("{}; start its daemon, or use another bus", described(error)),
    }
}

/// Serves on a bus as long as it is there, and waits for it when it is not.
pub(crate) async fn keep(connected: Option<Connected>, link: Arc<Link>, shared: Arc<Shared>) {
    let mut connected = match connected {
        Some(connected) => connected,
        None => connect_again(&link, &shared).await,
    };
    loop {
        while let Some(message) = next(&mut connected.gone).await {
            let Ok(message) = message else { break };
            if let Ok((name, _, _)) = message.body().deserialize::<(String, String, String)>() {
                connected.registry.end_all(|client| client == name);
            }
        }
        connected.registry.end_all(|_| true);
        drop(connected);
        link.set_trouble(Some("its daemon has gone; trying again every second".to_owned()));
        connected = connect_again(&link, &shared).await;
    }
}

/// Tries to connect until that is done.
async fn connect_again(link: &Link, shared: &Arc<Shared>) -> Connected {
    loop {
        tokio::time::sleep(RETRY).await;
        if let Ok(connected) = connect(&link.address, shared).await {
            link.set_trouble(None);
            return connected;
        }
    }
}
