//! The machine on hand-written pickles.

use super::caps::MAX_PICKLE_MARK_DEPTH;
use super::*;
use crate::error::AnamnesisError;
use crate::limits::{Budget, ParseLimits};

/// Accepts and records all globals.
#[derive(Default)]
struct Everything(Vec<(String, String, usize)>);

impl Watcher for Everything {
    fn global(&mut self, module: &str, name: &str, position: usize) -> Result<()> {
        self.0.push((module.to_owned(), name.to_owned(), position));
        Ok(())
    }
}

fn with<T>(bytes: &[u8], look: impl FnOnce(&Pickle<'_>) -> T) -> T {
    let mut budget = Budget::new(&ParseLimits::unbounded());
    look(&read(bytes, &mut Everything::default(), &mut budget).unwrap())
}

fn globals(bytes: &[u8]) -> Vec<(String, String, usize)> {
    let mut everything = Everything::default();
    let _ = read(bytes, &mut everything, &mut Budget::new(&ParseLimits::unbounded()));
    everything.0
}

fn error(bytes: &[u8]) -> AnamnesisError {
    let mut budget = Budget::new(&ParseLimits::unbounded());
    read(bytes, &mut Everything::default(), &mut budget).unwrap_err()
}

/// A value as text.
fn shown(values: &PickleValues<'_>, id: Id) -> String {
    let list = |items: &[Id]| items.iter().map(|&item| shown(values, item)).collect::<Vec<_>>().join(",");
    match values.get(id) {
        Value::None => "None".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Long => format!("{:?}", values.wide_int(id)),
        Value::Float => "float".into(),
        Value::Text(text) => format!("{text:?}"),
        Value::Bytes => "bytes".into(),
        Value::Tuple(items) => format!("({})", list(items)),
        Value::List(items) => format!("[{}]", list(items)),
        Value::Set => "set".into(),
        Value::Dict(entries) => {
            let entries =
                entries.iter().map(|&(key, value)| format!("{}:{}", shown(values, key), shown(values, value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        Value::Global(global) => format!("<{}.{}>", global.module, global.name),
        Value::Object(object) => {
            let state = object.state.map(|state| format!("|{}", shown(values, state))).unwrap_or_default();
            format!("{}{}{state}", shown(values, object.callable), shown(values, object.args))
        }
        Value::Persistent(pid) => format!("@{}", shown(values, pid)),
        Value::Buffer => "buffer".into(),
    }
}

fn value(bytes: &[u8]) -> String {
    with(bytes, |pickle| shown(&pickle.values, pickle.root.unwrap()))
}

#[test]
fn every_instruction_has_pythons_semantics() {
    let cases: &[(&[u8], &str)] = &[
        (b"N.", "None"),
        (b"I01\n.", "true"),
        (b"I-7\n.", "-7"),
        (b"L99999999999999999999L\n.", "Some(99999999999999999999)"),
        (b"J\xff\xff\xff\xff.", "-1"),
        (b"K\xff.", "255"),
        (b"M\x01\x02.", "513"),
        (b"\x8a\x00.", "0"),
        (b"\x8a\x01\xff.", "-1"),
        (b"\x8a\x09\0\0\0\0\0\0\0\0\x01.", "Some(18446744073709551616)"),
        (b"\x8b\x02\0\0\0\0\x80.", "-32768"),
        (b"F1.5\n.", "float"),
        (b"G\x3f\xf8\0\0\0\0\0\0.", "float"),
        (b"S'a\\x62'\n.", "\"ab\""),
        (b"T\x02\0\0\0hi.", "\"hi\""),
        (b"U\x02hi.", "\"hi\""),
        (b"U\x01\xff.", "bytes"),
        (b"V\\u0061b\n.", "\"ab\""),
        (b"X\x02\0\0\0hi.", "\"hi\""),
        (b"\x8c\x02hi.", "\"hi\""),
        (b"\x8d\x02\0\0\0\0\0\0\0hi.", "\"hi\""),
        (b"B\x01\0\0\0a.", "bytes"),
        (b"C\x01a.", "bytes"),
        (b"\x8e\x01\0\0\0\0\0\0\0a.", "bytes"),
        (b"\x96\x01\0\0\0\0\0\0\0a.", "bytes"),
        (b"\x97\x98.", "buffer"),
        (b").", "()"),
        (b"NN\x86.", "(None,None)"),
        (b"(K\x01K\x02t.", "(1,2)"),
        (b"]K\x01a(K\x02K\x03e.", "[1,2,3]"),
        (b"(K\x01l.", "[1]"),
        (b"}K\x01K\x02s(K\x03K\x04u.", "{1:2,3:4}"),
        (b"(K\x01K\x02d.", "{1:2}"),
        (b"\x8f(K\x01\x90.", "set"),
        (b"(K\x01\x91.", "set"),
        (b"K\x010K\x02.", "2"),
        (b"K\x07(K\x01K\x021.", "7"),
        (b"K\x07(0.", "7"),
        (b"K\x052\x86.", "(5,5)"),
        (b"]p5\n0g5\n.", "[]"),
        (b"]q\x050h\x05.", "[]"),
        (b"]r\x05\0\0\x800j\x05\0\0\x80.", "[]"),
        (b"]\x94K\x01\x94\x86h\x01\x86.", "(([],1),1)"),
        (b"cos\nsystem\n.", "<os.system>"),
        (b"\x8c\x02os\x8c\x06system\x93.", "<os.system>"),
        (b"(K\x01ios\nsystem\n.", "<os.system>(1)"),
        (b"(cos\nsystem\nK\x01o.", "<os.system>(1)"),
        (b"ca\nb\n)\x81.", "<a.b>()"),
        (b"ca\nb\n)}\x92.", "<a.b>()"),
        (b"ca\nb\nK\x01\x85R.", "<a.b>(1)"),
        (b"ca\nb\n)R}b.", "<a.b>()|{}"),
        (b"\x82\x01.", "<copyreg.extension 1>"),
        (b"Pkey\n.", "@\"key\""),
        (b"K\x01Q.", "@1"),
        (b"\x80\x05\x95\x02\0\0\0\0\0\0\0N..", "None"),
    ];
    for (bytes, wanted) in cases {
        assert_eq!(value(bytes), *wanted, "{:?}", bytes.escape_ascii().to_string());
        assert!(length(bytes).unwrap().is_some());
    }
}

#[test]
fn memoize_counts_like_python() {
    // PUT 0, PUT 5, then MEMOIZE uses index 2.
    assert_eq!(value(b"K\x0aq\0K\x0bq\x05K\x0c\x94000h\x02."), "12");
    // An index stored out of order is found when the sequence reaches it.
    assert_eq!(value(b"K\x0aq\x010K\x0bq\0h\x01\x86."), "(11,10)");
}

#[test]
fn globals_are_reported_however_they_are_written() {
    let reached =
        |bytes: &[u8]| globals(bytes).into_iter().map(|(m, n, at)| format!("{m}.{n}@{at}")).collect::<Vec<_>>();
    assert_eq!(reached(b"cos\nsystem\n."), ["os.system@0"]);
    // The result of the call is discarded.
    assert_eq!(reached(b"cos\nsystem\nU\x02ls\x85R0N."), ["os.system@0"]);
    // The names come from the memo and have escapes.
    assert_eq!(reached(b"V\\u006fs\nq\0V\\u0073ystem\nq\x0100h\0h\x01\x93."), ["os.system@32"]);
    assert_eq!(reached(b"(ios\nsystem\n."), ["os.system@1"]);
    // A name that is the result of a call.
    assert_eq!(reached(b"cbuiltins\nstr\nU\x02os\x85RU\x06system\x93."), ["builtins.str@0", "(not a text).system@28"]);
    assert_eq!(reached(b"\x84\xff\xff\xff\xff."), ["copyreg.extension 4294967295@0"]);
}

#[test]
fn malformed_instructions_are_errors_with_their_offset() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "ends at byte 0"),
        (b"N", "ends at byte 1"),
        (b"\xff.", "byte 0 of the pickle: 0xff"),
        (b".", "byte 0"),
        (b"K\x01\x86.", "byte 2"),
        (b"t.", "no open mark"),
        (b"(a.", "byte 1"),
        (b"K\x01(0e.", "no open mark"),
        (b"]}K\x01u.", "no open mark"),
        (b"}(K\x01u.", "a key without a value"),
        (b"N(K\x01e.", "not a list"),
        (b"NK\x01K\x02s.", "not a dict"),
        (b"h\x07.", "memo entry 7"),
        (b"K\x01K\x02R.", "not a global"),
        (b"ca\nb\nK\x02R.", "not a tuple"),
        (b"K\x01}b.", "does not accept one"),
        (b"ca\nb\n}b.", "itself"),
        (b"ca\nb\n)R}b}b.", "does not accept one"),
        (b"X\x01\0\0\0\xff.", "UTF-8"),
        (b"\x8b\xff\xff\xff\xff.", "negative"),
        (b"T\xff\xff\xff\xff.", "negative"),
        (b"Iabc\n.", "not an integer"),
        (b"pabc\n.", "not a number"),
        (b"\x80\x06.", "protocol 6"),
        (b"ca\nb\n)}K\x01K\x02s\x92.", "by name"),
    ];
    for (bytes, wanted) in cases {
        let text = error(bytes).to_string();
        assert!(text.starts_with("parse error: ") && text.contains(wanted), "{} {text}", bytes.escape_ascii());
    }
}

#[test]
fn declared_sizes_are_refused_before_allocation() {
    let tag = |bytes: &[u8]| match error(bytes) {
        AnamnesisError::LimitExceeded { limit, .. } => limit,
        other => panic!("{other}"),
    };
    assert_eq!(tag(b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f."), "MAX_PICKLE_PAYLOAD");
    assert_eq!(tag(b"\x8d\xff\xff\xff\xff\0\0\0\0."), "MAX_PICKLE_PAYLOAD");
    assert_eq!(tag(b"B\xff\xff\xff\xff."), "MAX_PICKLE_PAYLOAD");
    assert_eq!(tag(b"\x8b\xff\xff\xff\x7f."), "MAX_PICKLE_PAYLOAD");
    assert_eq!(tag(&b"(".repeat(MAX_PICKLE_MARK_DEPTH + 1)), "MAX_PICKLE_MARK_DEPTH");
    // Lists of one byte each.
    assert_eq!(tag(&b"]".repeat(20 << 20)), "MAX_PICKLE_WORKING_SET");
}

#[test]
fn a_memo_bomb_is_a_handful_of_nodes() {
    // Each step makes a tuple of the previous one, twice: 2^1000 leaves.
    let mut bytes = b"N".to_vec();
    for _ in 0..1000 {
        bytes.extend(b"2\x86");
    }
    bytes.push(b'.');
    with(&bytes, |pickle| assert!(matches!(pickle.values.get(pickle.root.unwrap()), Value::Tuple([a, b]) if a == b)));
}

#[test]
fn a_million_nested_values_are_read_and_dropped() {
    let mut bytes = b"N".to_vec();
    bytes.extend(b"\x85".repeat(1_000_000));
    bytes.push(b'.');
    with(&bytes, |pickle| assert_eq!(pickle.bytes, 1_000_002));
}

#[test]
fn the_limits_of_the_caller_apply() {
    let limited = |limits: ParseLimits| {
        read(b"X\x64\0\0\0aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.",
             &mut Everything::default(), &mut Budget::new(&limits)).map(|_| ())
    };
    assert!(limited(ParseLimits::unbounded()).is_ok());
    for (limits, tag) in [
        (ParseLimits::unbounded().with_max_single_alloc(99), "max_single_alloc_bytes"),
        (ParseLimits::unbounded().with_max_total_bytes(150), "max_total_bytes"),
    ] {
        assert!(matches!(limited(limits), Err(AnamnesisError::LimitExceeded { limit, .. }) if limit == tag));
    }
}
