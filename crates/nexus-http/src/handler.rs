//! The interface between a server and the code that answers its requests.

use std::{future::Future, sync::Arc};

use hyper::{Request, Response, body::Incoming};

use crate::{connection::HttpConnection, response::ResponseBody};

/// Answers the requests of all connections of a server.
pub trait RequestHandler: Send + Sync + 'static {
    /// Answers one request. Requests of one connection are handled one after the other.
    fn respond(
        &self,
        request: Request<Incoming>,
        connection: &Arc<HttpConnection>,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;
}
