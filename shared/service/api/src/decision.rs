//! Decisions about miners.

assay_work::names! {
    /// A decision about a miner, by its name in paths and in the records.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Decision {
        /// Lets it in.
        Approve = "approve",
        /// Keeps it out until it is resumed; its session ends at once.
        Suspend = "suspend",
        /// Lets it in again.
        Resume = "resume",
        /// Keeps it out permanently; its session ends at once.
        Revoke = "revoke",
        /// Sets it apart: its passes do not count until it is released.
        Quarantine = "quarantine",
        /// Ends its quarantine.
        Release = "release",
    }
}
