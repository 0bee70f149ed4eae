//! The pages of a validator, as HTML: pure functions of the API's documents, with the charts, styles and script that they
//! need. Nothing is loaded from elsewhere.

#![forbid(unsafe_code)]
