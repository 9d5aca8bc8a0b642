//! The transport in virtual time: two devices over a scripted link ([`pair`]), or one device and the packets of
//! an imagined peer ([`solo`]).

mod arena;
mod asking;
mod end;
mod pair;
mod shot;
mod solo;
mod workload;

mod dcqcn;
mod loss;
mod noise;
mod operations;
mod placement;
mod requester;
mod responder;
mod scheduling;
mod selective;
mod snapshot;
mod srq;
mod states;
mod uc;
mod ud;
mod unmapped;
mod windows;
mod xrc;
