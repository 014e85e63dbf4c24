//! A JSON value compared with its JSON Schema: the keywords that docs/json uses.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

/// The keywords that are understood; any other would be ignored by mistake.
const KEYWORDS: [&str; 11] = [
    "$schema",
    "title",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "minimum",
    "$ref",
    "$defs",
];

/// Read the schema of this name in docs/json.
#[must_use]
pub fn schema(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/json");
    let text = fs::read(folder.join(name).with_extension("schema.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Return what does not fit, by its place in the value; nothing if all does. A key that the schema
/// does not have is told, too: readers would look for it in vain.
#[must_use]
pub fn misfits(schema: &Value, value: &Value) -> Vec<String> {
    let mut comparison = Comparison {
        root: schema,
        misfits: Vec::new(),
    };
    comparison.compare(schema, value, "$");
    comparison.misfits
}

struct Comparison<'a> {
    root: &'a Value,
    misfits: Vec<String>,
}

impl Comparison<'_> {
    fn compare(&mut self, schema: &Value, value: &Value, place: &str) {
        let Value::Object(schema) = schema else {
            return;
        };
        if let Some(Value::String(to)) = schema.get("$ref") {
            let to = self.root.pointer(to.trim_start_matches('#'));
            return self.compare(&to.unwrap().clone(), value, place);
        }
        // An empty schema allows anything.
        if schema.is_empty() {
            return;
        }
        for keyword in schema.keys() {
            assert!(KEYWORDS.contains(&keyword.as_str()), "{keyword}");
        }
        let types: Vec<&str> = match schema.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !types.is_empty() && !types.iter().any(|name| is_a(value, name)) {
            self.misfits
                .push(format!("{place}: {value} is no {}", types.join(" or ")));
            return;
        }
        if let Some(Value::Array(values)) = schema.get("enum")
            && !values.contains(value)
        {
            self.misfits
                .push(format!("{place}: {value} is none of {values:?}"));
        }
        if let Some(least) = schema.get("minimum").and_then(Value::as_f64)
            && value.as_f64().is_some_and(|number| number < least)
        {
            self.misfits
                .push(format!("{place}: {value} is below {least}"));
        }
        match value {
            Value::Object(object) => self.compare_object(schema, object, place),
            Value::Array(array) => {
                let items = schema.get("items").unwrap_or(&Value::Null);
                for (index, item) in array.iter().enumerate() {
                    self.compare(items, item, &format!("{place}[{index}]"));
                }
            }
            _ => {}
        }
    }

    fn compare_object(
        &mut self,
        schema: &Map<String, Value>,
        object: &Map<String, Value>,
        place: &str,
    ) {
        let required = schema.get("required").and_then(Value::as_array);
        for key in required.into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(key) {
                self.misfits.push(format!("{place}: {key} is missing"));
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        for (key, value) in object {
            let known = properties.and_then(|properties| properties.get(key));
            match known.or(others) {
                Some(of_value) => self.compare(of_value, value, &format!("{place}.{key}")),
                None => self
                    .misfits
                    .push(format!("{place}: {key} is not in the schema")),
            }
        }
    }
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64() || is_whole(value),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => panic!("{name} is no type"),
    }
}

/// Sums are up to 128 bits, which a parser may keep as a float.
fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0)
}
