//! A link that loses, delays, repeats and reorders.
