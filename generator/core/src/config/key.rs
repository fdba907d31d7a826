//! Keys as lists and pages show them.

/// A key of a section: what a user must know to write it.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// How it is written.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    default: fn() -> String,
    range: fn() -> String,
}

/// The keys that something reads, in tables: its own, and those that it shares with others.
pub type KeyTables = &'static [&'static [Key]];

/// Their names.
pub fn names_of(keys: KeyTables) -> impl Iterator<Item = &'static str> {
    keys.iter().copied().flatten().map(|key| key.name)
}

impl Key {
    /// A key that is not read by a table; for [`settings!`].
    pub const fn new(name: &'static str, about: &'static str, default: fn() -> String, range: fn() -> String) -> Self {
        Key { name, about: about.trim_ascii(), default, range }
    }

    /// The value that it has where it is not written, as TOML or in words.
    pub fn default(&self) -> String {
        (self.default)()
    }

    /// The values that it takes, in words.
    pub fn range(&self) -> String {
        (self.range)()
    }
}

/// A value that a key may have, by name: the name, the value, and what it means where the name does not say it.
pub type Choice<T> = (&'static str, T, &'static str);

/// Values by their names alone.
pub fn choices<T, const N: usize>(named: [(&'static str, T); N]) -> [Choice<T>; N] {
    named.map(|(name, value)| (name, value, ""))
}

/// Names of values, each with what it means.
pub fn names<T>(choices: &[Choice<T>]) -> String {
    let name = |(name, _, about): &Choice<T>| match *about {
        "" => (*name).to_owned(),
        about => format!("{name} ({about})"),
    };
    choices.iter().map(name).collect::<Vec<_>>().join(", ")
}
