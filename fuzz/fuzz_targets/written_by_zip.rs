#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anamnesis_promises::against_zip::written(bytes));
