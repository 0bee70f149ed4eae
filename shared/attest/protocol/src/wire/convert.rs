//! Both directions of a conversion from one list.

/// Conversions of messages: `v1::Message = Domain { fields }` gives `TryFrom<v1::Message> for Domain` and
/// `From<Domain> for v1::Message`. The domain is a struct or, in parentheses, the types of the fields in order.
///
/// A field is `name: kind`, with a [`FieldKind`](super::field::FieldKind) as its kind; `name` alone is
/// [`PlainValue`](super::field::PlainValue). `name as other: kind` is `other` in the domain. `a & b: kind` converts
/// several fields together, as a tuple, on either side of an `as`. Fields are read in the order of the list.
macro_rules! messages {
    ($($(v1::$wire:ident)|+ = $domain:tt $fields:tt)*) => {
        $(messages! { @each [$(v1::$wire)+] $domain $fields })*
    };
    (@each [$(v1::$wire:ident)+] $domain:tt $fields:tt) => {
        $(messages! { @fields $wire $domain $fields [] })+
    };

    // Each field in the same form: names on the wire, names in the domain, kind.
    (@fields $wire:ident $domain:tt { $field:ident $(, $($rest:tt)*)? } [$($done:tt)*]) => {
        messages! { @fields $wire $domain { $($($rest)*)? }
            [$($done)* { [$field] [$field] $crate::wire::field::PlainValue }] }
    };
    (@fields $wire:ident $domain:tt { $($field:ident)&+ : $kind:expr $(, $($rest:tt)*)? } [$($done:tt)*]) => {
        messages! { @fields $wire $domain { $($($rest)*)? } [$($done)* { [$($field)+] [$($field)+] $kind }] }
    };
    (@fields $wire:ident $domain:tt
        { $($field:ident)&+ as $($name:ident)&+ : $kind:expr $(, $($rest:tt)*)? } [$($done:tt)*]
    ) => {
        messages! { @fields $wire $domain { $($($rest)*)? } [$($done)* { [$($field)+] [$($name)+] $kind }] }
    };
    (@fields $wire:ident $domain:ident {} [$({ [$($field:ident)+] [$($name:ident)+] $kind:expr })*]) => {
        messages! { @impls $wire [$domain] [$domain { $($($name),+),* }] $({ [$($field)+] [$($name)+] $kind })* }
    };
    (@fields $wire:ident ($($type:ty),*) {} [$({ [$($field:ident)+] [$($name:ident)+] $kind:expr })*]) => {
        messages! { @impls $wire [($($type),*)] [($($($name),+),*)] $({ [$($field)+] [$($name)+] $kind })* }
    };

    // `shape` is both the pattern and the expression of a value of the domain.
    (@impls $wire:ident [$domain:ty] [$($shape:tt)*] $({ [$($field:ident)+] [$($name:ident)+] $kind:expr })*) => {
        #[allow(unused_parens)]
        impl TryFrom<$crate::wire::v1::$wire> for $domain {
            type Error = $crate::wire::WireError;

            fn try_from(message: $crate::wire::v1::$wire) -> Result<Self, Self::Error> {
                let $crate::wire::v1::$wire { $($($field),+),* } = message;
                $(let ($($name),+) = $crate::wire::field::FieldKind::read(
                    &$kind,
                    concat!(stringify!($wire), $(".", stringify!($field)),+),
                    ($($field),+),
                )?;)*
                Ok($($shape)*)
            }
        }

        #[allow(unused_parens)]
        impl From<$domain> for $crate::wire::v1::$wire {
            fn from(value: $domain) -> Self {
                let $($shape)* = value;
                $(let ($($field),+) = $crate::wire::field::FieldKind::write(&$kind, ($($name),+));)*
                Self { $($($field),+),* }
            }
        }
    };
}

/// Conversions of a oneof: `Wire = Domain { variants }`, both enums with the same names of variants. A variant holds
/// the values that its message is converted to; `Variant(value): kind` names another kind than
/// [`NestedMessage`](super::field::NestedMessage).
macro_rules! oneof {
    (@kind) => { $crate::wire::field::NestedMessage };
    (@kind $kind:expr) => { $kind };
    ($wire:ident = $domain:ident {
        $($variant:ident $(($($value:ident),+))? $({ $($part:ident),+ })? $(: $kind:expr)?),* $(,)?
    }) => {
        #[allow(unused_parens)]
        impl TryFrom<$wire> for $domain {
            type Error = $crate::wire::WireError;

            fn try_from(message: $wire) -> Result<Self, Self::Error> {
                Ok(match message {
                    $($wire::$variant(message) => {
                        let ($($($value),+)? $($($part),+)?) = $crate::wire::field::FieldKind::read(
                            &oneof!(@kind $($kind)?),
                            stringify!($variant),
                            message,
                        )?;
                        Self::$variant $(($($value),+))? $({ $($part),+ })?
                    })*
                })
            }
        }

        #[allow(unused_parens)]
        impl From<$domain> for $wire {
            fn from(value: $domain) -> Self {
                match value {
                    $($domain::$variant $(($($value),+))? $({ $($part),+ })? => Self::$variant(
                        $crate::wire::field::FieldKind::write(
                            &oneof!(@kind $($kind)?),
                            ($($($value),+)? $($($part),+)?),
                        ),
                    ),)*
                }
            }
        }
    };
}
