//! The public interface of the published libraries, as committed in `xtask/api`: whoever changes it sees the change.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The crates with an interface that others use, as their documentation names them.
const CRATES: [&str; 2] = ["anamnesis", "anamnesis_remote"];

/// Removes the pages of the crates, among which are those of items that are gone.
pub(crate) fn forget() {
    for name in CRATES {
        // There are none before the first time.
        let _ = fs::remove_dir_all(Path::new("target/doc").join(name));
    }
}

/// Compares the interface in `target/doc` with the one committed; with `AMN_UPDATE=1` writes it there.
pub(crate) fn check() -> Result<(), String> {
    let mut differences = Vec::new();
    for name in CRATES {
        let found = listed(name)?;
        let committed = format!("xtask/api/{name}.txt");
        if std::env::var_os("AMN_UPDATE").is_some() {
            let text: String = found.iter().map(|line| format!("{line}\n")).collect();
            let written = fs::create_dir_all("xtask/api").and_then(|()| fs::write(&committed, text));
            written.map_err(|error| format!("{committed}: {error}"))?;
            continue;
        }
        let text = fs::read_to_string(&committed).map_err(|error| format!("{committed}: {error}"))?;
        let known: BTreeSet<String> = text.lines().map(str::to_owned).collect();
        differences.extend(known.difference(&found).map(|line| format!("- {line}")));
        differences.extend(found.difference(&known).map(|line| format!("+ {line}")));
    }
    if differences.is_empty() {
        return Ok(());
    }
    let advice = "a line with - breaks its users; AMN_UPDATE=1 cargo xtask publish records the new interface";
    Err(format!("the public interface has changed; {advice}:\n{}", differences.join("\n")))
}

/// Every item of a crate with its declaration, its methods and the traits it implements, a line each.
fn listed(name: &str) -> Result<BTreeSet<String>, String> {
    let mut lines = BTreeSet::new();
    walk(&Path::new("target/doc").join(name), name, &mut lines)?;
    if lines.is_empty() { Err(format!("target/doc/{name} has no items")) } else { Ok(lines) }
}

fn walk(folder: &Path, module: &str, lines: &mut BTreeSet<String>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            walk(&entry.path(), &format!("{module}::{file}"), lines)?;
        } else if let [_, item, "html"] = file.split('.').collect::<Vec<_>>()[..] {
            let page = fs::read_to_string(entry.path()).map_err(|error| format!("{file}: {error}"))?;
            lines.extend(describe(&page).into_iter().map(|text| format!("{module}::{item}: {text}")));
        }
    }
    Ok(())
}

/// The lines of an item's page: its declaration, the declarations of its methods, and its implementations of traits.
fn describe(page: &str) -> Vec<String> {
    // Implementations by the compiler or for all types, and lists of the types with a trait, say nothing new.
    let ends = [
        "id=\"synthetic-implementations\"",
        "id=\"blanket-implementations\"",
        "id=\"implementors\"",
        "id=\"foreign-impls\"",
    ];
    let end = ends.iter().filter_map(|end| page.find(end)).min().unwrap_or(page.len());
    let page = &page[..end];
    let own = page.find("id=\"trait-implementations\"").unwrap_or(page.len());
    let declaration = between(page, "<pre class=\"rust item-decl\">", "</pre>");
    let methods = between(&page[..own], "<h4 class=\"code-header\">", "</h4>");
    let traits = between(&page[own..], "<h3 class=\"code-header\">", "</h3>");
    declaration.chain(methods).chain(traits).collect()
}

/// The texts between two tags.
fn between<'a>(page: &'a str, start: &'a str, end: &'a str) -> impl Iterator<Item = String> + 'a {
    page.split(start).skip(1).filter_map(move |rest| Some(text(rest.split_once(end)?.0)))
}

/// HTML as text on one line.
fn text(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for character in html.chars() {
        match character {
            '<' => is_tag = true,
            '>' => {
                is_tag = false;
                // A tag may be what separates two lines.
                text.push('\u{0}');
            }
            _ if !is_tag => text.push(character),
            _ => {}
        }
    }
    let separated = text.replace("\u{0}where", " where").replace('\u{0}', "");
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")];
    let plain = named.iter().fold(separated, |text, (entity, character)| text.replace(entity, character));
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_declaration_its_methods_and_its_traits() {
        let page = "<pre class=\"rust item-decl\"><code>pub struct S {\n    pub f: <a href=\"x\">u32</a>,\n}</code></pre>\
            <h3 class=\"code-header\">impl S</h3>\
            <h4 class=\"code-header\">pub fn <a>m</a>&lt;T&gt;(&amp;self)<div class=\"where\">where\n T: Copy,</div></h4>\
            <h2 id=\"trait-implementations\"></h2>\
            <h3 class=\"code-header\">impl Clone for S</h3><h4 class=\"code-header\">fn clone(&amp;self) -&gt; S</h4>\
            <h2 id=\"synthetic-implementations\"></h2><h3 class=\"code-header\">impl Send for S</h3>";
        let wanted = ["pub struct S { pub f: u32, }", "pub fn m<T>(&self) where T: Copy,", "impl Clone for S"];
        assert_eq!(describe(page), wanted);
    }
}
