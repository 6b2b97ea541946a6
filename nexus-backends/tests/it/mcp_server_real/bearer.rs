//! Bears the token for a client that cannot.
//!
//! The suite sends no token, and without one the server must refuse. So a port of its own stands before the server, and each
//! request that comes there goes on with the token in its head. The names of that port become those of the server;
//! whatever else a request says of its host or origin stays, so that what the suite tries with it is tried on the server.

use std::{io, net::SocketAddr};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

pub(crate) struct Bearer {
    listener: TcpListener,
    server: SocketAddr,
    token: String,
}

impl Bearer {
    pub(crate) async fn before(server: SocketAddr, token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener, server, token: token.to_owned() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.listener.local_addr().unwrap())
    }

    /// Carries requests for as long as it is polled.
    pub(crate) async fn carry(&self) {
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => connections.push(self.request(accepted.unwrap().0)),
                // A client that leaves early is no failure of the bearer's.
                Some(_) = connections.next(), if !connections.is_empty() => {}
            }
        }
    }

    /// Carries one request and its answer. The answer ends the connection, so there is one head.
    async fn request(&self, mut client: TcpStream) -> io::Result<()> {
        let mut request = Vec::new();
        let end = loop {
            if let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if client.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        };
        let body = request.split_off(end + 4);
        let head = String::from_utf8(request).map_err(io::Error::other)?;
        let (line, headers) = head.split_once("\r\n").ok_or(io::ErrorKind::InvalidData)?;
        let (own, servers) = (self.listener.local_addr()?.port(), self.server.port());
        let headers: String = headers
            .split_inclusive("\r\n")
            .filter(|header| !header.to_ascii_lowercase().starts_with("connection:"))
            .map(|header| match header.split_once(':') {
                Some((name, _)) if ["host", "origin"].contains(&name.to_ascii_lowercase().as_str()) => {
                    header.replace(&format!(":{own}\r\n"), &format!(":{servers}\r\n"))
                }
                _ => header.to_owned(),
            })
            .collect();
        let token = &self.token;
        let head = format!("{line}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n{headers}");
        let mut server = TcpStream::connect(self.server).await?;
        server.write_all(head.as_bytes()).await?;
        server.write_all(&body).await?;
        copy_bidirectional(&mut client, &mut server).await?;
        Ok(())
    }
}
