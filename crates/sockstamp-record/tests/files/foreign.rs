//! Files of other programs, and of earlier ones.

use super::*;

#[test]
fn other_files_are_refused() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "PAR1".repeat(10_000)).unwrap();
    assert!(matches!(
        Reader::open(&path),
        Err(Error::NoFooter { length: 40_000, .. })
    ));
    assert!(matches!(
        Reader::open(directory.path()),
        Err(Error::Foreign { .. })
    ));
}

/// Return the reason why a file is refused, with its name.
fn refusal(path: &Path) -> String {
    match Reader::open(path) {
        Err(error @ Error::Foreign { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Write a Parquet file of another program: these columns, with these facts, without rows.
fn foreign(path: &Path, schema: &str, facts: &[(&str, &str)]) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let facts = facts
        .iter()
        .map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned()));
    let properties = WriterProperties::builder().set_key_value_metadata(Some(facts.collect()));
    let file = fs::File::create(path).unwrap();
    let writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build())).unwrap();
    writer.close().unwrap();
}

/// Return our columns in Parquet's language, each as `change` has it.
fn schema(change: impl Fn(&str, String) -> String) -> String {
    let columns = columns().into_iter().map(|column| {
        let repetition = if column.optional {
            "optional"
        } else {
            "required"
        };
        let (kind, annotation) = match column.kind {
            Kind::Integer => ("int64", ""),
            Kind::Flag => ("boolean", ""),
            Kind::Text => ("binary", " (utf8)"),
            Kind::Bytes => ("binary", ""),
        };
        let line = format!("{repetition} {kind} {}{annotation};", column.name);
        change(&column.name, line)
    });
    format!("message message {{ {} }}", columns.collect::<String>())
}

#[test]
fn files_of_other_programs_are_refused_with_the_reason() {
    const VERSION: (&str, &str) = ("sockstamp.schema", "1");
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let ours = |_: &str, line: String| line;
    for (schema, facts, reason) in [
        (
            "message other { required int64 id; optional double price; }".to_owned(),
            &[][..],
            "it is a Parquet file, but no recording of sockstamp: it has no column direction",
        ),
        (
            schema(ours),
            &[("sockstamp.schema", "2")],
            "its columns have version \"2\"; this sockstamp reads version 1",
        ),
        (
            schema(|name, line| {
                if name == "weight" {
                    String::new()
                } else {
                    line
                }
            }),
            &[VERSION],
            "it has no column weight",
        ),
        (
            schema(|_, line| line.replace("int64 time_ns", "double time_ns")),
            &[VERSION],
            "its column time_ns has another type: DOUBLE, and not INT64",
        ),
        (
            schema(|_, line| line.replace("optional int64 cpu", "repeated int64 cpu")),
            &[VERSION],
            "its column cpu has several values in a row",
        ),
    ] {
        foreign(&path, &schema, facts);
        assert_eq!(refusal(&path), format!("{}: {reason}", path.display()));
    }
    // Columns that a later program added are passed over.
    let more = |name: &str, line: String| match name {
        "bytes" => format!("{line} optional group more {{ required double one; }}"),
        _ => line,
    };
    foreign(&path, &schema(more), &[VERSION]);
    assert_eq!(read(&path).unwrap(), []);
}

/// Programs that write the rows anew leave our facts out, and say of each column that rows may lack
/// it.
#[test]
fn a_copy_without_our_facts_is_read_by_its_columns() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let copied = |_: &str, line: String| line.replace("required", "optional");
    foreign(&path, &schema(copied), &[]);
    assert_eq!(read(&path).unwrap(), []);
}

/// Written before there were the columns `container`, `opened` and `cpu`.
#[test]
fn a_file_of_an_earlier_program_is_read() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/without-containers.parquet");
    let messages: Vec<_> = (0..3).map(message).collect();
    assert_eq!(sorted(read(&file).unwrap()), sorted(messages));
}

#[test]
fn a_container_of_another_form_is_an_impossible_value() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let mut named = message(1);
    named.container = "nginx.service".parse().ok().map(Arc::new);
    let mut writer = Writer::create(&path, &[]).unwrap();
    writer.write(&batch(&[named])).unwrap();
    writer.finish().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let name = b"nginx.service";
    let place = bytes
        .windows(name.len())
        .position(|bytes| bytes == name)
        .unwrap();
    bytes[place..place + name.len()].copy_from_slice(b"nginx_service");
    fs::write(&path, bytes).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(
        error.contains("column container: it has an impossible value"),
        "{error}"
    );
}
