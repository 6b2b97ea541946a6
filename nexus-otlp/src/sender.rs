//! The HTTP client of the exporters.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use nexus_auth::http::{ClientPlan, HttpProblem, Network, ReadError, read_whole};
use nexus_core::BuildContext;
use opentelemetry_http::{HttpClient, HttpError};
use reqwest::Client;
use tokio::runtime::Handle;

use crate::Collector;

/// How long a connection to the collector may take.
const CONNECT: Duration = Duration::from_secs(2);

/// What is read of a collector's answer.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Sends requests from the exporters' threads by the program's runtime, and remembers the last problem.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    client: Client,
    runtime: Handle,
    problem: Arc<Mutex<Option<String>>>,
}

impl Sender {
    pub(crate) fn new(runtime: Handle, collector: &Collector) -> Result<Self, String> {
        let mut context = BuildContext::in_home(".");
        context.environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let plan = ClientPlan::new(&Network::default(), &context, CONNECT);
        let plan = plan.map_err(|error| error.to_string())?;
        let plan = if collector.is_loopback() { plan.without_proxies() } else { plan };
        let client = plan.build(collector.is_tls()).map_err(|error| error.to_string())?;
        Ok(Self { client, runtime, problem: Arc::default() })
    }

    /// What kept the last request from being taken, if it was not.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.runtime.spawn(send(self.client.clone(), request));
        let outcome = sent.await.unwrap_or_else(|_| Err("the program ended".into()));
        match &outcome {
            Ok(response) if response.status().is_success() => self.note(None),
            Ok(response) => self.note(Some(format!("the collector answers {}", response.status()))),
            Err(error) => self.note(Some(error.to_string())),
        }
        outcome
    }
}

async fn send(client: Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let request = request.try_into()?;
    let answer = client.execute(request).await.map_err(|error| HttpProblem::before_answer(&error, false))?;
    let mut response = Response::builder().status(answer.status());
    if let Some(headers) = response.headers_mut() {
        *headers = answer.headers().clone();
    }
    let body = match read_whole(answer, MAX_ANSWER_BYTES).await {
        Ok(body) => Bytes::copy_from_slice(&body),
        Err(ReadError::TooLarge) => Bytes::new(),
        Err(ReadError::Broken(problem)) => return Err(problem.into()),
    };
    Ok(response.body(body)?)
}
