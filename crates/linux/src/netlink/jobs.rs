//! The jobs of can-gw.

use super::connection::Netlink;
use super::message::{ACKNOWLEDGE, DELETE_ROUTE, DUMP, GET_ROUTE, NEW_ROUTE, REQUEST, Request};
use crate::{Error, module};

impl Netlink {
    /// Adds a can-gw job; `payload` is `struct rtcanmsg` and attributes, as `candor_rules::netlink` makes
    /// them.
    ///
    /// # Errors
    /// can-gw is not loaded, or refuses the job.
    pub fn add_job(&mut self, payload: &[u8]) -> Result<(), Error> {
        let request = Request::new(NEW_ROUTE, REQUEST | ACKNOWLEDGE).with(payload);
        self.job_request("add", request).map_err(|error| {
            let remedy = "the kernel gives no reason; common ones are limit_hops above the module \
                          parameter max_hops, the same interface on both sides without \
                          allow_return, and a uid that another rule has";
            error.remedy_if(libc::EINVAL, remedy)
        })
    }

    /// Deletes the first can-gw job that is equal to `payload`; one with both interfaces 0 deletes
    /// all.
    ///
    /// # Errors
    /// can-gw is not loaded, or has no such job.
    pub fn delete_job(&mut self, payload: &[u8]) -> Result<(), Error> {
        let request = Request::new(DELETE_ROUTE, REQUEST | ACKNOWLEDGE).with(payload);
        self.job_request("delete", request)
            .map_err(|error| error.remedy_if(libc::EINVAL, "the job does not exist"))
    }

    fn job_request(&mut self, attempt: &'static str, request: Request) -> Result<(), Error> {
        let no_gateway = match module::is_available("can_gw") {
            true => "load the module can-gw: `modprobe can-gw`",
            false => "this kernel has no module can-gw; `candor doctor` knows where there is one",
        };
        self.request(attempt, "a can-gw job", request).map_err(|error| {
            error
                .remedy_if(libc::EOPNOTSUPP, no_gateway)
                .remedy_if(libc::EAFNOSUPPORT, no_gateway)
                .remedy_if(libc::EPERM, "this needs root or CAP_NET_ADMIN")
                .remedy_if(libc::ENODEV, "both interfaces must exist and be CAN interfaces")
        })
    }

    /// The payloads of all can-gw jobs, the one that was added last first, for `candor_rules::netlink` to
    /// decode.
    ///
    /// # Errors
    /// can-gw is not loaded.
    pub fn jobs(&mut self) -> Result<Vec<Vec<u8>>, Error> {
        let request = Request::new(GET_ROUTE, REQUEST | DUMP).with(&[libc::AF_CAN as u8, 0, 0, 0]);
        self.dump("list the can-gw jobs", &request, |message| {
            let is_job =
                message.kind == NEW_ROUTE && message.payload.first() == Some(&(libc::AF_CAN as u8));
            is_job.then(|| message.payload.to_vec())
        })
        .map_err(|error| error.remedy_if(libc::EOPNOTSUPP, "load the module can-gw"))
    }
}
