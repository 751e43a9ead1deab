//! Enums whose values are words of the wire: one table row gives the variant and its text.

/// A text that is none of an enum's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {text:?}{}", Known(known))]
pub struct UnknownLiteral {
    /// Which kind of word was wanted.
    pub what: &'static str,
    /// The text as given.
    pub text: String,
    /// The words that there are.
    pub known: &'static [&'static str],
}

/// A longer list helps nobody.
const LISTED_MAX: usize = 16;

/// The words to choose from, if they are few.
struct Known<'a>(&'a [&'static str]);

impl std::fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [] => Ok(()),
            known if known.len() > LISTED_MAX => Ok(()),
            known => write!(f, "; it is one of {}", known.join(", ")),
        }
    }
}

/// Declares enums by their words: `as_str`, strict `FromStr`, `Display`, serde and `ALL`.
macro_rules! literals {
    ($(
        $(#[$doc:meta])*
        $name:ident($what:literal) { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Every word, in the same order.
            pub const WORDS: &[&'static str] = &[$($text,)*];

            /// The word on the wire and in records.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::literal::UnknownLiteral;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => {
                        let (text, known) = (text.to_owned(), Self::WORDS);
                        Err(Self::Err { what: $what, text, known })
                    }
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        $crate::wire_text::serde_as_text!($name, concat!("one of the words for ", $what));

        #[cfg(feature = "schema")]
        impl ::utoipa::PartialSchema for $name {
            fn schema() -> ::utoipa::openapi::RefOr<::utoipa::openapi::Schema> {
                let words = $crate::schema::words(Self::ALL.iter().map(|word| word.as_str()));
                let described = words.description(Some(concat!("One word: the ", $what, ".")));
                ::utoipa::openapi::Schema::from(described).into()
            }
        }

        #[cfg(feature = "schema")]
        impl ::utoipa::ToSchema for $name {}
    )*};
}

pub(crate) use literals;
