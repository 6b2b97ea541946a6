//! The transport against real sockets.
