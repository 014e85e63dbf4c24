//! Enums whose variants have names, which users see, and places, which the kernel side shares.

/// Make such an enum: `named! { enum Type { /// Description. Variant = "name"; } }`. A variant is
/// described by its documentation, in one sentence. With `named! { enum Type undescribed {…} }` the
/// type has descriptions of its own.
macro_rules! named {
    ($(#[$about:meta])* enum $type:ident undescribed {
        $($(#[$doc:meta])* $variant:ident = $name:literal;)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum $type {
            $($(#[$doc])* $variant,)*
        }

        impl $type {
            /// Every one, in the order of the discriminants, which the kernel side shares.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$variant),*];

            /// Their number.
            pub const COUNT: usize = [$($name),*].len();

            /// The names of the variants, from which the kernel side has its constants.
            pub(crate) const VARIANTS: [&'static str; Self::COUNT] = [$(stringify!($variant)),*];

            /// The name used in options, metrics and JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The one with this discriminant, `None` if there is none.
            #[must_use]
            pub fn from_index(index: u32) -> Option<Self> {
                Self::ALL.get(usize::try_from(index).ok()?).copied()
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
    ($(#[$about:meta])* enum $type:ident {
        $($(#[doc = $line:literal])+ $variant:ident = $name:literal;)*
    }) => {
        $crate::named::named! {
            $(#[$about])*
            enum $type undescribed {
                $($(#[doc = $line])+ $variant = $name;)*
            }
        }

        impl $type {
            /// Describe it in one sentence.
            #[must_use]
            pub const fn description(self) -> &'static str {
                // Each line of a comment begins with a blank, which joins it to the one before.
                match self {
                    $(Self::$variant => concat!($($line),+).trim_ascii_start(),)*
                }
            }
        }
    };
}

pub(crate) use named;

#[cfg(test)]
mod tests {
    named! {
        /// One of two.
        enum Two {
            /// The first of them.
            One = "one";
            /// The second of them, described
            /// in two lines.
            Other = "the-other";
        }
    }

    #[test]
    fn places_names_and_descriptions_are_of_one_list() {
        assert_eq!(Two::ALL, [Two::One, Two::Other]);
        assert_eq!(Two::VARIANTS, ["One", "Other"]);
        assert_eq!(Two::from_index(1), Some(Two::Other));
        assert_eq!(Two::from_index(2), None);
        assert_eq!(format!("{:>4}", Two::One), " one");
        assert_eq!(serde_json::to_string(&Two::Other).unwrap(), "\"the-other\"");
        assert_eq!(Two::One.description(), "The first of them.");
        assert_eq!(
            Two::Other.description(),
            "The second of them, described in two lines."
        );
    }
}
