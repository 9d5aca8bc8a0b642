//! Shrinking: as few steps as will do for the same fault.

use super::Fault;
use super::plan::{Plan, Step};
use crate::rules::RandomFaults;
use ferroce_core::Nanos;

/// Leaves out and simplifies steps of a plan that ends in `fault`, as long as `run` says that what is left breaks the
/// same rule. Asks it `budget` times at most.
pub fn shrink(plan: &Plan, fault: &Fault, budget: u32, run: impl FnMut(&Plan) -> Option<Fault>) -> Plan {
    let mut shrinker = Shrinker { plan: plan.clone(), rule: &fault.rule, budget, run };
    // Each round that changes something makes the plan simpler, and the budget bounds them all.
    while shrinker.leave_out() | shrinker.simplify() {}
    shrinker.plan
}

struct Shrinker<'a, R> {
    plan: Plan,
    rule: &'a str,
    budget: u32,
    run: R,
}

impl<R: FnMut(&Plan) -> Option<Fault>> Shrinker<'_, R> {
    /// Takes `candidate` if it fails in the same way.
    fn accept(&mut self, candidate: Plan) -> bool {
        if self.budget == 0 || candidate == self.plan {
            return false;
        }
        self.budget -= 1;
        let same = (self.run)(&candidate).is_some_and(|fault| fault.rule == self.rule);
        if same {
            self.plan = candidate;
        }
        same
    }

    /// Leaves out runs of steps, long ones first; whether that did something.
    fn leave_out(&mut self) -> bool {
        let mut changed = false;
        let mut size = self.plan.steps.len().max(1);
        loop {
            let mut at = 0;
            while at < self.plan.steps.len() && self.budget > 0 {
                let mut candidate = self.plan.clone();
                candidate.steps.drain(at..(at + size).min(self.plan.steps.len()));
                if self.accept(candidate) {
                    changed = true;
                } else {
                    at += size;
                }
            }
            if size == 1 {
                return changed;
            }
            size = size.div_ceil(2);
        }
    }

    /// Makes single steps simpler; whether that did something.
    fn simplify(&mut self) -> bool {
        let mut changed = false;
        for at in 0..self.plan.steps.len() {
            for simpler in simpler(&self.plan.steps[at]) {
                let mut candidate = self.plan.clone();
                candidate.steps[at] = simpler;
                changed |= self.accept(candidate);
            }
        }
        changed
    }
}

/// Simpler forms of a step, each with one thing less.
fn simpler(step: &Step) -> Vec<Step> {
    let mut forms = Vec::new();
    match step {
        Step::Faults(faults) => {
            let none = RandomFaults { most_delay_ns: faults.most_delay_ns, ..RandomFaults::default() };
            for form in [
                none,
                RandomFaults { drop_ppm: 0, ..*faults },
                RandomFaults { duplicate_ppm: 0, ..*faults },
                RandomFaults { delay_ppm: 0, ..*faults },
                RandomFaults { corrupt_ppm: 0, ..*faults },
                RandomFaults { mark_ce_ppm: 0, ..*faults },
                RandomFaults { reorder_ppm: 0, ..*faults },
                RandomFaults { truncate_ppm: 0, ..*faults },
            ] {
                forms.push(Step::Faults(form));
            }
        }
        Step::Send(send) => {
            forms.push(Step::Send(super::Send { len: send.len.min(1), ..*send }));
            forms.push(Step::Send(super::Send { len: send.len / 2, ..*send }));
            forms.push(Step::Send(super::Send { sges: 1, window: false, ..*send }));
            forms.push(Step::Send(super::Send { fence: false, solicited: false, signaled: true, ..*send }));
        }
        Step::Receive(receive) => forms.push(Step::Receive(super::Receive { sges: 1, ..*receive })),
        Step::Attack { prey, packets, salt } if *packets > 1 => {
            for packets in [packets / 2, packets - 1] {
                forms.push(Step::Attack { prey: *prey, packets, salt: *salt });
            }
        }
        Step::Expose(expose) => {
            forms.push(Step::Expose(super::Expose { work: [0, 0], ..*expose }));
            forms.push(Step::Expose(super::Expose { work: expose.work.map(|count| count / 2), ..*expose }));
        }
        Step::Wait { ns } => forms.push(Step::Wait { ns: Nanos::min(*ns / 2, 100_000) }),
        Step::Connect(connect) => {
            forms.push(Step::Connect(super::Connect { ipv6: false, late: false, psns: [0, 0], ..*connect }));
            forms.push(Step::Connect(super::Connect { sig_all: [false; 2], selective: false, ..*connect }));
        }
        _ => {}
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::super::generate;
    use super::*;

    /// Fails if there are two waits with a restart between them.
    fn judge(plan: &Plan) -> Option<Fault> {
        let mut stage = 0;
        for step in &plan.steps {
            stage = match (stage, step) {
                (0 | 2, Step::Wait { .. }) => stage + 1,
                (1, Step::Restart { .. }) => 2,
                _ => stage,
            };
        }
        (stage == 3).then(|| Fault::new("order", "two waits around a restart"))
    }

    #[test]
    fn what_does_not_matter_is_left_out() {
        let mut plan = generate(3, 1_000_000);
        plan.steps.push(Step::Wait { ns: 5 });
        plan.steps.push(Step::Restart { host: 0 });
        plan.steps.push(Step::Wait { ns: 1_000_000 });
        let fault = judge(&plan).expect("it fails");
        let mut runs = 0;
        let shrunk = shrink(&plan, &fault, 1000, |plan| {
            runs += 1;
            judge(plan)
        });
        assert_eq!(shrunk.steps.len(), 3, "{shrunk}");
        assert!(matches!(shrunk.steps[2], Step::Wait { ns: 0 }), "{shrunk}");
        assert!(runs < 1000);
    }

    #[test]
    fn the_budget_bounds_it() {
        let plan = generate(4, 10_000_000);
        let mut runs = 0;
        shrink(&plan, &Fault::new("any", ""), 17, |_| {
            runs += 1;
            Some(Fault::new("any", ""))
        });
        assert!(runs <= 17);
    }
}
