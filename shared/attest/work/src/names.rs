//! Enums whose variants have stable names.

/// Declares an enum as a table of variants and their names, `Variant = "name"`, without payloads.
///
/// It has `ALL` in the order of declaration, `name`, `named`, and a `Display` that pads. The attributes have to derive
/// `Clone` and `Copy`; the form in serde is theirs too. `else Error = |text| …` behind the table adds a `FromStr` whose
/// error this is for any other text.
#[macro_export]
macro_rules! names {
    ($(#[$($of_type:tt)*])* $visibility:vis enum $type:ident {
        $($(#[$($of_variant:tt)*])* $variant:ident = $name:literal,)+
    } $(else $error:ty = $unknown:expr)?) => {
        $(#[$($of_type)*])*
        $visibility enum $type {
            $($(#[$($of_variant)*])* $variant,)+
        }

        #[allow(dead_code)] // not every enum that a crate keeps to itself needs all of it
        impl $type {
            /// All variants, in the order of declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The variant with a name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|variant| variant.name() == name)
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        $(impl ::std::str::FromStr for $type {
            type Err = $error;

            fn from_str(name: &str) -> ::std::result::Result<Self, $error> {
                let unknown: fn(&str) -> $error = $unknown;
                Self::named(name).ok_or_else(|| unknown(name))
            }
        })?
    };
}

#[cfg(test)]
mod tests {
    crate::names! {
        #[derive(Debug, Clone, Copy, PartialEq)]
        enum Leg {
            There = "there",
            BackAgain = "back again",
        } else String = |name| format!("no leg {name}")
    }

    #[test]
    fn an_enum_is_its_table() {
        assert_eq!(Leg::ALL, [Leg::There, Leg::BackAgain]);
        assert_eq!(Leg::ALL.map(|leg| Leg::named(leg.name())), Leg::ALL.map(Some));
        assert_eq!(Leg::named("back"), None);
        assert_eq!(("there".parse(), "back".parse::<Leg>()), (Ok(Leg::There), Err("no leg back".to_owned())));
        assert_eq!(format!("{:>6}, {}", Leg::There, Leg::BackAgain), " there, back again");
    }
}
