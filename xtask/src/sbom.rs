//! A software bill of materials of `amn` in CycloneDX 1.5: every crate that its binary is built from, on any platform,
//! with its licence and the checksum of its package.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

/// The package whose binary is described, and the file that is written.
const PACKAGE: &str = "anamnesis-cli";
const OUTPUT: &str = "target/amn.cdx.json";

/// Writes the bill of materials.
pub(crate) fn run() -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(["metadata", "--format-version", "1", "--locked"]).output();
    let output = output.map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let lock = fs::read_to_string("Cargo.lock").map_err(|error| format!("Cargo.lock: {error}"))?;
    let bill = bill(&metadata, &checksums(&lock))?;
    check(&bill)?;
    let text = serde_json::to_string_pretty(&bill).map_err(|error| error.to_string())?;
    fs::write(OUTPUT, text + "\n").map_err(|error| format!("{OUTPUT}: {error}"))?;
    println!("{OUTPUT}: {} components", bill["components"].as_array().map_or(0, Vec::len));
    Ok(())
}

/// The checksums of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]") {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            line.and_then(|line| line.strip_suffix('"')).map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(checksum)) = (value("name"), value("version"), value("checksum")) {
            found.insert((name, version), checksum);
        }
    }
    found
}

/// The bill of materials of what `cargo metadata` lists.
fn bill(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Value, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|node| (text(&node["id"]), node)).collect();
    let root = packages.iter().find(|(_, package)| package["name"] == PACKAGE);
    let root = root.map(|(id, _)| id.clone()).ok_or_else(|| format!("there is no package {PACKAGE}"))?;
    // The packages that are linked or run while building, not those of tests.
    let needed = |id: &str| -> Vec<String> {
        let deps = nodes.get(id).map(|node| list(&node["deps"])).unwrap_or_default();
        let is_needed = |dep: &Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev");
        deps.iter().filter(|dep| is_needed(dep)).map(|dep| text(&dep["pkg"])).collect()
    };
    let (mut seen, mut open) = (BTreeSet::from([root.clone()]), vec![root.clone()]);
    while let Some(id) = open.pop() {
        open.extend(needed(&id).into_iter().filter(|id| seen.insert(id.clone())));
    }
    let purl = |id: &str| {
        let package = packages.get(id).unwrap_or(&Value::Null);
        format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
    };
    let component = |id: &String| {
        let package = packages.get(id).unwrap_or(&Value::Null);
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let mut component = json!({
            "type": if *id == root { "application" } else { "library" },
            "bom-ref": purl(id),
            "name": name,
            "version": version,
            "purl": purl(id),
        });
        if let Some(licence) = package["license"].as_str() {
            component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
        }
        if let Some(checksum) = checksums.get(&(name, version)) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        if let Some(address) = package["repository"].as_str().filter(|address| address.starts_with("https://")) {
            component["externalReferences"] = json!([{ "type": "vcs", "url": address }]);
        }
        component
    };
    let dependencies: Vec<Value> = seen
        .iter()
        .map(|id| {
            let on: BTreeSet<String> = needed(id).iter().map(|id| purl(id)).collect();
            json!({ "ref": purl(id), "dependsOn": on })
        })
        .collect();
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(&root) },
        "components": seen.iter().filter(|id| **id != root).map(component).collect::<Vec<_>>(),
        "dependencies": dependencies,
    }))
}

/// Checks what CycloneDX requires, and that every package of the registry has its licence and checksum.
fn check(bill: &Value) -> Result<(), String> {
    let components = bill["components"].as_array().ok_or("there are no components")?;
    let all: Vec<&Value> = components.iter().chain([&bill["metadata"]["component"]]).collect();
    let mut refs = BTreeSet::new();
    for component in &all {
        for key in ["type", "name", "version", "bom-ref", "purl"] {
            if component[key].as_str().is_none_or(str::is_empty) {
                return Err(format!("a component has no {key}: {component}"));
            }
        }
        if !refs.insert(component["bom-ref"].as_str()) {
            return Err(format!("a component is listed twice: {component}"));
        }
        if component["licenses"][0]["expression"].as_str().is_none_or(str::is_empty) {
            return Err(format!("a component has no licence: {component}"));
        }
        let is_own = component["name"].as_str().is_some_and(|name| name.starts_with("anamnesis"));
        let checksum = component["hashes"][0]["content"].as_str().unwrap_or_default();
        if !is_own && (checksum.len() != 64 || !checksum.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            return Err(format!("a component has no checksum: {component}"));
        }
    }
    for dependency in bill["dependencies"].as_array().ok_or("there are no dependencies")? {
        let on = dependency["dependsOn"].as_array().into_iter().flatten();
        for name in on.chain([&dependency["ref"]]) {
            if !refs.contains(&name.as_str()) {
                return Err(format!("a dependency refers to {name}, which is no component"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry\"\nchecksum = \"00\"\n\n\
                        [[package]]\nname = \"anamnesis-cli\"\nversion = \"0.8.0\"\n";

    fn metadata() -> Value {
        let package = |id: &str, name: &str, version: &str| {
            json!({ "id": id, "name": name, "version": version, "license": "MIT/Apache-2.0",
                    "repository": "https://example.org" })
        };
        let dep = |id: &str, kind: Value| json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] });
        json!({
            "packages": [package("0", PACKAGE, "0.8.0"), package("1", "a", "1.0.0"), package("2", "tests", "1.0.0")],
            "resolve": { "nodes": [
                { "id": "0", "deps": [dep("1", Value::Null), dep("2", "dev".into())] },
                { "id": "1", "deps": [] },
            ] },
        })
    }

    #[test]
    fn components_are_those_that_are_linked() {
        let sums = BTreeMap::from([(("a".to_owned(), "1.0.0".to_owned()), "0".repeat(64))]);
        let bill = bill(&metadata(), &sums).unwrap_or_default();
        assert_eq!(check(&bill), Ok(()));
        assert_eq!(bill["components"].as_array().map(Vec::len), Some(1));
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["dependencies"][0]["dependsOn"], json!(["pkg:cargo/a@1.0.0"]));
        assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&json!("CycloneDX"), &json!("1.5")));
    }

    #[test]
    fn a_component_without_a_checksum_or_licence_is_refused() {
        let bill = bill(&metadata(), &BTreeMap::new()).unwrap_or_default();
        assert!(check(&bill).is_err_and(|error| error.contains("checksum")));
        let mut metadata = metadata();
        metadata["packages"][0]["license"] = Value::Null;
        let sums = BTreeMap::from([(("a".to_owned(), "1.0.0".to_owned()), "0".repeat(64))]);
        let bill = super::bill(&metadata, &sums).unwrap_or_default();
        assert!(check(&bill).is_err_and(|error| error.contains("licence")));
    }

    #[test]
    fn checksums_are_read_from_the_lock_file() {
        assert_eq!(checksums(LOCK), BTreeMap::from([(("a".to_owned(), "1.0.0".to_owned()), "00".to_owned())]));
    }
}
