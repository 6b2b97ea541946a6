//! The doors of the vendors' own issuers, as far as this namespace is concerned: whoever knocks is counted.

use std::{
    net::{TcpListener, TcpStream, ToSocketAddrs as _},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub(crate) struct Door {
    knocks: Arc<AtomicUsize>,
    ours: usize,
}

impl Door {
    /// Opens port 443 of 127.0.0.1, where all of `names` have to lead, and counts a knock of our own at each.
    pub(crate) fn at<const COUNT: usize>(names: [&str; COUNT]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:443").expect("port 443 is ours");
        let knocks = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&knocks);
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
        while knocks.load(Ordering::SeqCst) < COUNT {
            assert!(began.elapsed() < Duration::from_secs(10), "our own knocks were not heard");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { knocks, ours: COUNT }
    }

    /// How many others knocked.
    pub(crate) fn stop(self) -> usize {
        std::thread::sleep(Duration::from_millis(200));
        self.knocks.load(Ordering::SeqCst) - self.ours
    }
}
