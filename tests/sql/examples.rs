//! The SQL that docs/recordings.md shows, and what `report` answers.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sockstamp_model::message::Message;
use with::recording;

use crate::answers::{Question, figure, told};
use crate::in_vain;

/// Return the SQL that a page of the documentation shows, block by block.
fn published(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(page);
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("```sql\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

/// The examples of docs/recordings.md. Rows have weights from one to three.
pub fn examples(directory: &Path) -> Question {
    let messages = recording::population(5_000);
    let file = directory.join("examples.parquet");
    recording::write(&file, &messages);
    let waits = directory.join("examples.waits");
    in_vain::write(&waits);
    let report = told("report", &file);
    // Groups of `report` have no stages: each process has a recording of its own.
    let mut of_processes: Vec<(String, Value)> = Vec::new();
    for name in [recording::HOSTILE, "nginx", "worker"] {
        let own = messages.iter().filter(|message| message.comm == name);
        let own: Vec<Message> = own.cloned().collect();
        let path = directory.join(format!("process-{}", of_processes.len()));
        recording::write(&path, &own);
        of_processes.push((name.to_owned(), told("report", &path)));
    }
    // One packet of each message that was sent.
    let packets = directory.join("packets.sql");
    let sql = "CREATE VIEW packets AS SELECT time_ns, bytes AS length, 1000 AS sched_ns,
        3000 AS driver_ns, cookie AS message_cookie, time_ns AS message_time_ns, direction
        FROM recording;";
    fs::write(&packets, sql).unwrap();
    let blocks = published("recordings.md");
    assert_eq!(blocks.len(), 3, "each is asked here: {blocks:?}");
    let files: Vec<PathBuf> = (blocks.iter().enumerate())
        .map(|(number, block)| {
            let path = directory.join(format!("example-{number}.sql"));
            fs::write(&path, block).unwrap();
            path
        })
        .collect();
    let paths = std::iter::once(&packets).chain(&files);
    let paths: Vec<&str> = paths.map(|path| path.to_str().unwrap()).collect();
    let views = vec![("recording", file), ("waits", waits)];
    Question::new(views, &paths, move |tables| {
        let [slowest_sends, in_vain, queued, slowest_answers] = tables.as_slice() else {
            panic!("{tables:?}");
        };
        let asked = in_vain::asked(in_vain);
        assert_eq!(asked.len(), in_vain.len());
        assert_eq!(asked, in_vain::reported(&report));
        assert_eq!((slowest_sends.len(), slowest_answers.len()), (20, 10));
        let longest =
            |stage: &str, direction: &str| figure(&report[direction]["stages"][stage]["max_ns"]);
        assert_eq!(
            figure(&slowest_sends[0]["tx_queue_ns"]),
            longest("tx.queue", "tx")
        );
        assert_eq!(figure(&slowest_sends[0]["qdisc"]), 2000.0);
        assert_eq!(
            figure(&slowest_answers[0]["peer_answer_ns"]),
            longest("peer.answer", "rx")
        );
        assert_eq!(queued.len(), of_processes.len());
        for (comm, report) in of_processes {
            let row = queued.iter().find(|row| row["comm"] == *comm).unwrap();
            let reported = &report["tx"]["stages"]["tx.qdisc"];
            assert_eq!(
                figure(&row["messages"]),
                figure(&reported["count"]),
                "{comm}"
            );
            let off = figure(&row["p99_ns"]) / figure(&reported["p99_ns"]);
            assert!((0.955..1.046).contains(&off), "{row} {reported}");
        }
    })
}
