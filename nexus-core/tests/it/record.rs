//! Records of turns: what is written is read back, whatever happened in between.

mod bounds;
mod faults;
mod round_trip;
mod secrets;
mod stage;
