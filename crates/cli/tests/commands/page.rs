//! `report`: the page in a browser.

use std::fs;

use serde_json::Value;

use crate::browser::Browser;
use crate::checkpoint::{Tensor, safetensors};
use crate::folder::Folder;
use crate::samples;

/// Names that would do harm if a page took them for markup or code.
const HOSTILE: [&str; 6] = [
    "<script>document.title = 'harm'</script>",
    "</script><img src=x onerror=\"document.title = 'harm'\">",
    "\" onload=\"document.title='harm'\" x=\"",
    "{{script}}",
    "a.\u{0}.\u{1b}[2J",
    "layers.0.<b>bold</b>.weight",
];

/// A folder with a model, another that is nearly the same, and a page about both.
fn folder() -> Folder {
    let folder = Folder::empty();
    let names =
        (0..40).flat_map(|layer| ["up", "down"].map(|module| format!("model.layers.{layer}.mlp.{module}.weight")));
    let names: Vec<String> = names.chain(HOSTILE.map(str::to_owned)).collect();
    for (file, step) in [("m.safetensors", 0.0), ("reference.safetensors", 0.001)] {
        let tensor =
            |(place, name): (usize, &String)| Tensor::f32(name, [8 + place % 3, 16], place as f32 / 64.0 + step);
        let tensors: Vec<Tensor> = names.iter().enumerate().map(tensor).collect();
        fs::write(folder.path(file), safetensors(&tensors)).unwrap();
    }
    folder.amn("report m.safetensors reference.safetensors -o page.html").ok();
    folder
}

#[test]
fn a_page_is_sorted_searched_and_used_by_keyboard() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = folder();
    browser.open(&folder.path("page.html"));
    let text =
        |browser: &mut Browser, what: &str| browser.run(&format!("document.querySelector('{what}').textContent"));
    assert_eq!(text(&mut browser, "#found"), "86 of 86");
    assert!(browser.run("document.querySelectorAll('#treemap button').length").as_u64() > Some(3));
    assert_eq!(browser.run("document.getElementById('errors').hidden"), false);

    // Search, from the keyboard.
    browser.press("/");
    assert_eq!(browser.run("document.activeElement.id"), "search");
    for letter in "layers.7.".chars() {
        browser.press(&letter.to_string());
    }
    assert_eq!(text(&mut browser, "#found"), "2 of 86");
    assert_eq!(browser.run("document.querySelector('.row .name').title"), "model.layers.7.mlp.down.weight");
    browser.run("const s = document.getElementById('search'); s.value = ''; s.dispatchEvent(new Event('input'))");

    // Sorting: by the first click the largest first, by the second the smallest.
    let first = |browser: &mut Browser, wanted: &str| {
        browser
            .run("[...document.querySelectorAll('#head button')].find((b) => b.textContent.startsWith('Max')).click()");
        let sort = "[...document.querySelectorAll('#head [aria-sort]')].find((c) => c.textContent.startsWith('Max'))";
        assert_eq!(browser.run(&format!("{sort}.getAttribute('aria-sort')")), wanted);
        browser.run("+document.querySelector('.row').children[5].textContent.replace('−', '-')").as_f64().unwrap()
    };
    assert!(first(&mut browser, "descending") > 1.3);
    assert!(first(&mut browser, "ascending") < 0.01);

    // The keys of the table.
    browser.run("document.getElementById('grid').focus()");
    for (key, selected) in [("ArrowDown", 0), ("ArrowDown", 1), ("ArrowUp", 0), ("End", 85), ("Home", 0)] {
        browser.press(key);
        let row = browser.run("document.getElementById('grid').getAttribute('aria-activedescendant')");
        assert_eq!(row, format!("row-{selected}"), "{key}");
    }
    assert!(
        browser.run("!!document.querySelector('#detail svg.histogram') && !!document.querySelector('#detail h3')")
            == true
    );

    // The keys of the chart.
    browser.run("document.getElementById('heat').focus()");
    browser.press("ArrowRight");
    assert!(
        text(&mut browser, "#cell").as_str().unwrap().starts_with("model.layers.1.mlp."),
        "{:?}",
        text(&mut browser, "#cell")
    );
    browser.press("Enter");
    assert_eq!(browser.run("document.activeElement.id"), "grid");

    // A module is opened by its tile.
    browser.run("document.querySelector('#treemap button').focus()");
    browser.press("Enter");
    assert!(browser.run("document.querySelectorAll('#crumbs button').length").as_u64() > Some(1));
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn hostile_names_run_nothing() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = folder();
    browser.open(&folder.path("page.html"));
    for name in HOSTILE.iter().filter(|name| !name.contains('\u{0}')) {
        let word = name.split(char::is_whitespace).next().unwrap();
        let typed = serde_json::to_string(word).unwrap();
        browser.run(&format!("(() => {{ const s = document.getElementById('search'); s.value = {typed}; s.dispatchEvent(new Event('input')) }})()"));
        browser.run("document.querySelector('.row').click()");
        let found = browser.run("document.querySelector('#detail h3').textContent");
        assert_eq!(found, **name);
    }
    assert_eq!(browser.run("document.title"), "m.safetensors – anamnesis");
    assert_eq!(browser.run("document.querySelectorAll('script').length"), 2);
    assert_eq!(browser.run("document.querySelectorAll('img, b, iframe, object').length"), 0);
    // The policy stops what the page itself would not do.
    let stopped = "new Promise((done) => { document.addEventListener('securitypolicyviolation', (e) => done(e.violatedDirective)); \
        const s = document.createElement('script'); s.textContent = 'document.title = \"harm\"'; document.body.append(s); })";
    assert_eq!(browser.run(stopped), "script-src-elem");
    assert_eq!(browser.run("document.title"), "m.safetensors – anamnesis");
}

#[test]
fn a_page_of_a_hundred_thousand_tensors_is_small_and_quick() {
    let folder = Folder::empty();
    let names = (0..100_000)
        .map(|index| format!("model.layers.{}.mlp.experts.{}.w{}", index / 1000, index / 4 % 250, index % 4));
    let value = |index: u32| f32::from_bits(0x3c00_0000 | (index.wrapping_mul(2_654_435_761) >> 7 & 0x7f_ffff));
    let tensors: Vec<Tensor> = names.zip(0..).map(|(name, index)| Tensor::f32(&name, [1, 1], value(index))).collect();
    fs::write(folder.path("m.safetensors"), safetensors(&tensors)).unwrap();
    let document = folder.amn("report m.safetensors m.safetensors -o page.html --json").json();
    assert_eq!(document["tensor_count"], 100_000);
    assert!(document["bytes"].as_u64() < Some(2_000_000), "{document}");
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&folder.path("page.html"));
    let paint = browser
        .run("performance.getEntriesByType('paint').map((p) => p.startTime).reduce((a, b) => Math.max(a, b), 0)");
    assert!(paint.as_f64().unwrap() < 2000.0, "first paint after {paint} ms");
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        browser.run("(() => { const s = document.getElementById('search'); s.value = 'experts.17. w2'; s.dispatchEvent(new Event('input')) })()");
        let spent: f64 = browser.run("document.documentElement.dataset.searchMs").as_str().unwrap().parse().unwrap();
        best = best.min(spent);
    }
    assert!(best < 100.0, "a search took {best} ms");
    assert!(browser.run("document.querySelectorAll('.row').length").as_u64() < Some(100));
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn models_without_configuration_values_or_layers_have_pages() {
    let folder = samples::folder();
    for (line, measured) in [
        ("report arrays.npz", true),
        ("report model.gguf --to q8_0", true),
        ("report Tiny-GPTQ", true),
        ("report Tiny-3.1-FP8 --headers-only", false),
    ] {
        let document = folder.amn(&format!("{line} -o page.html --force --json")).json();
        assert_eq!(document["measured"], measured, "{line}: {document}");
        if let Some(mut browser) = Browser::start() {
            browser.open(&folder.path("page.html"));
            assert_eq!(browser.problems(), Vec::<String>::new(), "{line}");
        }
    }
    // A page is not replaced by accident.
    let error = folder.amn("report arrays.npz -o page.html").failed();
    assert!(error.contains("page.html: exists already; --force replaces it"), "{error}");
    assert!(matches!(folder.amn("report arrays.npz -o page.html --force --json").json()["compared"], Value::Null));
}
