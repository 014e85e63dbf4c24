//! Screens as they are seen: keys in, text out, compared with the files in `screens/`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};
use ratatui::text::Text;
use sockstamp_bpf::stuck::{Look, Open};
use sockstamp_explain::diagnosis::{Case, Scope};
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::flow::{CgroupId, Flow, Opened, Protocol, SocketCookie};
use sockstamp_model::group::GroupKey;
use sockstamp_model::name::Name;
use sockstamp_model::wait::{End, Evidence, Kind, Wait, Waits};
use sockstamp_print::interfaces::own_namespace;

use super::app::{Action, App};
use super::paint::Paint;
use super::sample;
use super::screen::{self, Keys};
use super::svg;
use super::table::Key;

const NARROW: Size = Size::new(60, 20);
const SMALL: Size = Size::new(80, 24);
/// The narrowest in which flows show their local address.
const MEDIUM: Size = Size::new(120, 40);
const LARGE: Size = Size::new(160, 50);
const PLAIN: Paint = Paint { colours: false };
const COLOURED: Paint = Paint { colours: true };

fn press(app: &mut App, keys: &str) -> Action {
    let mut action = Action::Nothing;
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            c => KeyCode::Char(c),
        };
        action = app.on_key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    action
}

fn draw(app: &App, size: Size, paint: Paint) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(size.width, size.height)).unwrap();
    let text = Text::from(screen::lines(app, size, paint, Keys::Shown));
    terminal
        .draw(|frame| frame.render_widget(&text, frame.area()))
        .unwrap();
    terminal.backend().clone()
}

/// Return the screen as text, without blanks at the ends of lines.
fn seen(app: &App, size: Size) -> String {
    let backend = draw(app, size, PLAIN);
    let buffer = backend.buffer();
    let mut text = String::new();
    for y in 0..size.height {
        let mut line = String::new();
        for x in 0..size.width {
            line.push_str(buffer[(x, y)].symbol());
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Compare with a file of `screens/`.
#[track_caller]
fn assert_screen(name: &str, app: &App, size: Size) {
    assert_file(&format!("src/screens/{name}.txt"), &seen(app, size));
}

/// Compare with a file of this crate. With UPDATE_SCREENS set, write the file instead: its diff is
/// then to be read.
#[track_caller]
fn assert_file(name: &str, now: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if env::var_os("UPDATE_SCREENS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, now).unwrap();
    }
    let was = fs::read_to_string(&path).unwrap_or_default();
    assert!(now == was, "{name} is now:\n{now}\nand was:\n{was}");
}

/// Into the flows of redis, with messages and a whole interval.
fn drilled() -> App {
    let mut app = sample::app();
    assert_eq!(press(&mut app, "s\n"), Action::Refresh);
    let (_, mut now) = sample::snapshots();
    for _ in 0..2 {
        now.summary.duration.0 += 2_000_000_000;
        app.on_snapshot(now.clone());
        for message in sample::messages() {
            app.on_message(&sample::redis(), message);
        }
    }
    now.summary.duration.0 += 2_000_000_000;
    app.on_snapshot(now);
    app
}

#[test]
fn the_screen_of_groups_fits_each_size() {
    assert_screen("groups-60x20", &sample::app(), NARROW);
    assert_screen("groups-80x24", &sample::app(), SMALL);
    assert_screen("groups-120x40", &sample::app(), MEDIUM);
    assert_screen("groups-160x50", &sample::app(), LARGE);
}

#[test]
fn the_image_in_the_readme_is_the_coloured_screen_of_groups() {
    let screen = draw(&sample::app(), SMALL, COLOURED);
    let image = svg::image(screen.buffer(), "sockstamp top: groups and their stages");
    assert_file("../../docs/top.svg", &image);
}

#[test]
fn cells_show_medians_and_shares() {
    let mut app = sample::app();
    press(&mut app, "p");
    assert_screen("shares-80x24", &app, SMALL);
    press(&mut app, "p");
    assert!(seen(&app, SMALL).contains("  p50 of 2.0s  "));
}

#[test]
fn the_screen_of_flows_shows_the_last_interval() {
    assert_screen("flows-80x24", &drilled(), SMALL);
    assert_screen("flows-120x40", &drilled(), MEDIUM);
}

/// Columns are aligned to the right, so a blank follows the end of each.
#[test]
fn no_two_cells_of_a_table_touch() {
    for (app, name) in [(sample::app(), "group"), (drilled(), "flow")] {
        for size in [SMALL, MEDIUM, LARGE] {
            let screen = seen(&app, size);
            let lines: Vec<Vec<char>> = screen.lines().map(|line| line.chars().collect()).collect();
            let is_head =
                |line: &Vec<char>| line.iter().collect::<String>().trim().starts_with(name);
            let place = lines.iter().position(is_head).unwrap();
            let head = &lines[place];
            let ends: Vec<usize> = (name.len() + 3..head.len())
                .filter(|end| head[end - 1] != ' ' && head[*end] == ' ')
                .collect();
            assert!(ends.len() >= 6, "{screen}");
            let rows = lines[place + 1..]
                .iter()
                .take_while(|line| !line.is_empty());
            for row in rows {
                assert!(
                    ends.iter().all(|end| row.get(*end) == Some(&' ')),
                    "{screen}\n{ends:?}"
                );
            }
        }
    }
}

#[test]
fn messages_are_drawn_as_waterfalls() {
    let mut app = drilled();
    press(&mut app, "\n↓");
    assert_screen("messages-80x24", &app, SMALL);
    assert_screen("messages-160x50", &app, LARGE);
}

#[test]
fn overlays_show_keys_and_counters() {
    let mut app = sample::app();
    press(&mut app, "?");
    assert_screen("help-80x24", &app, SMALL);
    press(&mut app, "v");
    let screen = seen(&app, SMALL);
    for line in [
        "           11  hol: The ",
        "            3  in flight",
        "            2  evicted",
        "            0  ring",
    ] {
        assert!(screen.contains(line), "{line}\n{screen}");
    }
    press(&mut app, "x");
    assert_eq!(seen(&app, SMALL), seen(&sample::app(), SMALL));
}

/// A question to redis' port that is open for a minute.
fn unanswered(number: u64) -> Wait {
    Wait {
        kind: Kind::Answer,
        flow: Flow {
            netns: own_namespace(),
            protocol: Protocol::Tcp,
            local: "10.0.0.1:40000".parse().unwrap(),
            remote: "10.0.0.2:6379".parse().unwrap(),
            cookie: SocketCookie(number),
        },
        opened: Some(Opened::Connected),
        cgroup: CgroupId(0),
        pid: 7,
        comm: Name::from("redis-server"),
        since: Timestamp::from_nanos(number * 1_000_000_000),
        lasted: Nanos::from_millis(60_000),
        inside: Nanos::from_millis(60_000),
        end: End::Open,
        members: 1,
        bytes: 40,
        evidence: Evidence::default(),
    }
}

#[test]
fn a_page_lists_what_waits_now() {
    let mut app = sample::app();
    assert!(!app.lacks_page());
    press(&mut app, "W");
    assert!(app.lacks_page());
    app.on_look(Look {
        open: vec![Open {
            wait: unanswered(1),
            at_least: false,
            or_pushed_to: false,
        }],
        visited: 86,
        ..Look::default()
    });
    assert!(!app.lacks_page());
    let screen = seen(&app, LARGE);
    for line in [
        "   60.0 s  7/redis-server          waits for an answer of 10.0.0.2:6379: 40 B",
        " 1 wait of 40.0 µs or longer on 86 TCP sockets; open questions",
    ] {
        assert!(screen.contains(line), "{line}\n{screen}");
    }
    // The page looks anew, unless the picture is held.
    app.on_look(Look::default());
    assert!(seen(&app, LARGE).contains("nothing waits 40.0 µs or longer on 0 TCP sockets"));
    press(&mut app, "x W");
    app.on_look(Look::default());
    app.on_look(Look {
        visited: 7,
        ..Look::default()
    });
    assert!(seen(&app, LARGE).contains("on 0 TCP sockets"));
}

#[test]
fn the_page_of_counters_begins_with_the_findings_of_the_selected_group() {
    let mut case = Case::new(Scope::default());
    case.waits(&Waits {
        list: (0..3).map(unanswered).collect(),
        untold: 7,
        ..Waits::default()
    });
    let mut app = sample::app();
    let summary = app.summary().unwrap().clone();
    let diagnosis = case.diagnose(&summary);
    let sentence = diagnosis.findings[0].sentence.clone();
    assert!(sentence.contains("10.0.0.2:6379"), "{sentence}");
    let begin: String = sentence.chars().take(40).collect();
    let told = format!(" diagnosis: {begin}");
    let page = |app: &mut App| {
        press(app, "v");
        assert!(app.lacks_page());
        app.on_diagnosis(diagnosis.clone());
        let screen = seen(app, LARGE);
        press(app, "x");
        screen
    };
    assert!(page(&mut app).contains(&told));
    assert!(page(&mut app).contains(" note: 7 counts of quick waits"));
    let mut selected = BTreeSet::new();
    for key in ["↓", "↑"] {
        press(&mut app, key);
        let is_redis = app.rows()[app.cursor()].key == Key::Group(sample::redis());
        assert_eq!(page(&mut app).contains(&told), is_redis);
        selected.insert(is_redis);
    }
    assert_eq!(selected.len(), 2);
}

#[test]
fn the_first_screen_says_that_nothing_came_yet() {
    assert_screen(
        "nothing-80x24",
        &App::new(
            "comm,port".parse().unwrap(),
            Duration::from_secs(1),
            Nanos::ZERO,
        ),
        SMALL,
    );
}

#[test]
fn a_narrow_screen_wraps_the_help() {
    let mut app = sample::app();
    press(&mut app, "?");
    let narrow = seen(&app, Size::new(NARROW.width, 40));
    let narrow = narrow.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        " to the ends",
        " reverse",
        " from which time on.",
        " with its weight.",
    ] {
        assert!(narrow.contains(words), "{words}: {narrow}");
    }
}

#[test]
fn every_size_can_be_drawn() {
    let mut app = drilled();
    for keys in ["", "\n", "?", "v", "x\x1b\x1b", "/re"] {
        press(&mut app, keys);
        for width in [1, 2, 10, 40, 79, 200] {
            for height in [1, 3, 5, 12, 23, 60] {
                seen(&app, Size::new(width, height));
            }
        }
    }
}

#[test]
fn orders_are_gone_through_and_back() {
    let mut app = sample::app();
    let first = |app: &App| app.rows()[0].name.clone();
    assert_eq!(first(&app), "rsync 873");
    press(&mut app, "s");
    assert_eq!(
        (app.order.name(), first(&app)),
        ("messages", "redis-server 6379".to_owned())
    );
    press(&mut app, "r");
    assert_eq!(first(&app), "rsync 873");
    press(&mut app, "rSS");
    assert_eq!(
        (app.order.name(), first(&app)),
        ("name", "nginx: worker process 443".to_owned())
    );
    // The sum of messages without a slot is last in any order.
    for _ in 0..20 {
        assert_eq!(app.rows().last().unwrap().name, "other");
        press(&mut app, "s");
    }
}

#[test]
fn the_filter_is_typed_kept_and_cleared() {
    let mut app = sample::app();
    press(&mut app, "/REX\x08d");
    assert!(seen(&app, SMALL).contains("filter: REd"));
    let names = |app: &App| {
        app.rows()
            .into_iter()
            .map(|row| row.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&app), ["redis-server 6379", "other"]);
    press(&mut app, "\n");
    assert!(seen(&app, SMALL).contains("/REd"));
    press(&mut app, "\x1b");
    assert_eq!(names(&app).len(), 4);
}

#[test]
fn the_cursor_stays_on_its_group() {
    let mut app = sample::app();
    press(&mut app, "↓");
    assert_eq!(app.rows()[app.cursor()].name, "redis-server 6379");
    press(&mut app, "s");
    assert_eq!(app.cursor(), 0);
    press(&mut app, "↓↓↓↓↓↓");
    assert_eq!(app.cursor(), 3);
    press(&mut app, "g");
    assert_eq!(app.cursor(), 0);
}

#[test]
fn the_row_other_has_flows_and_ended_groups_have_none() {
    let mut app = sample::app();
    press(&mut app, "G\n");
    app.on_message(&GroupKey::default(), sample::message(1));
    let (_, mut now) = sample::snapshots();
    now.groups.ended = now.groups.other.clone();
    app.on_snapshot(now.clone());
    app.on_snapshot(now);
    assert!(seen(&app, SMALL).contains("flows of other") && app.rows().len() == 1);
    press(&mut app, "\x1bG\n");
    assert!(seen(&app, SMALL).contains("no flows to show"));
    assert!(!app.wants_messages());
}

#[test]
fn a_held_picture_does_not_move() {
    let mut app = sample::app();
    let picture = seen(&app, SMALL);
    press(&mut app, " ");
    let (_, mut now) = sample::snapshots();
    now.summary.duration.0 *= 2;
    now.groups.groups[0].tx.messages *= 3;
    app.on_snapshot(now.clone());
    assert_eq!(seen(&app, SMALL).replace("  PAUSED", ""), picture);
    // The interval in which it was let go is not a whole one.
    assert_eq!(press(&mut app, " "), Action::Refresh);
    app.on_snapshot(now.clone());
    assert_eq!(seen(&app, SMALL), picture);
    now.summary.duration.0 += 2_000_000_000;
    now.groups.groups[0].tx.messages += 14;
    app.on_snapshot(now);
    assert_eq!(app.rows().iter().map(|row| row.tx.messages).sum::<u64>(), 7);
}

#[test]
fn messages_are_wanted_only_while_they_are_looked_at() {
    let mut app = sample::app();
    assert!(!app.wants_messages());
    press(&mut app, "\n\n");
    assert!(app.wants_messages());
    press(&mut app, "\x1b\x1b");
    assert!(!app.wants_messages());
    press(&mut app, "v");
    assert!(app.wants_messages());
}

#[test]
fn messages_are_sorted_by_their_total() {
    let mut app = drilled();
    press(&mut app, "\ns");
    let totals: Vec<_> = app
        .messages()
        .iter()
        .map(|entry| entry.message.total())
        .collect();
    assert!(
        totals.len() > 5 && totals.is_sorted_by(|a, b| a >= b),
        "{totals:?}"
    );
}

#[test]
fn control_keys_work_everywhere() {
    let mut app = sample::app();
    press(&mut app, "/");
    let mut control = |c| app.on_key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
    assert_eq!(control('c'), Action::Quit);
    assert_eq!(control('z'), Action::Suspend);
    assert_eq!(control('l'), Action::Redraw);
    assert_eq!(press(&mut sample::app(), "q"), Action::Quit);
}

#[test]
fn no_colour_is_no_colour() {
    let mut app = drilled();
    for keys in ["", "\n", "?", "v", "x\x1b\x1b"] {
        press(&mut app, keys);
        for cell in draw(&app, SMALL, PLAIN).buffer().content() {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        }
    }
    let coloured = draw(&app, SMALL, COLOURED);
    let alarms = coloured
        .buffer()
        .content()
        .iter()
        .filter(|cell| cell.fg == Color::Red);
    assert!(alarms.count() > 4);
    let plain = draw(&app, SMALL, PLAIN);
    let selected = plain.buffer().content().iter();
    assert!(
        selected
            .filter(|cell| cell.modifier.contains(Modifier::REVERSED))
            .count()
            >= 80
    );
}

fn function(app: &mut App, number: u8) -> Action {
    app.on_key(KeyEvent::new(KeyCode::F(number), KeyModifiers::NONE))
}

#[test]
fn function_keys_are_those_of_htop() {
    let mut app = sample::app();
    function(&mut app, 3);
    assert!(app.editing);
    press(&mut app, "\x1b");
    let order = app.order;
    function(&mut app, 6);
    assert_ne!(app.order, order);
    function(&mut app, 1);
    assert!(seen(&app, SMALL).contains("help, /, s and quit, as in htop"));
    assert_eq!(function(&mut app, 10), Action::Quit);
}

#[test]
fn a_page_that_is_too_long_scrolls_to_its_end_and_back() {
    let mut app = sample::app();
    press(&mut app, "v");
    let whole = seen(&app, Size::new(80, 60));
    let last = whole
        .lines()
        .rfind(|line| line.contains("ended for new ones"));
    let short = Size::new(60, 16);
    let first = seen(&app, short);
    assert!(first.contains(" … more: ↓ PgDn"), "{first}");
    press(&mut app, "G");
    let end = seen(&app, short);
    assert!(
        !end.contains("more:") && end.contains("ended for"),
        "{last:?}: {end}"
    );
    app.on_wheel(false);
    assert_ne!(seen(&app, short), end);
    press(&mut app, "g");
    assert_eq!(seen(&app, short), first);
    press(&mut app, "x");
    assert!(app.page.is_none());
}

#[test]
fn the_wheel_moves_among_rows() {
    let mut app = sample::app();
    press(&mut app, "↓");
    app.on_wheel(true);
    assert!(app.cursor() > 1);
    app.on_wheel(false);
    assert_eq!(app.cursor(), 0);
}

#[test]
fn keys_change_the_interval_within_its_limits() {
    let mut app = sample::app();
    let interval = app.interval;
    assert_eq!(press(&mut app, "+"), Action::Refresh);
    assert_eq!(app.interval, interval * 2);
    press(&mut app, &"-".repeat(20));
    assert_eq!(app.interval, Duration::from_millis(100));
    press(&mut app, &"+".repeat(30));
    assert_eq!(app.interval, Duration::from_secs(3600));
}

#[test]
fn a_key_leads_through_the_groupings() {
    let mut app = sample::app();
    let by = app.by.clone();
    assert_eq!(press(&mut app, "b"), Action::Regroup);
    assert_ne!(app.by, by);
    assert!(app.rows().is_empty());
    press(&mut app, "bbbb");
    assert_eq!(app.by, by);
}
