//! Two QPs of one process that talk over the loopback interface, through real sockets.

mod connections;
mod end;
mod objects;
mod operations;
mod placement;
mod regions;
mod services;
mod windows;
