//! The scenarios that are built into the binary.

/// One built-in scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its family.
    pub family: &'static str,
    /// Its file, below `scenarios/`.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// Builds the table from families and names, so that each stands once.
macro_rules! built_in {
    ($($family:literal: [$($name:literal),* $(,)?])*) => {
        /// Every built-in scenario, by family.
        pub const BUILT_IN: &[BuiltIn] = &[
            $($(BuiltIn {
                family: $family,
                file: concat!($family, "/", $name, ".yaml"),
                text: include_str!(concat!("../../../scenarios/", $family, "/", $name, ".yaml")),
            },)*)*
        ];
    };
}

built_in! {
    "objects": []
}
