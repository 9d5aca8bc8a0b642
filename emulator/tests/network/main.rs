//! Virtual networks: time and rate as arithmetic has them, queues, marks, pauses, and every fault.

mod bare;
mod busy;
mod capture;
mod congestion;
mod faults;
mod goodput;
mod timing;
mod topology;
