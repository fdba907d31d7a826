//! Keys of experiment files, as lists and docs show them.

/// A key of a section, with its documentation.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Name in the file.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    default: fn() -> String,
    range: fn() -> String,
}

/// The keys that a component reads, as tables: its own, and those that it shares with others.
pub type KeyTables = &'static [&'static [Key]];

/// Returns the names of all keys.
pub fn names_of(keys: KeyTables) -> impl Iterator<Item = &'static str> {
    keys.iter().copied().flatten().map(|key| key.name)
}

impl Key {
    /// A key without a reader of its own; for [`settings!`].
    pub const fn new(name: &'static str, about: &'static str, default: fn() -> String, range: fn() -> String) -> Self {
        Key { name, about: about.trim_ascii(), default, range }
    }

    /// Returns the default, as TOML or in words.
    pub fn default(&self) -> String {
        (self.default)()
    }

    /// Returns the permitted values, in words.
    pub fn range(&self) -> String {
        (self.range)()
    }
}

/// A named value of a key: the name, the value, and an explanation, empty where the name suffices.
pub type Choice<T> = (&'static str, T, &'static str);

/// Makes choices without explanations.
pub fn choices<T, const N: usize>(named: [(&'static str, T); N]) -> [Choice<T>; N] {
    named.map(|(name, value)| (name, value, ""))
}

/// Returns the names of the choices as one text, with their explanations.
pub fn names<T>(choices: &[Choice<T>]) -> String {
    let name = |(name, _, about): &Choice<T>| match *about {
        "" => (*name).to_owned(),
        about => format!("{name} ({about})"),
    };
    choices.iter().map(name).collect::<Vec<_>>().join(", ")
}
