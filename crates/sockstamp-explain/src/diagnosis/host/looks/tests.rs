use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::clock::Timestamp;
use sockstamp_model::fixture;
use sockstamp_model::flow::canonical;
use sockstamp_model::stage::Direction;

use super::*;
use crate::diagnosis::evidence::there::There;
use crate::diagnosis::slow::{Parts, Role, Seen};

/// A look at two threads: one that serves, and one that only ever sleeps in `other`.
fn look(ms: u64, serving: Option<Sleep>, other: Sleep) -> SleepLook {
    SleepLook {
        tasks: [(7, Some(other)), (8, serving)].into_iter().collect(),
        stirred: BTreeSet::from([7, 8]),
        ..SleepLook::new(7, Timestamp::from_nanos(ms * 1_000_000))
    }
}

/// Waits of 50 ms, one in 100 ms.
fn served(looks: &[SleepLook]) -> Seen {
    seen_of(Node::Service, looks)
}

fn seen_of(root: Node, looks: &[SleepLook]) -> Seen {
    let flow = fixture::message(Direction::Tx).flow;
    let wait = |of: u64| Slow {
        key: Key::new(root, "web".into(), Role::Serves, &flow),
        flow,
        pid: 7,
        is_new: false,
        begin: of * 100_000_000,
        end: of * 100_000_000 + 50_000_000,
        weight: 1,
        parts: Parts::divide(50_000_000, [], root),
        how: End::Data,
        seen: Seen::default(),
    };
    let mut waits: Vec<_> = (0..10).map(wait).collect();
    let open = vec![false; waits.len()];
    note(&mut waits, &open, looks);
    waits[0].seen.clone()
}

/// As of a master (process 7) that listens, and workers that accept.
#[test]
fn connections_wait_for_who_accepts_and_not_for_who_began_to_listen() {
    let flow = fixture::message(Direction::Rx).flow;
    let wait = |pid, how| Slow {
        key: Key::new(Node::Accept, "web".into(), Role::Serves, &flow),
        flow,
        pid,
        is_new: true,
        begin: 0,
        end: 500_000_000,
        weight: 1,
        parts: Parts::divide(500_000_000, [], Node::Accept),
        how,
        seen: Seen::default(),
    };
    let of_open = |accepted: &[u32]| {
        let accepted = accepted.iter().map(|pid| wait(*pid, End::Data));
        let mut waits: Vec<_> = [wait(7, End::Open)].into_iter().chain(accepted).collect();
        name_acceptors(&mut waits);
        waits[0].pid
    };
    assert_eq!(of_open(&[]), 7);
    assert_eq!(of_open(&[7, 8]), 7);
    assert_eq!(of_open(&[8, 8]), 8);
    assert_eq!(of_open(&[8, 9]), 0);
}

#[test]
fn a_task_that_is_alone_in_its_event_wait_is_kept_by_nothing_else() {
    let alone = |of: u64, sleep| SleepLook {
        tasks: [(7, Some(sleep))].into_iter().collect(),
        ..look(of * 100 + 25, Some(Sleep::Idle), Sleep::Idle)
    };
    let looks: Vec<_> = (0..10).map(|of| alone(of, Sleep::Idle)).collect();
    let slept = served(&looks).slept.unwrap();
    assert_eq!((slept.sleep, slept.looks, slept.of), (Sleep::Idle, 10, 10));
    let asks = Sleep::Peer("10.0.0.9:3306".parse().unwrap());
    let looks: Vec<_> = (0..10).map(|of| alone(of, asks.clone())).collect();
    assert_eq!(served(&looks).slept.unwrap().sleep, asks);
}

/// As of a thread that has the lock of an interpreter, in a cgroup without room.
#[test]
fn a_task_without_memory_is_named_though_it_is_always_so() {
    let looks: Vec<_> = (0..10)
        .map(|of| look(of * 100 + 25, Some(Sleep::Memory), Sleep::Lock))
        .collect();
    let seen = served(&looks);
    assert_eq!(seen.slept.unwrap().sleep, Sleep::Memory);
    assert!(seen.held_up);
}

/// As of a server of several threads, whose clients give up and come again.
#[test]
fn a_program_that_is_stopped_between_the_waits_is_named_too() {
    let at = |of: u64, ms: u64| look(of * 100 + ms, Some(Sleep::Stopped), Sleep::Stopped);
    let looks: Vec<_> = (0..10).flat_map(|of| [at(of, 25), at(of, 75)]).collect();
    let seen = served(&looks);
    assert_eq!(seen.slept.unwrap().sleep, Sleep::Stopped);
    assert!(seen.held_up && !seen.idle);
}

/// As of a program under strace, whose calls stop it for a moment each.
#[test]
fn a_program_that_is_traced_all_the_time_is_not_stopped() {
    let at = |of: u64, ms: u64| look(of * 100 + ms, Some(Sleep::Traced), Sleep::Traced);
    let told = |without: bool| {
        let during = (0..10).map(|of| at(of, 25));
        let rest = (0..10).map(|of| match without {
            true => at(of, 75),
            false => look(of * 100 + 75, Some(Sleep::Idle), Sleep::Idle),
        });
        let seen = served(&during.chain(rest).collect::<Vec<_>>());
        (seen.slept.map(|slept| slept.sleep), seen.held_up)
    };
    assert_eq!(told(true), (None, false));
    assert_eq!(told(false), (Some(Sleep::Traced), true));
}

/// As of a replica that is stopped, which it is between the waits, too.
#[test]
fn a_peer_that_is_stopped_is_named_whatever_it_was_before() {
    let halted = Sleep::Halted("redis-server (PID 9) at 10.0.0.7:40000".into());
    let at = |of: u64, ms: u64| look(of * 100 + ms, Some(halted.clone()), Sleep::Lock);
    let looks: Vec<_> = (0..10).flat_map(|of| [at(of, 25), at(of, 75)]).collect();
    let seen = served(&looks);
    assert_eq!(seen.slept.unwrap().sleep, halted);
    assert!(seen.held_up && !seen.idle);
}

/// As of a server with a thread for each connection, whose client lost the rest of a body.
/// Others may read the connections of other clients.
#[test]
fn a_task_that_reads_the_very_connection_waits_for_more_of_it() {
    let client = fixture::message(Direction::Tx).flow.remote;
    let at = |of: u64, reads: SocketAddr| SleepLook {
        reads: BTreeMap::from([(8, reads)]),
        ..look(of * 100 + 25, Some(Sleep::Idle), Sleep::Timer)
    };
    let told = |reads: SocketAddr| {
        let looks: Vec<_> = (0..10).map(|of| at(of, reads)).collect();
        served(&looks).slept.map(|slept| slept.sleep)
    };
    assert_eq!(told(canonical(client)), Some(Sleep::More));
    assert_eq!(told("192.0.2.7:40000".parse().unwrap()), None);
}

/// As of commits that wait for a standby, and keep rows for which others wait.
#[test]
fn what_a_holder_sleeps_in_comes_before_its_lock() {
    let sessions = vec![Name::from("PID 9 of 10.0.0.7(4000), idle in transaction")];
    let at = |of: u64, sleep: Sleep| SleepLook {
        tasks: [(7, Some(sleep))].into_iter().collect(),
        sessions: sessions.clone(),
        ..look(of * 100 + 25, None, Sleep::Idle)
    };
    let told = |standby: u64| {
        let sleep = |of| match of < standby {
            true => Sleep::Standby,
            false => Sleep::SessionLock,
        };
        let looks: Vec<_> = (0..10).map(|of| at(of, sleep(of))).collect();
        served(&looks).slept.unwrap()
    };
    assert_eq!(told(3).sleep, Sleep::Standby);
    let locked = told(0);
    assert_eq!(locked.sleep, Sleep::SessionLock);
    let words = locked.words();
    assert!(words.ends_with(
        "at 10 of 10 looks; meanwhile in a transaction or at work: PID 9 of 10.0.0.7(4000), idle in \
         transaction"
    ), "{words}");
}

/// As of redis, whose threads beside the one that serves rest.
#[test]
fn tasks_that_never_run_serve_nobody() {
    let at = |of: u64, stirred: &[u32]| SleepLook {
        stirred: stirred.iter().copied().collect(),
        ..look(of * 100 + 25, Some(Sleep::Idle), Sleep::Lock)
    };
    let told = |stirred: &[u32]| {
        let looks: Vec<_> = (0..10).map(|of| at(of, stirred)).collect();
        let seen = served(&looks);
        (seen.slept.map(|slept| slept.sleep), seen.asleep_in)
    };
    assert_eq!(told(&[8]), (Some(Sleep::Idle), vec![]));
    assert_eq!(told(&[7, 8]), (None, vec![Sleep::Lock]));
}

#[test]
fn a_thread_that_runs_only_while_others_wait_is_named() {
    let at = |ms, ran: &[&str]| SleepLook {
        ran: ran.iter().map(|name| Name::from(*name)).collect(),
        ..look(ms, Some(Sleep::Lock), Sleep::Idle)
    };
    let told = |ran: &[&str], otherwise: &[&str]| {
        let during = (0..10).map(|of| at(of * 100 + 25, ran));
        let without = (0..10).map(|of| at(of * 100 + 75, otherwise));
        let looks: Vec<_> = during.chain(without).collect();
        served(&looks).ran.map(|ran| ran.words())
    };
    assert_eq!(
        told(&["GC Thread#0", "GC Thread#12"], &[]).as_deref(),
        Some("its thread GC Thread ran, at 10 of 10 looks: it collects garbage, as a rule")
    );
    assert_eq!(told(&["worker-1"], &["worker-7"]), None);
    assert_eq!(told(&[], &[]), None);
}

/// As of an event loop that another client's script, or a timer's work, keeps busy.
#[test]
fn who_works_until_it_answers_holds_no_question_for_news() {
    let alone = |ms: u64, sleep: Option<Sleep>| SleepLook {
        tasks: [(7, sleep.clone())].into_iter().collect(),
        ran: sleep
            .is_none()
            .then(|| "redis".into())
            .into_iter()
            .collect(),
        stirred: BTreeSet::from([7]),
        ..look(ms, None, Sleep::Idle)
    };
    let held_up = |during: &[Option<Sleep>], without: Option<Sleep>| {
        let during = (0..10).zip(during.iter().cycle());
        let during = during.map(|(of, sleep)| alone(of * 100 + 25, sleep.clone()));
        let without = (0..10).map(|of| alone(of * 100 + 75, without.clone()));
        served(&during.chain(without).collect::<Vec<_>>()).held_up
    };
    let idle = Some(Sleep::Idle);
    assert!(held_up(&[None, None], idle.clone()));
    // A broker that others keep as busy, and one that goes back to its event wait.
    assert!(!held_up(&[None, None], None));
    assert!(!held_up(&[None, idle.clone()], idle.clone()));
    let room = Some(Sleep::Room("10.0.0.9:40000".parse().unwrap()));
    assert!(held_up(&[room.clone(), room], idle.clone()));
    let nap = Some(Sleep::Timer);
    assert!(held_up(&[nap.clone(), nap], idle));
}

/// As of a chat whose tasks each read one client, and send to all.
#[test]
fn who_is_in_a_send_while_others_read_holds_no_question_for_news() {
    let room = || Some(Sleep::Room("10.0.0.9:40000".parse().unwrap()));
    let during = || (0..10).map(|of| look(of * 100 + 25, room(), Sleep::Idle));
    let without = |sleep: Option<Sleep>| {
        (0..10).map(move |of| look(of * 100 + 75, sleep.clone(), Sleep::Idle))
    };
    let held_up = |looks: Vec<SleepLook>| served(&looks).held_up;
    assert!(held_up(
        during().chain(without(Some(Sleep::Idle))).collect()
    ));
    // A download beside a poll goes on without it, or may.
    assert!(!held_up(during().chain(without(room())).collect()));
    assert!(!held_up(during().collect()));
}

/// As of a long poll whose program looks for news ten times a second.
#[test]
fn who_naps_again_and_again_waits_for_news() {
    let looks: Vec<_> = (0..10)
        .flat_map(|of| [15, 25, 35].map(|at| of * 100 + at))
        .map(|ms| SleepLook {
            tasks: [(7, Some(Sleep::Timer))].into_iter().collect(),
            stirred: BTreeSet::from([7]),
            ..look(ms, None, Sleep::Idle)
        })
        .collect();
    assert!(!served(&looks).held_up);
}

#[test]
fn a_tracer_is_named() {
    let look = |of: u64, tracer: Option<Name>| SleepLook {
        tracer,
        ..look(of * 100 + 25, None, Sleep::Lock)
    };
    let traced = (0..10)
        .map(|of| look(of, Some("strace".into())))
        .collect::<Vec<_>>();
    assert_eq!(served(&traced).tracer, Some("strace".into()));
    let once = (0..10).map(|of| look(of, (of == 1).then(|| "gdb".into())));
    assert_eq!(served(&once.collect::<Vec<_>>()).tracer, None);
}

/// As of an event loop that limits its rate: it sleeps until the moment at which it answers.
#[test]
fn a_timer_that_ends_with_the_wait_is_its_own() {
    let at = |ms: u64, after: u64| SleepLook {
        tasks: [(7, Some(Sleep::Idle))].into_iter().collect(),
        ends_after: [(7, Nanos(after * 1_000_000))].into_iter().collect(),
        ..look(ms, None, Sleep::Idle)
    };
    let told = |after: u64, otherwise: u64| {
        let during = (0..10).map(|of| at(of * 100 + 25, after));
        let without = (0..10).map(|of| at(of * 100 + 75, otherwise));
        let looks: Vec<_> = during.chain(without).collect();
        served(&looks).slept.map(|slept| slept.sleep)
    };
    assert_eq!(told(50, 60_000), Some(Sleep::Timer));
    assert_eq!(told(30, 60_000), Some(Sleep::Timer));
    // A timer that would end before the wait does, or after it, or that always ticks.
    assert_eq!(told(20, 60_000), Some(Sleep::Idle));
    assert_eq!(told(60_000, 60_000), Some(Sleep::Idle));
    assert_eq!(told(50, 50), Some(Sleep::Idle));
}

/// As of a pool of one thread, which sleeps for each request, beside others in locks.
#[test]
fn what_tasks_always_sleep_in_is_kept() {
    let looks: Vec<_> = (0..10)
        .map(|of| look(of * 100 + 25, Some(Sleep::Timer), Sleep::Lock))
        .collect();
    let seen = served(&looks);
    assert_eq!(seen.slept, None);
    assert_eq!(seen.asleep_in, [Sleep::Lock, Sleep::Timer]);
}

#[test]
fn a_service_behind_a_unix_socket_is_named_with_what_it_does() {
    let php = Sleep::Service("php-fpm".into(), "/run/php.sock".into());
    let at = |of: u64, theirs: Option<Sleep>| SleepLook {
        tasks: [(7, Some(php.clone()))].into_iter().collect(),
        theirs: vec![theirs],
        ..look(of * 100 + 25, None, Sleep::Idle)
    };
    let told = |theirs: Option<Sleep>| {
        let looks: Vec<_> = (0..10).map(|of| at(of, theirs.clone())).collect();
        served(&looks).slept.unwrap().words()
    };
    let known = "for php-fpm at the Unix socket /run/php.sock, at 10 of 10 looks";
    assert_eq!(told(Some(Sleep::Idle)), known);
    assert_eq!(told(None), format!("{known}; it runs meanwhile"));
    let disk = told(Some(Sleep::Disk));
    assert_eq!(
        disk,
        format!("{known}; its tasks sleep meanwhile: a disk or file system (state D)")
    );
}

/// The state of a task in /proc is the same for one that runs and one that waits for a CPU.
#[test]
fn a_thread_that_waits_for_a_cpu_does_not_run() {
    let at = |of: u64, is_ready: bool| {
        let name = vec![Name::from("worker")];
        let look = look(of * 100 + 25, Some(Sleep::Lock), Sleep::Idle);
        match is_ready {
            true => SleepLook {
                ready: name,
                ..look
            },
            false => SleepLook { ran: name, ..look },
        }
    };
    let told = |ready: u64| {
        let during = (0..10).map(|of| at(of, of < ready));
        let without = (0..10).map(|of| look(of * 100 + 75, Some(Sleep::Lock), Sleep::Idle));
        let looks: Vec<_> = during.chain(without).collect();
        served(&looks).ran.unwrap().words()
    };
    assert_eq!(
        told(10),
        "its thread worker waited for a CPU, at 10 of 10 looks"
    );
    let both = "its thread worker ran or waited for a CPU (that at 4), at 10 of 10 looks";
    assert_eq!(told(4), both);
}

#[test]
fn what_tasks_sleep_in_otherwise_is_not_what_they_wait_for() {
    let looks = |at: u64, sleep: Sleep, other: Sleep| {
        let look = move |of: u64| look(of * 100 + at, Some(sleep.clone()), other.clone());
        (0..10).map(look)
    };
    let during = |sleep, other| looks(25, sleep, other);
    let without = |sleep, other| looks(75, sleep, other);
    let told = |looks: Vec<_>| {
        served(&looks)
            .slept
            .map(|slept| (slept.sleep, slept.looks, slept.of))
    };
    let all = |sleep: Sleep| {
        let waits = during(sleep, Sleep::Lock);
        waits.chain(without(Sleep::Idle, Sleep::Lock)).collect()
    };
    assert_eq!(told(all(Sleep::Timer)), Some((Sleep::Timer, 10, 10)));
    assert_eq!(told(all(Sleep::Lock)), Some((Sleep::Lock, 10, 10)));
    assert_eq!(told(all(Sleep::Idle)), None);
    let peer = Sleep::Peer("10.0.0.9:5672".parse().unwrap());
    assert_eq!(told(all(peer.clone())), Some((peer, 10, 10)));
    // Without work it sleeps in the same lock.
    let pool = during(Sleep::Lock, Sleep::Lock).chain(without(Sleep::Lock, Sleep::Lock));
    assert_eq!(told(pool.collect()), None);
    // No look shows the task otherwise, and another one works on the request.
    let beside = during(Sleep::Lock, Sleep::Timer).chain([look(910, None, Sleep::Timer)]);
    assert_eq!(told(beside.collect()), None);
    let mixed = during(Sleep::Disk, Sleep::Timer).take(8);
    let mixed = mixed.chain([look(925, None, Sleep::Timer)]).collect();
    assert_eq!(told(mixed), Some((Sleep::Disk, 8, 9)));
    assert_eq!(
        told(during(Sleep::Disk, Sleep::Timer).take(2).collect()),
        None
    );
}

/// As of a pool of two threads, each with a connection that is kept open, and a third one that
/// waits for one of them.
#[test]
fn workers_that_clients_keep_are_named_where_others_wait() {
    let idle = |port: u16| SocketAddr::from(([10, 0, 0, 9], port));
    let look = |ms: u64, main: &Option<Sleep>, reads: &[SocketAddr]| SleepLook {
        tasks: [
            (7, main.clone()),
            (8, Some(Sleep::Idle)),
            (9, Some(Sleep::Idle)),
        ]
        .into(),
        reads: (8..).zip(reads.iter().copied()).collect(),
        stirred: BTreeSet::from([7, 8, 9]),
        ..SleepLook::new(7, Timestamp::from_nanos(ms * 1_000_000))
    };
    let told = |root, main: Option<Sleep>, reads: &[SocketAddr]| {
        let looks: Vec<_> = (0..10)
            .map(|of| look(of * 100 + 25, &main, reads))
            .collect();
        let slept = seen_of(root, &looks).slept;
        slept.is_some_and(|slept| slept.sleep == Sleep::IdleClients(2))
    };
    let two = [idle(1), idle(2)];
    assert!(told(Node::Read, Some(Sleep::Accept), &two));
    assert!(told(Node::Accept, Some(Sleep::Lock), &two));
    // A task that accepts has room; one that works is not kept; one reads the very connection.
    assert!(!told(Node::Accept, Some(Sleep::Accept), &two));
    assert!(!told(Node::Read, None, &two));
    assert!(!told(Node::Read, Some(Sleep::Disk), &two));
    assert!(!told(Node::Service, Some(Sleep::Accept), &two));
    let own = canonical(fixture::message(Direction::Tx).flow.remote);
    assert!(!told(Node::Read, Some(Sleep::Accept), &[idle(1), own]));
}

/// As of a database with a process for each connection, whose client asks again at once.
#[test]
fn the_only_task_of_a_process_works_for_its_waits() {
    let told = |tasks: u32| {
        let looks: Vec<_> = (0..10)
            .map(|of| SleepLook {
                tasks: (7..7 + tasks).map(|task| (task, None)).collect(),
                ran: vec!["postgres".into()],
                ..look(of * 100 + 25, None, Sleep::Idle)
            })
            .collect();
        served(&looks).ran.map(|ran| ran.looks)
    };
    assert_eq!(told(1), Some(10));
    assert_eq!(told(2), None);
}

/// As of an event loop that waits a while before each answer, and has a timer of its own beside.
#[test]
fn timers_are_due_when_waits_end_or_are_not() {
    let at = |ms: u64, after: u64| SleepLook {
        tasks: [(7, Some(Sleep::Idle))].into(),
        ends_after: [(7, Nanos(after * 1_000_000))].into(),
        stirred: BTreeSet::from([7]),
        ..SleepLook::new(7, Timestamp::from_nanos(ms * 1_000_000))
    };
    let told = |after: u64| {
        let looks = (0..10).flat_map(|of| [at(of * 100 + 5, after), at(of * 100 + 20, after)]);
        let seen = served(&looks.collect::<Vec<_>>());
        (seen.slept.map(|slept| slept.words()), seen.has_no_timer)
    };
    let (words, has_none) = told(40);
    assert_eq!(
        words.as_deref(),
        Some(
            "a timer of their own (sleep, a rate limit), that mostly ends such a wait after 50.0 ms, \
             at 20 of 20 looks"
        )
    );
    assert!(!has_none);
    assert!(told(700).1);
}

/// As of php-fpm with two children, and ten requests at once.
#[test]
fn processes_of_one_task_are_too_few_for_more_questions() {
    let flow = fixture::message(Direction::Tx).flow;
    let there = |pid| There {
        process: Some((pid, "php-fpm".into())),
        netns: None,
    };
    let wait = |of: u64| Slow {
        key: Key::new(Node::Answer, "nginx".into(), Role::Asks, &flow),
        flow,
        pid: 3,
        is_new: true,
        begin: of * 10_000_000,
        end: of * 10_000_000 + 500_000_000,
        weight: 1,
        parts: Parts::divide(500_000_000, [], Node::AnswerPeer),
        how: End::Data,
        seen: Seen {
            there: Some(there(8 + u32::from(of.is_multiple_of(2)))),
            ..Seen::default()
        },
    };
    let told = |sleep: Sleep, waits: u64| {
        let mut waits: Vec<_> = (0..waits).map(wait).collect();
        let look = |(of, pid): (u64, u32)| SleepLook {
            tasks: [(pid, Some(sleep.clone()))].into(),
            stirred: BTreeSet::from([pid]),
            ..SleepLook::new(pid, Timestamp::from_nanos(of * 40_000_000 + 20_000_000))
        };
        let looks: Vec<_> = (0..10)
            .flat_map(|of| [(of, 8), (of, 9)])
            .map(look)
            .collect();
        let open = vec![false; waits.len()];
        note(&mut waits, &open, &looks);
        waits[0].seen.few
    };
    let few = Few {
        workers: 2,
        questions: 10,
    };
    assert_eq!(told(Sleep::Timer, 10), Some(few));
    assert_eq!(told(Sleep::Timer, 2), None);
    // Event loops have any number of questions at once.
    assert_eq!(told(Sleep::Idle, 10), None);
}

/// As of a master (process 7) that started three workers, whose clients keep their connections, and
/// a program for its logs.
#[test]
fn workers_that_who_listens_has_started_are_kept() {
    let flow = fixture::message(Direction::Rx).flow;
    let mut waits = [Slow {
        key: Key::new(Node::Accept, "web".into(), Role::Serves, &flow),
        flow,
        pid: 7,
        is_new: true,
        begin: 0,
        end: 5_000_000_000,
        weight: 1,
        parts: Parts::divide(5_000_000_000, [], Node::Accept),
        how: End::Open,
        seen: Seen::default(),
    }];
    let client = SocketAddr::from(([10, 0, 0, 9], 40_000));
    let look = |of: u64, pid, sleep: Sleep, reads: &[SocketAddr]| SleepLook {
        parent: Some(if pid == 7 { 1 } else { 7 }),
        tasks: [(pid, Some(sleep))].into(),
        reads: reads.iter().map(|read| (pid, *read)).collect(),
        ..SleepLook::new(pid, Timestamp::from_nanos(of * 100_000_000))
    };
    let mut told = |kept: u32| {
        let looks: Vec<_> = (1..20)
            .flat_map(|of| {
                let workers = (10..15).map(move |pid| match pid < 10 + kept {
                    true => look(of, pid, Sleep::Client(client.ip()), &[client]),
                    false => look(of, pid, Sleep::Accept, &[]),
                });
                workers.chain([look(of, 7, Sleep::Idle, &[])])
            })
            .collect();
        note(&mut waits, &[false], &looks);
        let slept = waits[0].seen.slept.clone();
        slept.map(|slept| slept.sleep)
    };
    assert_eq!(told(4), Some(Sleep::IdleClients(4)));
    assert_ne!(told(3), Some(Sleep::IdleClients(3)));
}
