//! Stands in for the vendors' own issuers in this namespace, and counts connections.

use std::{
    net::{TcpListener, TcpStream, ToSocketAddrs as _},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub(crate) struct IssuerListener {
    connections: Arc<AtomicUsize>,
    ours: usize,
}

impl IssuerListener {
    /// Opens port 443 of 127.0.0.1, where all of `names` have to lead, and counts a connection of our own at each.
    pub(crate) fn at<const COUNT: usize>(names: [&str; COUNT]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:443").expect("port 443 is ours");
        let connections = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                drop(stream);
            }
        });
        for name in names {
            let addresses: Vec<_> = (name, 443).to_socket_addrs().expect(name).collect();
            assert!(addresses.iter().all(|address| address.ip().is_loopback()), "{name} is {addresses:?}");
            TcpStream::connect((name, 443)).expect(name);
        }
        let began = Instant::now();
        while connections.load(Ordering::SeqCst) < COUNT {
            assert!(began.elapsed() < Duration::from_secs(10), "our own connections were not counted");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { connections, ours: COUNT }
    }

    /// How many connections others made.
    pub(crate) fn stop(self) -> usize {
        std::thread::sleep(Duration::from_millis(200));
        self.connections.load(Ordering::SeqCst) - self.ours
    }
}
