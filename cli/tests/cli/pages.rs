//! Links between pages: none is broken, every page is reachable, and the front page stays short.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::support::root;

/// The front page fills at most two screens.
const FRONT_LINES: usize = 130;
/// The page with links to all others.
const DOORS: &str = "docs/README.md";

/// Every page of the repository, by its path from the root.
fn pages() -> BTreeMap<String, String> {
    let (mut pages, mut folders) = (BTreeMap::new(), vec![root()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                let other = name.starts_with('.') || ["target", "runs", "node_modules"].contains(&name.as_str());
                folders.extend((!other && !path.is_symlink()).then_some(path));
            } else if name.ends_with(".md") {
                let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                pages.insert(name, fs::read_to_string(path).expect("a page"));
            }
        }
    }
    pages
}

/// Returns the lines outside code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// Returns the link targets of a page, except other sites.
fn links(text: &str) -> Vec<String> {
    let targets = prose(text).flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

/// Returns the anchors of a page: its headings in lower case, blanks as dashes, without punctuation; a repeated name gets a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings =
        prose(text).filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let slug = |heading: &str| {
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    let number = |slug: String| {
        let count = seen.entry(slug.clone()).or_default();
        *count += 1;
        if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
    };
    headings.map(slug).map(number).collect()
}

/// Returns the path from the root to which a link of a page leads.
fn target(page: &str, link: &str) -> String {
    let path = link.split('#').next().unwrap_or_default();
    if path.is_empty() {
        return page.to_owned();
    }
    let mut kept = PathBuf::new();
    for part in Path::new(page).parent().unwrap_or(Path::new("")).join(path).components() {
        match part {
            Component::ParentDir if kept.pop() => {}
            other => kept.push(other),
        }
    }
    kept.display().to_string()
}

#[test]
fn links_lead_somewhere() {
    let (pages, mut count, mut broken) = (pages(), 0, Vec::new());
    for (page, text) in &pages {
        for link in links(text) {
            count += 1;
            let target = target(page, &link);
            let anchor = link.split_once('#').map(|(_, anchor)| anchor);
            let there = match (pages.get(&target), anchor) {
                (Some(text), Some(anchor)) => anchors(text).contains(anchor),
                _ => root().join(&target).exists(),
            };
            if !there {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(count > 150, "there are links to check: {count}");
    assert!(broken.is_empty(), "no such file, folder or heading: {broken:#?}");
}

#[test]
fn every_page_is_behind_a_door() {
    let pages = pages();
    assert!(links(&pages["README.md"]).contains(&DOORS.to_owned()), "README.md leads to {DOORS}");
    let (mut reached, mut next) = (BTreeSet::from(["README.md".to_owned()]), vec![DOORS.to_owned()]);
    while let Some(page) = next.pop() {
        if let Some(text) = pages.get(&page).filter(|_| reached.insert(page.clone())) {
            next.extend(links(text).iter().map(|link| target(&page, link)));
        }
    }
    let lost: Vec<_> = pages.keys().filter(|page| !reached.contains(*page)).collect();
    assert!(lost.is_empty(), "no link from {DOORS} on leads to {lost:?}");
    let doors: BTreeSet<_> = links(&pages[DOORS]).iter().map(|link| target(DOORS, link)).collect();
    let behind = |page: &&String| page.starts_with("docs/") && page.as_str() != DOORS && !page.contains("/published/");
    let unlisted: Vec<_> = pages.keys().filter(behind).filter(|page| !doors.contains(*page)).collect();
    assert!(unlisted.is_empty(), "{DOORS} does not list {unlisted:?}");
}

#[test]
fn the_front_page_is_short() {
    let lines = pages()["README.md"].lines().count();
    assert!(lines <= FRONT_LINES, "README.md has {lines} lines; at most {FRONT_LINES}");
}

/// The first line of a page is its heading, which a site uses as its title.
#[test]
fn pages_begin_with_their_title() {
    let first = |text: &str| {
        prose(text).map(str::trim).find(|line| !line.is_empty() && !line.starts_with("<!--")).map(str::to_owned)
    };
    let untitled: Vec<_> = pages()
        .into_iter()
        .filter(|(_, text)| !first(text).is_some_and(|line| line.starts_with("# ")))
        .map(|(page, _)| page)
        .collect();
    assert!(untitled.is_empty(), "no title: {untitled:?}");
}

#[test]
fn the_citation_has_the_version_and_the_licence() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let (manifest, citation) = (read("Cargo.toml"), read("CITATION.cff"));
    let of = |key: &str| {
        manifest.lines().find_map(|line| line.strip_prefix(&format!("{key} = "))).expect("a key").trim_matches('"')
    };
    assert!(
        citation.contains(&format!("\nversion: {}\n", of("version"))),
        "CITATION.cff has the version of Cargo.toml"
    );
    for licence in of("license").split(" OR ") {
        assert!(citation.contains(&format!("- {licence}\n")), "CITATION.cff has the licence {licence}");
    }
}

/// For `<!-- picture: FILE by COMMANDS -->` before a picture, running `pktgen COMMANDS` one after the other writes its file.
#[test]
fn pictures_are_what_the_commands_write() {
    let mut count = 0;
    for (page, text) in pages() {
        for part in text.split("<!-- picture: ").skip(1).filter(|_| !page.starts_with("CONTRIBUTING")) {
            count += 1;
            let (mark, rest) = part.split_once(" -->").expect("the end of the mark");
            let (file, commands) = mark.split_once(" by ").expect("a file and commands");
            let shown = links(rest).into_iter().next().expect("a picture after the mark");
            let shown = root().join(target(&page, &shown));
            let folder = tempfile::tempdir().expect("a temporary folder");
            for command in commands.split(" && ") {
                let mut pktgen = Command::new(env!("CARGO_BIN_EXE_pktgen"));
                let output =
                    pktgen.current_dir(folder.path()).args(command.split_whitespace()).output().expect("it runs");
                assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
            }
            let fresh = fs::read_to_string(folder.path().join(file)).unwrap_or_else(|e| panic!("{page}: {file}: {e}"));
            if std::env::var_os("UPDATE_DOCS").is_some() {
                fs::create_dir_all(shown.parent().expect("a folder")).expect("a folder");
                fs::write(&shown, &fresh).expect("writable");
            }
            let kept = fs::read_to_string(&shown).unwrap_or_default();
            assert!(kept == fresh, "{} is old; run with UPDATE_DOCS=1 and look at it", shown.display());
        }
    }
    assert!(count >= 1, "there are pictures to check");
}

#[test]
fn anchors_are_those_of_the_forges() {
    let text = "# A page\n## 1. Cables & `more`\n```sh\n# no heading\n```\n## Rules\n## Rules\n";
    let expected = ["a-page", "1-cables--more", "rules", "rules-1"].map(str::to_owned);
    assert_eq!(anchors(text), expected.into());
    assert_eq!(target("docs/a.md", "../README.md#x"), "README.md");
    assert_eq!(target("docs/a.md", "#x"), "docs/a.md");
    assert_eq!(links("[a](b.md) and [c](https://d.e)\n```\n[f](g.md)\n```\n[h](i.md#j)"), ["b.md", "i.md#j"]);
}
