//! What cases need and a backend may lack.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares the needs, their names and what they are.
macro_rules! needs {
    ($($need:ident, $name:literal, $what:literal;)*) => {
        /// Something that a case needs and not every backend has. A backend's file says what it lacks, and why.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        pub enum Need {
            $(#[doc = $what] #[serde(rename = $name)] $need,)*
        }

        impl Need {
            /// All of them.
            pub const ALL: &[Need] = &[$(Need::$need,)*];

            /// Its name in a backend's file.
            pub const fn name(self) -> &'static str {
                match self { $(Need::$need => $name,)* }
            }
        }
    };
}

needs! {
    Faults, "faults", "Faults at chosen packets.";
    Trace, "trace", "A trace of the packets between endpoints.";
    VirtualTime, "virtual-time", "Time that passes at once, so that seconds cost nothing.";
    RawPeer, "raw-peer", "A peer that sends and receives packets byte by byte.";
    RawPeerIpv6, "raw-peer-ipv6", "The same over IPv6.";
    RawHeaders, "raw-headers", "A raw peer that can make false IP and UDP headers.";
    RawTrafficClass, "raw-traffic-class", "A raw peer that sees the traffic class of what comes.";
    VerbsLibrary, "verbs-library", "The rules that a verbs library keeps: work queues' sizes and states, objects in use.";
    Uc, "uc", "UC QPs.";
    Ud, "ud", "UD QPs.";
    Srq, "srq", "Shared receive queues.";
    Xrc, "xrc", "XRC domains, their QPs and SRQs.";
    Multicast, "multicast", "Multicast groups.";
    MulticastIpv6, "multicast-ipv6", "Multicast groups over IPv6.";
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
