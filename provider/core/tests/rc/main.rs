//! The RC transport, driven in virtual time: two devices over a scripted link ([`pair`]), or one device and the
//! packets of an imagined peer ([`solo`]).

mod arena;
mod end;
mod pair;

mod operations;
