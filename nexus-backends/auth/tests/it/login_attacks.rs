//! What strangers, broken networks and odd issuers can do to a sign-in, against its real callback server and over real
//! sockets. Every test looks at what was sent, not only at what came of it.

mod callback;
mod crowd;
mod device;
mod exchange;
mod logs;
mod openai_device;
mod ports;
mod refresh_token_alone;
mod registration;
mod renewal;
mod revocation;
// The tests of the vendors' sign-ins have these two as well.
#[path = "../login_attacks/stage.rs"]
mod stage;
mod tokens;
#[path = "../login_attacks/wire.rs"]
mod wire;
