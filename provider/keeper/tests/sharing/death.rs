//! The keeper dies; its clients go on, and a new keeper takes over from them.

use ferroce_keeper::{KeeperError, acquire, clients};

use crate::common::{Holder, assert_steered, keeper_pid, kill_keeper, loopbacks, options, received, send};

#[test]
fn traffic_is_steered_right_while_there_is_no_keeper_and_after_a_new_one_has_taken_over() {
    let options = options();
    let mut leases: Vec<_> = (0..4).map(|_| acquire(&options).unwrap()).collect();
    let old = keeper_pid(&leases[0]);
    kill_keeper(&leases[0]);
    assert_steered(options.port, &leases.iter().collect::<Vec<_>>());

    // One after the other, the smallest set of sockets first.
    std::thread::scope(|scope| {
        for lease in &mut leases {
            scope.spawn(|| lease.recover().unwrap());
        }
    });
    assert_ne!(keeper_pid(&leases[0]), old);
    assert_steered(options.port, &leases.iter().collect::<Vec<_>>());

    let new = acquire(&options).unwrap();
    assert_eq!(new.slot(), 5);
    assert_steered(options.port, &leases.iter().chain([&new]).collect::<Vec<_>>());
    let listed: Vec<_> = clients(&options).unwrap().iter().map(|client| client.slot).collect();
    assert_eq!(listed, [1, 2, 3, 4, 5]);
}

#[test]
fn no_index_shifts_when_a_middle_client_died_before_the_keeper() {
    let options = options();
    let mut first = acquire(&options).unwrap();
    let mut middle = Holder::start(&options);
    assert_eq!(middle.slot(), 2);
    let mut last = acquire(&options).unwrap();
    middle.kill();
    assert_eq!(clients(&options).unwrap().len(), 2);
    kill_keeper(&last);
    assert_steered(options.port, &[&first, &last]);
    std::thread::scope(|scope| {
        scope.spawn(|| first.recover().unwrap());
        scope.spawn(|| last.recover().unwrap());
    });
    let heir = acquire(&options).unwrap();
    let new = acquire(&options).unwrap();
    assert_eq!((heir.slot(), new.slot()), (2, 4));
    assert_steered(options.port, &[&first, &heir, &last, &new]);
}

#[test]
fn clients_that_die_while_there_is_no_keeper_lose_their_slots() {
    let options = options();
    let first = acquire(&options).unwrap();
    let mut middle = Holder::start(&options);
    assert_eq!(middle.slot(), 2);
    let mut last = acquire(&options).unwrap();
    let mut top = Holder::start(&options);
    assert_eq!(top.slot(), 4);
    kill_keeper(&last);
    middle.kill();
    top.kill();
    assert_steered(options.port, &[&first, &last]);
    last.recover().unwrap();
    assert_steered(options.port, &[&first, &last]);
    // 1 has not reported and lives; 2 is free; 4's socket went with its owner, and the new one gets its index.
    let heirs = [acquire(&options).unwrap(), acquire(&options).unwrap()];
    assert_eq!(heirs.each_ref().map(|heir| heir.slot()), [2, 4]);
    assert_steered(options.port, &[&first, &heirs[0], &last, &heirs[1]]);
}

#[test]
fn a_client_that_reports_late_gets_its_slot_back() {
    let options = options();
    let mut late = acquire(&options).unwrap();
    let mut early = acquire(&options).unwrap();
    kill_keeper(&early);
    early.recover().unwrap();
    let new = acquire(&options).unwrap();
    assert_eq!(new.slot(), 3, "slot 1 has an owner that lives");
    late.recover().unwrap();
    assert_steered(options.port, &[&late, &early, &new]);
    drop(early);
    drop(late);
    drop(new);
}

#[test]
fn sockets_that_nobody_has_reported_keep_the_group_from_growing() {
    let options = options();
    let mut low = acquire(&options).unwrap();
    let mut high = acquire(&options).unwrap();
    kill_keeper(&low);
    low.recover().unwrap();
    let error = acquire(&options).unwrap_err();
    assert!(matches!(error, KeeperError::GroupIncomplete { .. }), "{error}");
    assert!(error.to_string().contains("3 sockets"), "{error}");
    high.recover().unwrap();
    let new = acquire(&options).unwrap();
    assert_eq!(new.slot(), 3);
    assert_steered(options.port, &[&low, &high, &new]);
}

#[test]
fn a_keeper_can_die_again_and_again() {
    let options = options();
    let mut low = acquire(&options).unwrap();
    let mut high = acquire(&options).unwrap();
    for _ in 0..5 {
        kill_keeper(&high);
        std::thread::scope(|scope| {
            scope.spawn(|| high.recover().unwrap());
            scope.spawn(|| low.recover().unwrap());
        });
        assert_steered(options.port, &[&low, &high]);
    }
}

#[test]
fn many_sockets_are_handed_over_in_several_messages() {
    let options = options();
    let holders: Vec<_> = (0..70).map(|_| acquire(&options).unwrap()).collect();
    let mut last = acquire(&options).unwrap();
    kill_keeper(&last);
    drop(holders);
    last.recover().unwrap();
    assert_eq!(last.slot(), 71);
    let heir = acquire(&options).unwrap();
    assert_steered(options.port, &[&heir, &last]);
}

#[test]
fn recovering_from_a_keeper_that_lives_changes_nothing() {
    let options = options();
    let mut lease = acquire(&options).unwrap();
    let pid = keeper_pid(&lease);
    lease.recover().unwrap();
    assert_eq!(keeper_pid(&lease), pid);
    send(options.port, lease.slot());
    assert_eq!(received(&lease).len(), loopbacks().count());
}
